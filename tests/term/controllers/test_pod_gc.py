from __future__ import annotations

import pytest

from podsched.api.tolerations import TAINT_NOT_READY, TAINT_OUT_OF_SERVICE
from podsched.config.settings import ControllerSettings
from podsched.term.controllers.pod_gc import PodGarbageCollector
from support.controller_world import ControllerWorld, bound_pod, ready_node


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    settings = ControllerSettings(terminated_pod_gc_threshold=2)
    world.put(ready_node("n1"))
    world.start(PodGarbageCollector(world, world, settings))
    return world


def keys(world: ControllerWorld) -> list[str]:
    return [eviction.key for eviction in world.evicted]


def test_pods_of_a_node_that_is_gone_are_deleted_after_the_quarantine(
    world: ControllerWorld,
) -> None:
    world.put(bound_pod("lost", "n1"))
    world.put(bound_pod("waiting"))
    world.wait(10)
    world.remove("Node", "n1")
    world.wait(40)
    assert not world.evicted
    world.wait(25)
    assert keys(world) == ["default/lost"]


def test_a_node_that_comes_back_keeps_its_pods(world: ControllerWorld) -> None:
    world.put(bound_pod("kept", "n1"))
    world.remove("Node", "n1")
    world.wait(35)
    world.put(ready_node("n1"))
    world.wait(30)
    world.remove("Node", "n1")
    world.wait(35)
    assert not world.evicted


def test_finished_pods_beyond_the_threshold_go_the_oldest_first(world: ControllerWorld) -> None:
    for age, name in enumerate(("new", "old", "older", "oldest")):
        pod = bound_pod(name, "n1")
        pod.status.phase = "Succeeded"
        pod.metadata.creation_timestamp.seconds = 1000 - age
        world.put(pod)
    world.put(bound_pod("running", "n1"))
    world.wait(25)
    assert keys(world) == ["default/oldest", "default/older"]


def test_many_pods_are_deleted_in_parts(world: ControllerWorld) -> None:
    """Tens of thousands may have finished; the leader has pods to bind, too."""
    for number in range(252):
        pod = bound_pod(f"p{number}", "n1")
        pod.status.phase = "Succeeded"
        world.put(pod)
    world.time += 20
    found = []
    for _ in range(5):
        world.step()
        found.append(len(world.evicted))
    assert found == [0, 0, 100, 200, 250]


def test_evicted_pods_beyond_the_threshold_go_before_older_ones(world: ControllerWorld) -> None:
    for age, name in enumerate(("evicted", "new", "old", "oldest")):
        pod = bound_pod(name, "n1")
        pod.status.phase = "Failed"
        pod.status.reason = "Evicted" if name == "evicted" else ""
        pod.metadata.creation_timestamp.seconds = 1000 - age
        world.put(pod)
    world.wait(25)
    assert keys(world) == ["default/evicted", "default/oldest"]


@pytest.mark.parametrize(
    ("ready", "taint", "collected"),
    [
        ("Unknown", TAINT_OUT_OF_SERVICE, ["default/ending"]),
        ("True", TAINT_OUT_OF_SERVICE, []),
        ("Unknown", TAINT_NOT_READY, []),
    ],
)
def test_pods_that_terminate_on_a_node_out_of_service_are_deleted(
    world: ControllerWorld, ready: str, taint: str, collected: list[str]
) -> None:
    node = ready_node("off", ready)
    node.spec.taints.add(key=taint, effect="NoExecute")
    world.put(node)
    ending = bound_pod("ending", "off")
    ending.metadata.deletion_timestamp.seconds = 1000
    world.put(ending)
    world.put(bound_pod("running", "off"))
    world.wait(25)
    assert keys(world) == collected


@pytest.mark.parametrize(("node", "phase"), [("gone", "Running"), ("", "Pending"), ("n1", "")])
def test_pods_without_a_kubelet_that_finalizers_keep_have_failed(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch, node: str, phase: str
) -> None:
    monkeypatch.setattr(world, "remove", lambda kind, key: None)  # As the finalizer does.
    pod = bound_pod("kept", node)
    pod.status.phase = phase or "Running"
    pod.metadata.finalizers.append("example.com/wait")
    pod.metadata.deletion_timestamp.seconds = 1000
    world.put(pod)
    world.wait(65)
    assert world.pod("default/kept").status.phase == ("Failed" if phase else "Running")
    assert bool(world.evicted) == bool(phase)
