"""Terminating namespaces are emptied, until they are gone."""

from __future__ import annotations

import pytest

from podsched.api.objects import Namespace
from podsched.term.controllers.namespaces import NamespaceController
from support.controller_world import ControllerWorld, bound_pod


def namespace(name: str) -> Namespace:
    item = Namespace()
    item.metadata.name = name
    item.spec.finalizers.append("kubernetes")
    return item


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(NamespaceController(world, world))
    return world


def terminate(world: ControllerWorld, name: str) -> None:
    item = namespace(name)
    item.metadata.finalizers.append("stays")
    world.mark(world.put(item))
    world.settle()


def test_a_namespace_that_terminates_is_emptied(world: ControllerWorld) -> None:
    world.put(namespace("stays"))
    terminate(world, "goes")
    world.wait(30)
    assert world.emptied == ["goes"]


def test_one_that_is_not_empty_yet_is_tried_again_after_growing_pauses(
    world: ControllerWorld,
) -> None:
    terminate(world, "default")
    for _ in range(3):
        world.not_empty_yet()
        world.wait(1)
    assert len(world.emptied) == 4
    world.wait(30)
    assert len(world.emptied) == 4, "a call under way is waited for"
    for _ in range(5):
        world.not_empty_yet()
        world.settle()
    before = len(world.emptied)
    world.not_empty_yet()
    world.wait(3)
    assert len(world.emptied) <= before + 1


def test_it_is_tried_again_at_once_when_a_pod_of_it_has_gone(world: ControllerWorld) -> None:
    world.put(bound_pod("a", "n1"))
    terminate(world, "default")
    for _ in range(8):
        world.not_empty_yet()
        world.wait(10)
    world.not_empty_yet()
    world.settle()
    before = len(world.emptied)
    world.remove("Pod", "default/a")
    world.wait(0.5)
    assert len(world.emptied) == before + 1


def test_one_that_only_finalizers_of_others_keep_is_left_alone(world: ControllerWorld) -> None:
    terminate(world, "default")
    empty = world.get("Namespace", "default")
    assert isinstance(empty, Namespace)
    empty.spec.ClearField("finalizers")
    world.put(empty)
    world.not_empty_yet()
    world.wait(10)
    assert world.emptied == ["default"]


def test_one_that_is_gone_is_left_alone(world: ControllerWorld) -> None:
    terminate(world, "goes")
    world.remove("Namespace", "goes")
    world.not_empty_yet()
    world.wait(10)
    assert world.emptied == ["goes"]


def test_a_new_leader_begins_with_those_that_are_terminating() -> None:
    world = ControllerWorld()
    item = namespace("goes")
    item.metadata.finalizers.append("stays")
    world.mark(world.put(item))
    world.start(NamespaceController(world, world))
    assert world.emptied == ["goes"]
