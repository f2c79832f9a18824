"""New pods of queues, played in virtual time on the objects of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.ask.whatif.plan import Decision
from podsched.config.load import default_config, load_config
from podsched.lab.replay.queue_changes import play_change, play_new_pods
from podsched.registry import factories

KUEUE = "kueue.x-k8s.io/v1beta2"
QUOTA = {"name": "cpu", "nominalQuota": 4}
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [QUOTA]}]}


def an(kind: str, name: str, version: str = KUEUE, **more: Any) -> AnyObject:
    meta = {"name": name, "uid": f"uid-{name}", "labels": more.pop("labels", {})}
    if kind in ("Pod", "LocalQueue"):
        meta["namespace"] = "default"
    return from_manifest({"apiVersion": version, "kind": kind, "metadata": meta, **more}).message


def a_pod(name: str, cpu: int, *, queue: str = "q", on: str = "", priority: int = 0) -> Pod:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [container],
        "nodeName": on,
        "priority": priority,
    }
    found = an("Pod", name, "v1", labels=labels, spec=spec)
    assert isinstance(found, Pod)
    return found


@pytest.fixture
def cluster() -> list[AnyObject]:
    """A node of 8 CPUs, and a queue with a quota of 4."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    queue = {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": [GROUP]}
    return [
        an("Namespace", "default", "v1"),
        an("Node", "n", "v1", status={"allocatable": {"cpu": 8, "pods": 110}}),
        an("ResourceFlavor", "default"),
        an("ClusterQueue", "cq", spec=queue),
        an("LocalQueue", "q", spec={"clusterQueue": "cq"}),
    ]


def play(cluster: list[AnyObject], *new: Pod) -> dict[str, Decision]:
    found, _ = play_new_pods(cluster, new, default_config(), factories())
    return {one.pod.removeprefix("default/"): one for one in found.decisions}


def test_a_pod_beyond_the_quota_of_its_queue_gets_no_node_and_the_reason(
    cluster: list[AnyObject],
) -> None:
    found = play(cluster, a_pod("fits", 3), a_pod("waits", 2), a_pod("free", 3, queue=""))
    assert found["fits"] == Decision("default/fits", "n")
    assert found["free"] == Decision("default/free", "n")
    assert found["waits"].node == ""
    assert found["waits"].message.startswith("It needs more quota: of cpu 1 ")


def test_pods_of_a_group_in_other_schedulers_labels_are_one_unit_if_the_configuration_says_so(
    cluster: list[AnyObject],
) -> None:
    pods = [a_pod("a", 1), a_pod("b", 1)]
    for one in pods:
        one.metadata.labels["scheduling.x-k8s.io/pod-group"] = "t"
    args = [{"name": "GangScheduling", "args": {"labelGroups": True}}]
    config = load_config({"profiles": [{"pluginConfig": args}]})
    objects = [*cluster, *pods]
    [found] = play_change(objects, objects, config, factories())
    assert (found.unit, set(found.nodes)) == ("default/t", {"default/a", "default/b"})


def test_claims_of_pods_that_wait_are_made(cluster: list[AnyObject]) -> None:
    later = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    made = a_pod("a", 1)
    spec = made.spec.volumes.add(name="v").ephemeral.volume_claim_template.spec
    spec.storage_class_name, spec.resources.requests["storage"] = "fast", "1Gi"
    spec.access_modes.append("ReadWriteOnce")
    objects = [*cluster, an("StorageClass", "fast", "storage.k8s.io/v1", **later), made]
    [found] = play_change(objects, objects, default_config(), factories())
    assert (found.nodes, found.why) == ({"default/a": "n"}, "")


def test_what_is_preempted_for_a_pod_of_a_queue_is_said(cluster: list[AnyObject]) -> None:
    running = a_pod("running", 4, on="n")
    found = play([*cluster, running], a_pod("urgent", 4, priority=10))
    assert found == {"urgent": Decision("default/urgent", "n", ("default/running",))}


def test_what_is_preempted_for_its_quota_alone_is_said_of_a_pod_that_gets_a_node(
    cluster: list[AnyObject],
) -> None:
    labels, status = {"kubernetes.io/hostname": "empty"}, {"allocatable": {"cpu": 8, "pods": 110}}
    cluster.append(an("Node", "empty", "v1", labels=labels, status=status))
    running = [a_pod("running", 4, on="n"), a_pod("beside", 3, queue="", on="n")]
    hopeless, urgent = a_pod("hopeless", 100, queue=""), a_pod("urgent", 4, priority=10)
    urgent.spec.node_selector.update(labels)
    found = play([*cluster, *running], hopeless, urgent)
    assert found["urgent"] == Decision("default/urgent", "empty", ("default/running",))
    assert found["hopeless"].victims == ()
