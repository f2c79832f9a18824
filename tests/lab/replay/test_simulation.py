"""Workloads run by the real scheduler in virtual time."""

from __future__ import annotations

import itertools
from copy import deepcopy
from pathlib import Path

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import (
    AnyObject,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    ResourceClaim,
)
from podsched.ask.whatif.claims import with_claims
from podsched.config.load import default_config, load_config
from podsched.lab.replay.history import History
from podsched.lab.replay.recording import Recording
from podsched.lab.replay.simulation import cluster_after
from podsched.lab.replay.workload import Workload, workload_of
from podsched.lib import event_loop
from podsched.registry import factories
from support.device_objects import device_class, devices, resource_claim, template, user
from support.gangs import gang
from support.recordings import Script, a_node, a_pod

KUEUE = "kueue.x-k8s.io/v1beta2"
MOST_ALLOCATED = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ],
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        }
    ]
}


def simulated(recording: Recording, config: object = None) -> History:
    loaded = default_config() if config is None else load_config(config)  # type: ignore[arg-type]
    workload = workload_of(recording, {"default-scheduler"})
    return cluster_after(workload, loaded, factories()).history()


def with_run_time(pod: Pod, seconds: float) -> Pod:
    pod.metadata.annotations["podsched.io/run-seconds"] = str(seconds)
    return pod


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "a.rec", a_node("n1"), a_node("n2"))


def test_pods_wait_for_the_room_that_others_free_at_the_end_of_their_time(script: Script) -> None:
    first = [with_run_time(a_pod(f"a{n}", "3"), 3600.0) for n in range(2)]
    found = simulated(script.added(1.0, *first).added(2.0, a_pod("b", "3")).ended(7200.0))
    assert found.pods["uid-a0"].ended == pytest.approx(3601.0, abs=0.1)
    waited = found.pods["uid-b"]
    assert waited.unschedulable
    assert waited.waited == pytest.approx(3599.0, abs=0.1)
    assert waited.node in ("n1", "n2")
    assert waited.ended is None


def test_a_pod_that_is_placed_elsewhere_runs_as_long(script: Script) -> None:
    pods = [a_pod("a"), a_pod("b")]
    script.added(1.0, *pods).bound(2.0, pods[0], "n1").bound(2.0, pods[1], "n2")
    recording = script.deleted(60.0, *pods).ended(100.0)
    spread, packed = simulated(recording), simulated(recording, MOST_ALLOCATED)
    assert {pod.node for pod in spread.pods.values()} == {"n1", "n2"}
    assert len({pod.node for pod in packed.pods.values()}) == 1
    for pod in packed.pods.values():
        assert pod.ended is not None and pod.bound is not None
        assert pod.ended - pod.bound == pytest.approx(58.0)


def test_a_preemptor_gets_its_place_when_its_victim_has_ended(script: Script) -> None:
    low = [a_pod(f"low{n}", "3", priority=0) for n in range(2)]
    script.added(1.0, *low).added(5.0, a_pod("high", "3", priority=100))
    found = simulated(script.ended(60.0))
    victims = [pod for pod in found.pods.values() if pod.preempted]
    high = found.pods["uid-high"]
    assert len(victims) == 1
    assert high.node == victims[0].node
    assert victims[0].ended == pytest.approx(6.0, abs=0.1), "a second after its eviction"
    assert high.bound is not None and high.bound >= (victims[0].ended or 0.0)


def test_pods_end_with_their_node(script: Script) -> None:
    pods = [a_pod("a", "3"), a_pod("b", "3")]
    found = simulated(script.added(1.0, *pods).deleted(9.0, a_node("n2")).ended(20.0))
    assert sorted((pod.node, pod.ended) for pod in found.pods.values()) == [
        ("n1", None),
        ("n2", 9.0),
    ]
    assert [(span.name, span.ends) for span in found.nodes] == [("n2", 9.0), ("n1", 20.0)]


LOCAL = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "uid": "uid-class"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk", "uid": "uid-disk"},
    "spec": {**LOCAL, "capacity": {"storage": "1Gi"}},
    "status": {"phase": "Available"},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default", "uid": "uid-data"},
    "spec": {**LOCAL, "resources": {"requests": {"storage": "1Gi"}}},
}


def test_a_pod_is_bound_when_the_recorded_controller_has_bound_its_volume(tmp_path: Path) -> None:
    objects = [from_manifest(item).message for item in (STORAGE_CLASS, VOLUME, CLAIM)]
    script = Script(tmp_path / "a.rec", a_node("n1"), *objects)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    bound = deepcopy(CLAIM)
    bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}  # type: ignore[index]
    bound["spec"]["volumeName"] = "disk"  # type: ignore[index]
    script.added(1.0, a_pod("a", volumes=volumes)).modified(5.0, from_manifest(bound).message)
    assert simulated(script.ended(20.0)).pods["uid-a"].bound == pytest.approx(5.0, abs=0.1)


