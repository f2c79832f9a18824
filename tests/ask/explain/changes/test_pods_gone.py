"""Which pods are suggested to go."""

from __future__ import annotations

from typing import Any

from podsched.ask.explain.changes.pods_gone import pods_gone
from podsched.v1.scheduling_pb2 import Change
from support.changes_world import World, message
from support.plain_topology import HOSTNAME, REQUIRED, ZONE
from support.volume_world import claim, volume
from support.whatif_world import world


def node(name: str, **labels: str) -> Any:
    return message(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name, **labels}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
    )


def manifest(name: str, cpu: str, metadata: dict[str, Any] | None = None, **spec: Any) -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    known = {"name": name, "namespace": "default", "uid": name, **(metadata or {})}
    full = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": known, "spec": full}


def running(name: str, cpu: str, on: str = "a", **parts: Any) -> Any:
    return message(manifest(name, cpu, parts.pop("metadata", None), nodeName=on, **parts))


def found(world: World) -> Change | None:
    return pods_gone(world.question())


def gone(world: World) -> list[str]:
    change = found(world)
    return [] if change is None else [pod.name for pod in change.pods]


def test_fewer_pods_are_better_than_less_important_ones() -> None:
    pods = [running("big", "2", priority=9), running("p", "1"), running("q", "1")]
    assert gone(World(manifest("waits", "2"), [node("a")], pods)) == ["big"]


def test_of_as_many_pods_the_least_important_go() -> None:
    pods = [running("p", "2", priority=9), running("q", "2", priority=1)]
    assert gone(World(manifest("waits", "2"), [node("a")], pods)) == ["q"]


def test_pods_that_terminate_anyway_are_waited_for() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods = [running("p", "2"), running("q", "2", metadata=leaving, priority=9)]
    change = found(World(manifest("waits", "2"), [node("a")], pods))
    assert change is not None
    assert change.description == "wait until default/q on node a is gone"


def test_a_pod_on_another_node_of_the_zone_may_be_the_one_in_the_way() -> None:
    web = {"labels": {"app": "web"}}
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {REQUIRED: [term]}}
    pods = [running("web-0", "1", on="full", metadata=web), running("rest", "3", on="full")]
    nodes = [node("full", **{ZONE: "z"}), node("free", **{ZONE: "z"})]
    change = found(World(manifest("waits", "4", web, affinity=apart), nodes, pods))
    assert change is not None
    assert [pod.name for pod in change.pods] == ["web-0"]
    assert change.examples == ["free"]


def test_the_user_of_a_claim_for_a_single_pod_is_in_the_way_on_all_nodes() -> None:
    uses = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    once = claim("c", volume="v", modes=("ReadWriteOncePod",))
    bound = {"claimRef": {"name": "c", "namespace": "default", "uid": "uid-c"}}
    storage = [once, volume("v", modes=("ReadWriteOncePod",), **bound)]
    nodes = [node("drained"), node("free")]
    nodes[0].spec.unschedulable = True
    pods = [running("user", "1", on="drained", **uses), message(manifest("waits", "1", **uses))]
    made = world([*map(message, storage), *nodes, *pods])
    change = pods_gone(made.question(made.pending()[0]))
    assert change is not None
    assert change.description == "delete pod default/user on node drained"
    assert change.examples == ["free"]


def test_nothing_is_suggested_where_no_eviction_would_help() -> None:
    assert found(World(manifest("waits", "5"), [node("a")], [running("p", "1")])) is None


def test_many_different_pods_are_chosen_from_without_trying_all_sets() -> None:
    pods = [running(f"p{i}", f"{100 + i}m") for i in range(9)]
    change = found(World(manifest("waits", "3900m"), [node("a")], pods))
    assert change is not None
    assert len(change.pods) == 8, "4 cpu, of which 936m are used: 836m have to be freed"
