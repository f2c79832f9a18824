"""Deleted PodGroups stay as long as an unfinished pod names them."""

from __future__ import annotations

import pytest

from podsched.api.objects import Pod, PodGroup
from podsched.api.pod_groups import PROTECTION_FINALIZER
from podsched.term.controllers.pod_group_protection import PodGroupProtectionController
from support.controller_world import ControllerWorld, bound_pod

KEY = "default/g"


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(PodGroupProtectionController(world, world))
    return world


def group(*finalizers: str, name: str = "g") -> PodGroup:
    item = PodGroup()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.metadata.finalizers.extend([PROTECTION_FINALIZER, *finalizers])
    return item


def member(name: str, of: str = "g", *, phase: str = "") -> Pod:
    pod = bound_pod(name)
    pod.spec.scheduling_group.pod_group_name = of
    pod.status.phase = phase or pod.status.phase
    return pod


def test_a_group_that_no_pod_names_goes_when_it_is_deleted(world: ControllerWorld) -> None:
    world.put(member("other", of="h"))
    world.put(bound_pod("single"))
    created = world.put(group())
    world.settle()
    assert world.get("PodGroup", KEY) == created
    world.mark(created)
    world.settle()
    assert world.get("PodGroup", KEY) is None


def test_a_group_goes_with_the_last_of_its_pods(world: ControllerWorld) -> None:
    world.mark(world.put(group()))
    for name in ("a", "b"):
        world.put(member(name))
    world.settle()
    world.remove("Pod", "default/a")
    world.settle()
    assert world.get("PodGroup", KEY) is not None
    world.remove("Pod", "default/b")
    world.settle()
    assert world.get("PodGroup", KEY) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_hold_no_group(world: ControllerWorld, phase: str) -> None:
    world.put(member("a"))
    world.put(member("b", phase=phase))
    world.mark(world.put(group()))
    world.settle()
    assert world.get("PodGroup", KEY) is not None
    world.put(member("a", phase=phase))
    world.settle()
    assert world.get("PodGroup", KEY) is None


def test_a_pod_that_is_made_again_without_the_group_lets_it_go(world: ControllerWorld) -> None:
    """One of the same name can come before its predecessor is told to be gone."""
    world.put(member("a"))
    world.mark(world.put(group()))
    world.put(member("a", of="h"))
    world.settle()
    assert world.get("PodGroup", KEY) is None


def test_finalizers_of_others_stay(world: ControllerWorld) -> None:
    world.mark(world.put(group("example.com/hold")))
    world.settle()
    left = world.get("PodGroup", KEY)
    assert left is not None and left.metadata.finalizers == ["example.com/hold"]


def test_a_new_leader_begins_with_what_there_is() -> None:
    world = ControllerWorld()
    world.put(member("a"))
    world.mark(world.put(group()))
    world.mark(world.put(group(name="unused")))
    world.start(PodGroupProtectionController(world, world))
    assert list(world.objects("PodGroup")) == [KEY]
    world.remove("Pod", "default/a")
    world.settle()
    assert not world.objects("PodGroup")
