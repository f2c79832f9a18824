"""A cluster in memory whose pods are placed as quota permits, one call after another."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.evacuation import MoveOutcome
from podsched.ask.whatif.plan import Decision, forecast
from podsched.ask.whatif.world import pods_on
from podsched.config.load import default_config
from podsched.lab.replay.queue_world import QueueWorld
from podsched.registry import factories
from support.device_objects import device_class, devices, template

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "gpu.com/gpu"


def an(kind: str, name: str, version: str = KUEUE, **more: Any) -> AnyObject:
    meta = {"name": name, "uid": f"uid-{name}", "labels": more.pop("labels", {})}
    if kind in ("Pod", "LocalQueue"):
        meta["namespace"] = "default"
    return from_manifest({"apiVersion": version, "kind": kind, "metadata": meta, **more}).message


def a_pod(name: str, cpu: int, priority: int = 0, **spec: Any) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec |= {"schedulerName": "default-scheduler", "containers": [container]}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    found = an("Pod", name, "v1", labels=labels, spec={**spec, "priority": priority})
    assert isinstance(found, Pod)
    return found


def a_world(within: str = "Never", *more: AnyObject) -> QueueWorld:
    """A node of 8 CPUs and a device, and a queue with a quota of 4 CPUs and 2 devices."""
    quotas = [{"name": "cpu", "nominalQuota": 4}, {"name": GPU, "nominalQuota": 2}]
    flavors = [{"name": "default", "resources": quotas}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": flavors}]
    preemption = {"withinClusterQueue": within}
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption}
    objects = [
        an("Namespace", "default", "v1"),
        an("Node", "n", "v1", status={"allocatable": {"cpu": 8, "pods": 110}}),
        an("ResourceFlavor", "default"),
        an("ClusterQueue", "cq", spec=spec),
        an("LocalQueue", "q", spec={"clusterQueue": "cq"}),
        device_class(resource=GPU),
        template("one"),
        devices("n", 1),
        *more,
    ]
    return QueueWorld.of_objects(objects, default_config(), factories())


def placed(world: QueueWorld, pod: Pod) -> Outcome:
    [outcome] = world.schedule([world.changes.submit(pod)])
    return outcome


def on_node(world: QueueWorld) -> list[str]:
    return [pod.name for pod in pods_on(world, "n")]


def test_a_placed_pod_keeps_its_quota_from_later_ones_of_a_higher_priority() -> None:
    world = a_world()
    assert placed(world, a_pod("first", 3)).node_name == "n"
    assert placed(world, a_pod("second", 3, priority=10)).node_name == ""
    assert on_node(world) == ["first"]


def test_victims_are_gone_afterwards() -> None:
    world = a_world(within="LowerPriority")
    placed(world, a_pod("low", 3))
    high = placed(world, a_pod("high", 3, priority=10))
    assert [pod.name for pod in high.victims] == ["low"]
    assert on_node(world) == ["high"]


def test_the_devices_of_a_placed_pod_are_not_given_to_later_ones() -> None:
    world = a_world()
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one"}]
    assert placed(world, a_pod("first", 1, resourceClaims=claims)).node_name == "n"
    assert placed(world, a_pod("second", 1, resourceClaims=claims)).node_name == ""


def test_the_devices_of_an_extended_resource_are_not_given_to_later_pods_either() -> None:
    """Though no claim is there before the first of them."""
    world = a_world()
    first, second = a_pod("first", 1), a_pod("second", 1)
    for pod in (first, second):
        resources = pod.spec.containers[0].resources
        resources.requests[GPU] = resources.limits[GPU] = "1"
    assert placed(world, first).node_name == "n"
    assert placed(world, second).node_name == ""


@pytest.mark.parametrize("with_volume", [False, True])
def test_a_pod_gets_its_node_though_its_volume_is_yet_to_be_provisioned_or_bound(
    with_volume: bool,
) -> None:
    storage = "storage.k8s.io/v1"
    later = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    offered = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    disk = {"spec": {**offered, "capacity": {"storage": "1Gi"}}, "status": {"phase": "Available"}}
    volumes = [an("PersistentVolume", "disk", "v1", **disk)] if with_volume else []
    world = a_world("Never", an("StorageClass", "fast", storage, **later), *volumes)
    wanted = {**offered, "resources": {"requests": {"storage": "1Gi"}}}
    scratch = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}
    assert placed(world, a_pod("first", 1, volumes=[scratch])).node_name == "n"
    [claim] = world.cluster.list("PersistentVolumeClaim")
    assert bool(claim.spec.volume_name == "disk") == with_volume
    assert placed(world, a_pod("second", 1)).node_name == "n"


def test_a_pod_that_waits_is_placed_when_others_are_scheduled_and_keeps_its_node() -> None:
    world = a_world()
    waits = world.changes.submit(a_pod("waits", 2))
    placed(world, a_pod("other", 2))
    assert on_node(world) == ["other", "waits"]
    [outcome] = world.schedule([waits])
    assert (outcome.node_name, outcome.message) == ("n", "")


def test_a_pod_that_was_placed_and_preempted_before_its_turn_has_no_node() -> None:
    world = a_world(within="LowerPriority")
    waits = world.changes.submit(a_pod("waits", 3))
    placed(world, a_pod("other", 1))
    placed(world, a_pod("high", 4, priority=10))
    [outcome] = world.schedule([waits])
    assert (outcome.node_name, outcome.message) == ("", "it got a node, and was preempted later")


def test_a_forecast_names_what_new_pods_preempt_by_quota_and_what_becomes_of_it() -> None:
    world = a_world(within="LowerPriority")
    placed(world, a_pod("low", 3))
    world.changes.submit(a_pod("waits", 4))
    found = forecast(world, [a_pod("high", 3, priority=10)])
    assert found.decisions == (Decision("default/high", "n", ("default/low",)),)
    assert [(move.pod.name, move.outcome) for move in found.moves] == [("low", MoveOutcome.LOST)]
