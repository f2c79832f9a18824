"""The claims of pods' ephemeral volumes, in a cluster in memory on which changes are tried."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.ask.whatif.capacity import capacity
from podsched.ask.whatif.evacuation import Scenario, play
from podsched.ask.whatif.world import World, pods_on
from support.volume_world import claim, storage_class, volume
from support.whatif_world import node, owned, world


def obj(manifest: dict[str, Any]) -> AnyObject:
    return from_manifest(manifest).message


def user(name: str, node_name: str = "", storage: str | None = "fast") -> Pod:
    """A pod with an ephemeral volume called scratch."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    if storage is not None:
        spec["storageClassName"] = storage
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    return owned(name, node_name, volumes=[scratch])


def a_world(*objects: AnyObject) -> World:
    """Two nodes in zones a and b, and a class whose volumes are made where the pod is placed."""
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    fast = storage_class("fast", "csi.example.com")
    fast["metadata"]["annotations"] = notes
    nodes = (node(name, labels={"zone": name}) for name in ("a", "b"))
    return world([*nodes, obj(fast), *objects])


def with_volume(name: str) -> list[AnyObject]:
    """A pod on node a, whose ephemeral volume can only be reached from there."""
    mine = claim(f"{name}-scratch", storage_class="fast", volume="made")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
    mine["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    made = volume("made", storage_class="fast", zones=["a"], phase="Bound")
    return [user(name, "a"), obj(mine), obj(made)]


def owners(made: World) -> dict[str, str]:
    claims = made.cluster.list("PersistentVolumeClaim")
    return {one.metadata.name: one.metadata.owner_references[0].uid for one in claims}


def test_the_replacement_of_a_drained_pod_gets_a_new_volume_elsewhere() -> None:
    made = a_world(*with_volume("web-0"))
    [move] = play(made, Scenario(drain=["a"])).moves
    assert (move.to_node, move.reason) == ("b", "")
    assert owners(made) == {"web-0-scratch": "uid-web-0-again"}


def test_claims_are_made_for_pods_that_are_submitted_or_wait() -> None:
    made = a_world(user("waits"))
    waiting = [*made.pending(), made.changes.submit(user("new"))]
    assert all(one.node_name for one in made.schedule(waiting))
    assert owners(made) == {"waits-scratch": "uid-waits", "new-scratch": "uid-new"}


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    made = a_world()
    [outcome] = made.schedule([made.changes.submit(user("new", storage=None))])
    assert outcome.node_name


def test_each_of_several_pods_that_fit_gets_a_claim_of_its_own() -> None:
    assert capacity(a_world(), user("new"), 100).by_node == {"a": 4, "b": 4}


def test_a_claim_of_the_same_name_that_another_made_stays_and_keeps_the_pod_out() -> None:
    made = a_world(obj(claim("new-scratch", storage_class="fast")))
    pod = made.changes.submit(user("new"))
    [outcome] = made.schedule([pod])
    assert "pod is not owner" in outcome.message
    made.changes.remove(pod)
    assert len(made.cluster.list("PersistentVolumeClaim")) == 1


def test_a_rolled_back_trial_leaves_the_claims_as_they_were() -> None:
    made = a_world(*with_volume("web-0"))
    before = made.cluster.list("PersistentVolumeClaim")
    with made.changes.trial():
        play(made, Scenario(drain=["a"]))
    assert made.cluster.list("PersistentVolumeClaim") == before
    assert [pod.name for pod in pods_on(made, "a")] == ["web-0"]


def test_pods_that_fit_are_counted_where_one_is_called_like_a_copy() -> None:
    made = a_world(*with_volume("new-1"))
    asked = user("new")
    asked.metadata.uid = "asked"
    assert capacity(made, asked, 100).by_node == {"a": 3, "b": 4}


def sharing(name: str, **spec: Any) -> Pod:
    """A pod with the claim called shared."""
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
    return owned(name, volumes=[data], **spec)


def nodes_of_sharing(*more: AnyObject) -> list[str]:
    """The nodes of eight pods that share an unbound claim; the first has to be in zone a.

    A node has room for four.
    """
    shared, another = claim("shared", storage_class="fast"), node("a2", labels={"zone": "a"})
    made = a_world(obj(shared), another, *more)
    pods = [sharing("first", nodeSelector={"zone": "a"}), *(sharing(f"web-{n}") for n in range(7))]
    outcomes = made.schedule([made.changes.submit(pod) for pod in pods])
    return [outcome.node_name for outcome in outcomes]


def csi_nodes(*keys: str) -> list[AnyObject]:
    spec = {"drivers": [{"name": "csi.example.com", "topologyKeys": list(keys), "nodeID": "1"}]}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": spec}
    return [obj(kind | {"metadata": {"name": name}}) for name in ("a", "a2", "b")]


@pytest.mark.parametrize(("keys", "nodes"), [(["zone"], {"a", "a2"}), ([], {"a", "a2", "b"})])
def test_pods_that_share_a_claim_go_to_one_node_and_then_wherever_its_volume_is_reached(
    keys: list[str], nodes: set[str]
) -> None:
    found = nodes_of_sharing(*csi_nodes(*keys))
    assert (len(set(found[:4])), set(found)) == (1, nodes)


def test_where_the_topology_of_a_new_volume_is_not_known_they_stay_on_one_node() -> None:
    found = nodes_of_sharing()
    assert (len(set(found[:4])), set(found[4:])) == (1, {""})