def test_the_claim_of_an_ephemeral_volume_goes_with_its_pod_and_no_sooner(tmp_path: Path) -> None:
    made = {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM["spec"]}}}
    pod, claim = a_pod("b", "3", volumes=[{"name": "v", **made}]), from_manifest(CLAIM).message
    assert isinstance(claim, PersistentVolumeClaim)
    claim.metadata.name = "b-v"
    claim.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
    claim.metadata.owner_references.add(
        api_version="v1", kind="Pod", name="b", uid="uid-b", controller=True
    )
    claim.spec.volume_name = "disk"
    objects = [from_manifest(item).message for item in (STORAGE_CLASS, VOLUME)]
    script = Script(tmp_path / "a.rec", a_node("n1"), *objects)
    script.added(1.0, with_run_time(a_pod("a", "3"), 10.0)).added(2.0, pod, claim)
    script.bound(3.0, pod, "n1").deleted(5.0, pod)
    claim.metadata.deletion_timestamp.FromSeconds(1_800_000_005)
    script.modified(5.1, claim).deleted(5.2, claim)
    workload = workload_of(script.ended(20.0), {"default-scheduler"})
    cluster = cluster_after(workload, default_config(), factories())
    assert cluster.history().pods["uid-b"].ended == pytest.approx(13.0, abs=0.1)
    assert not cluster.objects("PersistentVolumeClaim")


QUEUES = [
    {"kind": "ResourceFlavor", "metadata": {"name": "default"}},
    {
        "kind": "ClusterQueue",
        "metadata": {"name": "team"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 2}]}
                    ],
                }
            ],
        },
    },
    {
        "kind": "LocalQueue",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"clusterQueue": "team"},
    },
]


def test_pods_of_queues_wait_for_quota_and_none_is_evicted_for_not_being_ready(
    tmp_path: Path,
) -> None:
    objects = [from_manifest({"apiVersion": KUEUE, **each}).message for each in QUEUES]
    script = Script(tmp_path / "a.rec", a_node("n1"), *objects)
    pods = [with_run_time(a_pod(name, "2"), 600.0) for name in ("a", "b")]
    for pod in pods:
        pod.metadata.labels["kueue.x-k8s.io/queue-name"] = "team"
    recording = script.added(1.0, pods[0]).added(2.0, pods[1]).ended(1000.0)
    found = simulated(recording, {"queues": {"waitForPodsReady": {"timeout": "1m"}}})
    assert found.pods["uid-a"].ended == pytest.approx(601.0, abs=0.1)
    assert found.pods["uid-b"].waited == pytest.approx(599.0, abs=2.0)


def test_the_same_workload_runs_the_same_way_every_time(script: Script) -> None:
    for number in range(60):
        pod = with_run_time(a_pod(f"p{number}", f"{300 + 37 * number % 900}m"), 5.0 + number % 7)
        pod.spec.priority = number % 3
        script.added(number / 5, pod)
    recording = script.ended(40.0)
    first, second = simulated(recording), simulated(recording)
    assert first.pods == second.pods
    assert any(pod.preempted for pod in first.pods.values())


def test_it_runs_the_same_way_on_a_machine_that_is_slow(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        pod = with_run_time(a_pod(f"p{number}", f"{300 + 37 * number % 900}m"), 5.0 + number % 7)
        pod.spec.priority = number % 3
        script.added(number // 6, pod)
    recording = script.ended(40.0)
    first, calls = simulated(recording), itertools.count()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: next(calls) * event_loop.ROUND)
    assert simulated(recording).pods == first.pods
    assert any(pod.preempted for pod in first.pods.values())


def test_pods_that_waited_before_fit_nowhere_in_each_run_without_room_for_them(
    tmp_path: Path,
) -> None:
    waiting = a_pod("big", "64")
    waiting.status.conditions.append(
        PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message="0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling.",
        )
    )
    recording = Script(tmp_path / "a.rec", a_node("n1"), waiting).ended(5.0)
    recorded = workload_of(recording, {"default-scheduler"}).recorded
    assert recorded is not None and recorded.pods["uid-big"].unschedulable
    assert simulated(recording).pods["uid-big"].unschedulable, "its condition stays as it was"
    roomy = Script(tmp_path / "b.rec", a_node("n1", "64"), waiting).ended(5.0)
    assert not simulated(roomy).pods["uid-big"].unschedulable


