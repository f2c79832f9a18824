"""``sched simulate --pod`` in a cluster with queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import to_manifest
from support.commands import Commands
from support.device_objects import device_class, devices, template

KUEUE = "kueue.x-k8s.io/v1beta2"
IN_QUEUE = {"kueue.x-k8s.io/queue-name": "q"}


def an(kind: str, name: str, version: str = KUEUE, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": more.pop("labels", {})}
    if kind in ("Pod", "LocalQueue"):
        meta["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def node(name: str, cpu: int) -> dict[str, Any]:
    return an("Node", name, "v1", status={"allocatable": {"cpu": cpu, "pods": 110}})


def pod(name: str, cpu: int, *, queue: bool = True, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", **spec}
    return an("Pod", name, "v1", labels=IN_QUEUE if queue else {}, spec=spec)


def queues(quota: int, resources: Sequence[str] = ("cpu",), **spec: Any) -> list[dict[str, Any]]:
    amounts = [{"name": name, "nominalQuota": quota} for name in resources]
    flavors = [{"name": "default", "resources": amounts}]
    groups = [{"coveredResources": list(resources), "flavors": flavors}]
    return [
        an("Namespace", "default", "v1"),
        an("ResourceFlavor", "default"),
        an("ClusterQueue", "cq", spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}),
        an("LocalQueue", "q", spec={"clusterQueue": "cq"}),
    ]


class Simulated:
    """Runs ``sched simulate`` on manifests."""

    def __init__(self, sched: Commands, folder: Path) -> None:
        self._sched, self._folder = sched, folder
        self.err, self.code = "", 0

    def __call__(self, cluster: list[Any], *pods: dict[str, Any], options: Any = ()) -> Any:
        files = []
        for name, items in (("cluster", cluster), ("pods", pods)):
            path = self._folder / f"{name}.json"
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
            files.append(str(path))
        pods_option = ("--pod", files[1]) if pods else ()
        done = self._sched("simulate", "-f", files[0], *pods_option, *options, "-o", "json")
        self.err, self.code = " ".join(done.err.split()), done.code
        return json.loads(done.out)


@pytest.fixture
def simulated(sched: Commands, tmp_path: Path) -> Simulated:
    return Simulated(sched, tmp_path)


def test_a_pod_beyond_the_quota_of_its_queue_gets_no_node_though_nodes_have_room(
    simulated: Simulated,
) -> None:
    cluster = [*queues(4), node("n", 8), pod("running", 3, nodeName="n")]
    [one] = simulated(cluster, pod("new", 2))["pods"]
    assert "node" not in one
    assert one["message"].startswith("It needs more quota: of cpu 1 in flavor default")
    assert (simulated.code, simulated.err) == (1, "")


@pytest.mark.parametrize("phase", ["", "Succeeded"])
def test_a_pod_within_the_quota_of_its_queue_gets_a_node(simulated: Simulated, phase: str) -> None:
    """Though it has run already, where its manifest is from."""
    new = pod("new", 2) | {"status": {"phase": phase}}
    assert simulated([*queues(4), node("n", 8)], new) == {
        "fits": True, "moves": [], "pods": [{"pod": "default/new", "node": "n"}]
    }  # fmt: skip
    assert simulated.code == 0


def test_quota_for_some_of_several_pods_places_these(simulated: Simulated) -> None:
    found = simulated([*queues(4), node("n", 8)], pod("new", 2), options=["--replicas", "3"])
    assert [one.get("node") for one in found["pods"]] == ["n", "n", None]


def test_victims_by_quota_are_named(simulated: Simulated) -> None:
    first = {"withinClusterQueue": "LowerPriority"}
    urgent = an("PriorityClass", "urgent", "scheduling.k8s.io/v1", value=10)
    cluster = [*queues(4, preemption=first), node("n", 8), pod("running", 4, nodeName="n"), urgent]
    [one] = simulated(cluster, pod("new", 4, priorityClassName="urgent"))["pods"]
    assert (one["node"], one["victims"]) == ("n", ["default/running"])


def test_what_waits_in_the_queue_already_has_its_turn_first(simulated: Simulated) -> None:
    waiting = pod("waiting", 3)
    waiting["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cluster = [*queues(4), node("n", 8), waiting]
    [one] = simulated(cluster, pod("new", 2))["pods"]
    assert "node" not in one


def test_added_nodes_take_waiting_pods_as_far_as_quota_permits(simulated: Simulated) -> None:
    cluster = [*queues(4), node("n", 1), pod("a", 3), pod("b", 3)]
    (path := simulated._folder / "big.json").write_text(json.dumps(node("big", 8)))
    found = simulated(cluster, options=["--add-node", str(path)])
    assert sorted(one.get("node", "") for one in found["pods"]) == ["", "big"]


def test_a_pod_in_a_queue_gets_the_devices_of_its_template(simulated: Simulated) -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one"}]
    objects = device_class(resource="gpu.com/gpu"), template("one"), devices("n", 1)
    cluster = [*queues(4, ["cpu", "gpu.com/gpu"]), node("n", 8), *map(to_manifest, objects)]
    found = simulated(cluster, pod("new", 1, resourceClaims=claims))
    assert found["pods"] == [{"pod": "default/new", "node": "n"}]


def job(parallelism: int, completions: int) -> dict[str, Any]:
    template = {"spec": {**pod("", 2)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "completions": completions, "template": template}
    made = an("Job", "j", "batch/v1", labels=IN_QUEUE, spec={**spec, "suspend": True})
    made["metadata"]["namespace"] = "default"
    return made


def test_the_pods_of_a_job_in_a_queue_are_placed_together_or_not_at_all(
    simulated: Simulated,
) -> None:
    cluster = [*queues(4), node("n", 8)]
    found = simulated(cluster, job(3, 3))
    assert [one.get("node") for one in found["pods"]] == [None, None, None]
    found = simulated(cluster, job(3, 3), options=["--replicas", "2"])
    assert [one.get("node") for one in found["pods"]] == ["n", "n"]


def test_the_pods_of_a_job_in_a_queue_that_runs_some_after_others_are_placed_one_by_one(
    simulated: Simulated,
) -> None:
    found = simulated([*queues(4), node("n", 8)], job(3, 6))
    assert sorted(one.get("node", "") for one in found["pods"]) == ["", "n", "n"]


@pytest.mark.parametrize("replicas", [[], ["--replicas", "2"]])
def test_without_a_cluster_queue_quota_does_not_count_and_this_is_said(
    simulated: Simulated, replicas: list[str]
) -> None:
    found = simulated([node("n", 8)], pod("new", 1), options=replicas)
    assert found.get("best") == ["n"] or found["fits"]
    assert simulated.err.count("quota does not count here, because there is no ClusterQueue") == 1
    simulated([node("n", 8)], pod("new", 1, queue=False), options=replicas)
    assert simulated.err == ""


def owned(name: str, cpu: int, kind: str = "ReplicaSet", **spec: Any) -> dict[str, Any]:
    """A pod of a controller on the node "n"."""
    made = pod(name, cpu, nodeName="n", **spec)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "u"}
    made["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    return made


def fates(found: Any) -> list[tuple[str, str, str]]:
    return [(one["pod"], one["fate"], one.get("to", "")) for one in found["moves"]]


@pytest.mark.parametrize("change", ["--drain", "--remove-node"])
def test_pods_of_a_node_that_goes_use_the_quota_that_they_free(
    simulated: Simulated, change: str
) -> None:
    cluster = [*queues(4), node("n", 8), node("m", 8), owned("a", 2), owned("b", 2)]
    found = simulated(cluster, options=[change, "n"])
    assert fates(found) == [(f"default/{name}", "Moves", "m") for name in "ab"]
    assert (simulated.code, simulated.err) == (0, "")


@pytest.mark.parametrize("change", ["--drain", "--remove-node"])
def test_pods_of_a_node_that_goes_do_not_come_back_while_their_queue_is_stopped(
    simulated: Simulated, change: str
) -> None:
    cluster = [*queues(4, stopPolicy="Hold"), node("n", 8), node("m", 8), owned("a", 2)]
    found = simulated(cluster, options=[change, "n"])
    assert fates(found) == [("default/a", "NoLongerFits", "")]
    assert "ClusterQueue cq is stopped" in found["moves"][0]["reason"]


@pytest.mark.parametrize(("kind", "first"), [("ReplicaSet", "waiting"), ("Job", "runs")])
def test_a_pod_that_waits_gets_the_quota_of_a_drained_one_unless_a_job_keeps_its_place(
    simulated: Simulated, kind: str, first: str
) -> None:
    waiting, runs = pod("waiting", 3), owned("runs", 3, kind)
    runs["metadata"] |= {"uid": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}
    waiting["metadata"] |= {"uid": "w", "creationTimestamp": "2026-01-02T00:00:00Z"}
    cluster = [*queues(4), node("n", 8), node("m", 8), waiting, runs]
    found = simulated(cluster, options=["--drain", "n", "--pending"])
    assert found["moves"][0].get("to") == ("m" if first == "runs" else None)
    assert found["pods"][0].get("node") == ("m" if first == "waiting" else None)


def test_the_pods_of_a_budget_get_quota_wave_by_wave(simulated: Simulated) -> None:
    budget = an("PodDisruptionBudget", "b", "policy/v1")
    budget["metadata"]["namespace"] = "default"
    budget["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": IN_QUEUE}}
    cluster = [*queues(4), node("n", 8), node("m", 8), budget, owned("a", 2), owned("b", 2)]
    found = simulated(cluster, options=["--drain", "n"])
    assert [(one["to"], one["wave"]) for one in found["moves"]] == [("m", 1), ("m", 2)]


def test_a_drained_pod_of_a_queue_gets_devices_elsewhere(simulated: Simulated) -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one"}]
    made = device_class(resource="gpu.com/gpu"), template("one"), devices("n", 1), devices("m", 1)
    nodes = node("n", 8), node("m", 8)
    cluster = [*queues(1, ["cpu", "gpu.com/gpu"]), *nodes, *map(to_manifest, made)]
    found = simulated([*cluster, owned("a", 1, resourceClaims=claims)], options=["--drain", "n"])
    assert fates(found) == [("default/a", "Moves", "m")]


def test_a_new_pod_beyond_the_quota_gets_no_node_beside_a_drain(simulated: Simulated) -> None:
    found = simulated([*queues(1), node("n", 8), node("m", 8)], pod("new", 2),
                      options=["--drain", "m"])  # fmt: skip
    assert not found["fits"]
    assert (simulated.code, simulated.err) == (1, "")
