"""Explanations from objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject
from podsched.api.queue_labels import QUEUE_NAME
from podsched.ask.offline_explanation import NOW, OFFLINE, explain_offline
from podsched.config.load import default_config
from podsched.registry import factories
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation, PodState
from support.device_objects import device_class, devices, template, user
from support.engine_world import container, node, pod

SCHEDULER = {"schedulerName": "default-scheduler"}


def asking(cpu: str, on: str = "", **spec: Any) -> dict[str, Any]:
    there = {"nodeName": on} if on else {}
    return {"containers": [container({"cpu": cpu})], **SCHEDULER, **there, **spec}


def explained(name: str, *objects: AnyObject, changes: bool = False) -> Explanation | None:
    request = ExplainRequest(namespace="default", name=name, changes=changes)
    return explain_offline(objects, default_config(), factories(), request)


def test_a_pending_pod_is_explained_whatever_the_order_of_the_objects() -> None:
    objects = [pod("web", asking("3")), pod("there", asking("2", on="a")), node("a")]
    one, other = explained("web", *objects), explained("web", *reversed(objects))
    assert one is not None
    assert one == other
    assert one.state == PodState.PENDING
    assert one.groups[0].shortfalls[0].least.lacks == 1000
    assert list(one.notes) == [OFFLINE]


def test_a_bound_pod_is_decided_on_anew_without_it_and_its_node_comes_first() -> None:
    objects = [node("a"), node("b"), pod("web", asking("3", on="b")), pod("x", asking("1", on="b"))]
    found = explained("web", *objects)
    assert found is not None
    assert (found.state, found.pod.node_name, found.feasible_nodes) == (PodState.BOUND, "b", 2)
    assert [score.node for score in found.scores] == ["b", "a"]
    assert [score.rank for score in found.scores] == [2, 1]
    assert NOW in found.notes


def test_a_gated_pod_tells_its_gate_and_where_it_would_fit() -> None:
    found = explained("web", node("a"), pod("web", asking("1", schedulingGates=[{"name": "g"}])))
    assert found is not None
    assert (found.queue.queue, found.queue.gating_plugin) == ("gated", "SchedulingGates")
    assert [event.event for event in found.wake_events] == ["PodUpdatePodSchedulingGatesEliminated"]
    assert found.feasible_nodes == 1


@pytest.mark.parametrize(("names", "told"), [("g", "gate"), ("gh", "gates")])
def test_changes_of_a_gated_pod_remove_its_gates_too(names: str, told: str) -> None:
    gates = [{"name": name} for name in names]
    waiting = pod("web", asking("9", schedulingGates=gates))
    found = explained("web", node("a"), waiting, changes=True)
    assert found is not None
    text = f"lower its request of cpu from 9 to 4, and remove its scheduling {told}"
    assert text in [change.description for change in found.changes]


def test_a_pod_that_fits_nodes_but_waits_for_its_group_is_not_told_that_nothing_makes_it_fit() -> (
    None
):
    member = pod("web", asking("1", schedulingGroup={"podGroupName": "nowhere"}))
    found = explained("web", node("a"), member, changes=True)
    assert found is not None
    assert (found.queue.gating_plugin, found.feasible_nodes) == ("GangScheduling", 1)
    assert list(found.notes) == [OFFLINE]


def kueue(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> AnyObject:
    metadata = {"name": name, "namespace": namespace}
    version = "v1" if kind == "Namespace" else "kueue.x-k8s.io/v1beta2"
    manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    return from_manifest(manifest).message


def test_a_pod_of_a_queue_is_explained_with_the_claims_that_are_made_for_it() -> None:
    quotas = {"cpu": "2", "memory": "2Gi", "gpu.com/gpu": "2"}
    flavor = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    flavors = [{"name": "default", "resources": flavor}]
    groups = [{"coveredResources": [*quotas], "flavors": flavors}]
    objects = [
        kueue("Namespace", "default", {}),
        kueue("ResourceFlavor", "default", {}),
        kueue("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": groups}),
        kueue("LocalQueue", "q", {"clusterQueue": "cq"}, "default"),
        *(node("a"), devices("a", 1), device_class(resource="gpu.com/gpu"), template("one")),
    ]
    asking = user("web", template="one", **SCHEDULER)
    asking.metadata.labels[QUEUE_NAME] = "q"
    found = explained("web", *objects, asking)
    assert found is not None
    assert found.admission.sentence.startswith("Its quota suffices")


def test_a_pod_of_another_scheduler_is_explained_with_the_first_profile() -> None:
    found = explained("web", node("a"), pod("web", asking("1") | {"schedulerName": "other"}))
    assert found is not None
    assert "No profile is called other: it is explained with default-scheduler." in found.notes
    assert found.feasible_nodes == 1


def test_pods_that_have_ended_or_are_not_there() -> None:
    done = pod("done", asking("1", on="a"))
    done.status.phase = "Failed"
    found = explained("done", node("a"), done)
    assert found is not None
    assert found.state == PodState.FINISHED
    assert explained("nobody", node("a")) is None
