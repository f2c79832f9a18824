from __future__ import annotations

import pytest

from podsched.api.objects import Node, Pod, timestamp
from podsched.term.controllers.taint_eviction import TaintEvictionController
from support.controller_world import ControllerWorld, bound_pod, ready_node

POD = "default/p"


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(TaintEvictionController(world, world, world, world.metrics))
    return world


def tainted(*keys: str, added: float | None = None, effect: str = "NoExecute") -> Node:
    node = ready_node("n1")
    for key in keys:
        taint = node.spec.taints.add(key=key, effect=effect)
        if added is not None:
            taint.time_added.CopyFrom(timestamp(added, whole=True))
    return node


def tolerating(**seconds: int | None) -> Pod:
    pod = bound_pod("p", "n1")
    for key, value in seconds.items():
        pod.spec.tolerations.add(key=key, operator="Exists", toleration_seconds=value)
    return pod


def test_pods_that_do_not_tolerate_leave_at_once(world: ControllerWorld) -> None:
    world.put(ready_node("n1"))
    world.put(tolerating())
    world.settle()
    assert not world.evicted
    world.put(tainted("maint"))
    world.settle()
    assert world.evicted == [(POD, 0)]
    assert world.recorded == [f"Marking for deletion Pod {POD}"]


@pytest.mark.parametrize("toleration", [{"maint": None}, {"": None}])
def test_pods_that_tolerate_for_ever_stay(
    world: ControllerWorld, toleration: dict[str, None]
) -> None:
    world.put(tolerating(**toleration))
    world.put(tainted("maint"))
    world.wait(1000, step=10)
    assert not world.evicted


def test_taints_of_other_effects_evict_no_pod(world: ControllerWorld) -> None:
    world.put(tolerating())
    world.put(tainted("maint", effect="NoSchedule"))
    world.settle()
    assert not world.evicted


def test_the_shortest_toleration_of_all_taints_decides(world: ControllerWorld) -> None:
    world.put(tolerating(a=600, b=2))
    world.put(tainted("a", "b"))
    world.wait(10)
    assert world.evicted == [(POD, 2)]


def test_the_first_toleration_of_a_taint_decides(world: ControllerWorld) -> None:
    pod = tolerating(a=4)
    pod.spec.tolerations.add(key="a", operator="Exists", toleration_seconds=2)
    world.put(pod)
    world.put(tainted("a"))
    world.wait(10)
    assert world.evicted == [(POD, 4)]


def test_a_pod_that_is_told_of_before_a_new_taint_of_its_node_is_no_riddle(
    world: ControllerWorld,
) -> None:
    world.put(tolerating(a=None, b=2))
    world.put(tainted("a"))
    world.put_in_one_batch(tolerating(a=None, b=2), tainted("a", "b"))
    world.wait(10)
    assert world.evicted == [(POD, 2)]


def test_another_pod_of_the_name_without_a_node_is_no_riddle(world: ControllerWorld) -> None:
    world.put(tolerating())
    unbound = tolerating()
    unbound.metadata.uid, unbound.spec.node_name = "another", ""
    world.put_in_one_batch(tainted("a"), unbound)
    world.wait(10)
    assert not world.evicted


def test_a_taint_that_goes_in_time_cancels_the_eviction(world: ControllerWorld) -> None:
    world.put(tolerating(a=5))
    world.put(tainted("a"))
    world.wait(4)
    world.put(ready_node("n1"))
    world.wait(10)
    assert not world.evicted
    assert world.recorded == [f"Cancelling deletion of Pod {POD}"]


def test_another_taint_in_place_of_the_first_does_not_defer_the_eviction(
    world: ControllerWorld,
) -> None:
    world.put(tolerating(a=5, b=5))
    world.put(tainted("a"))
    world.wait(4)
    world.put(tainted("b"))
    world.wait(10)
    assert world.evicted == [(POD, 5)]


def test_a_taint_that_comes_back_counts_anew(world: ControllerWorld) -> None:
    world.put(tolerating(a=5))
    world.put(tainted("a"))
    world.wait(4)
    world.put(ready_node("n1"))
    world.put(tainted("a"))
    world.wait(10)
    assert world.evicted == [(POD, 9)]


def test_a_pod_bound_to_a_tainted_node_is_driven_out_too(world: ControllerWorld) -> None:
    world.put(tainted("a", added=world.time - 100))
    world.settle()
    world.put(tolerating())
    world.settle()
    assert world.evicted == [(POD, 0)]


def test_a_pod_bound_later_gets_its_seconds_from_its_binding(world: ControllerWorld) -> None:
    world.put(tainted("a", added=world.time - 100))
    world.wait(3)
    world.put(tolerating(a=5))
    world.wait(10)
    assert world.evicted == [(POD, 8)]


def test_a_new_leader_counts_from_when_the_taint_was_added() -> None:
    world = ControllerWorld()
    pod = tolerating(a=30)
    bound_at = timestamp(world.time - 500, whole=True)
    pod.status.conditions.add(type="PodScheduled", status="True", last_transition_time=bound_at)
    world.put(pod)
    world.put(tainted("a", added=world.time - 20))
    world.start(TaintEvictionController(world, world, world, world.metrics))
    world.wait(20)
    # The time of the taint has whole seconds, so that it may have been added up to one later.
    assert world.evicted == [(POD, 11)]


def test_a_pod_that_is_replaced_is_not_driven_out_for_the_old_one(world: ControllerWorld) -> None:
    world.put(tolerating(a=5))
    world.put(tainted("a"))
    world.wait(4)
    world.remove("Pod", POD)
    again = tolerating(a=5)
    again.metadata.uid = "another"
    world.put(again)
    world.wait(4)
    assert not world.evicted
    world.wait(2)
    assert world.evicted == [(POD, 9)]


def test_pods_that_are_leaving_already_are_left_alone(world: ControllerWorld) -> None:
    pod = tolerating()
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(world.time))
    world.put(pod)
    world.put(tainted("a"))
    world.settle()
    assert not world.evicted