def made_for(pod: Pod, claim: str) -> ResourceClaim:
    """A claim for one device that was generated for a pod, which names it in its status."""
    pod.spec.resource_claims.add(name="gpu", resource_claim_template_name="one")
    # Selectors are compiled in a thread.
    made = resource_claim(claim, 'device.driver == "gpu.example.com"')
    made.metadata.owner_references.add(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    return made


def test_pods_wait_for_devices_and_take_what_others_give_back(tmp_path: Path) -> None:
    script = Script(tmp_path / "a.rec", a_node("n1"), device_class(), devices("n1", 1))
    for name, at in (("first", 1.0), ("second", 2.0)):
        pod = with_run_time(a_pod(name), 60.0)
        claim = made_for(pod, f"{name}-claim")
        script.added(at, pod).added(at + 0.1, claim)
        pod.status.resource_claim_statuses.add(name="gpu", resource_claim_name=f"{name}-claim")
        script.modified(at + 0.2, pod)
        # As it was: both had a device, and the claims went with their pods.
        result = claim.status.allocation.devices.results.add(request="gpus")
        result.driver, result.pool, result.device = "gpu.example.com", "n1", "gpu-0"
        claim.status.reserved_for.add(resource="pods", name=name, uid=pod.metadata.uid)
        script.modified(at + 0.3, claim).deleted(at + 0.4, claim)
    found = simulated(script.ended(300.0))
    first, second = found.pods["uid-first"], found.pods["uid-second"]
    assert first.ended == pytest.approx(61.2, abs=0.2)
    assert second.unschedulable
    assert second.bound == pytest.approx(61.2, abs=2.5)


def test_a_named_claim_is_free_again_when_the_last_pod_that_uses_it_has_ended(
    tmp_path: Path,
) -> None:
    objects = [device_class(), devices("n1", 1), resource_claim("one"), resource_claim("other")]
    script = Script(tmp_path / "a.rec", a_node("n1"), *objects)
    for name, claim, seconds in (("a", "one", 30.0), ("b", "one", 60.0), ("c", "other", 60.0)):
        pod = with_run_time(a_pod(name), seconds)
        pod.spec.resource_claims.add(name="gpu", resource_claim_name=claim)
        script.added(script.at + 1.0, pod)
    found = simulated(script.ended(300.0))
    assert found.pods["uid-b"].ended == pytest.approx(62.0, abs=0.5)
    assert found.pods["uid-c"].bound == pytest.approx(62.0, abs=2.5)


def test_claims_for_extended_resources_are_made_anew(tmp_path: Path) -> None:
    script = Script(tmp_path / "a.rec", a_node("n1"), device_class(), devices("n1", 1))
    for name, at in (("first", 1.0), ("second", 2.0)):
        pod = with_run_time(a_pod(name), 60.0)
        requests = pod.spec.containers[0].resources.requests
        requests["deviceclass.resource.kubernetes.io/gpu"] = "1"
        # As it was: the scheduler made a claim with another name.
        claim = made_for(pod, f"{name}-extended-resources-abcde")
        del pod.spec.resource_claims[:]
        claim.metadata.annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
        script.added(at, pod).added(at + 0.1, claim)
        claim.status.reserved_for.add(resource="pods", name=name, uid=pod.metadata.uid)
        script.modified(at + 0.2, claim).deleted(at + 0.4, claim)
    found = simulated(script.ended(300.0))
    first, second = found.pods["uid-first"], found.pods["uid-second"]
    assert first.ended == pytest.approx(61.0, abs=0.2)
    assert second.unschedulable
    assert second.bound == pytest.approx(61.0, abs=2.5)


def test_a_gang_gets_devices_by_a_selector_after_a_pod_has_got_some() -> None:
    """From the first pod with devices on, decisions compile no selector themselves."""
    wants = 'device.attributes["gpu.example.com"].model == "b"'
    group, _ = gang("train", 2, 0)
    pods = [user("first", template="one", priority=1)]
    pods += [user(f"train-{i}", template="b", group="train") for i in range(2)]
    for pod in pods:
        pod.spec.scheduler_name = "default-scheduler"
    models = {"gpu.example.com/model": ["a", "b", "b"]}
    objects: list[AnyObject] = [a_node("n"), device_class(), devices("n", 3, attributes=models)]
    objects += [template("one"), template("b", wants), group, *pods]
    workload = Workload(1e9, 60.0, [*with_claims(objects)], binds_volumes=True)
    found = cluster_after(workload, default_config(), factories()).history().pods
    assert [found[pod.metadata.uid].node for pod in pods] == ["n", "n", "n"]
