"""Visits of the pods that exist when an object comes that selects pods."""

from __future__ import annotations

from podsched.term.controllers.pod_pass import PodPass
from support.controller_world import ControllerWorld, bound_pod


def crowd(count: int) -> ControllerWorld:
    world = ControllerWorld()
    for number in range(count):
        world.put(bound_pod(f"p{number}"))
    return world


def test_pods_are_visited_in_parts_and_once_for_all_that_came_before() -> None:
    world, visited = crowd(25), list[str]()
    under_way = PodPass(world, world, lambda key, pod: visited.append(key))
    assert under_way.go_on(10) == [] and not under_way and not visited
    under_way.add("default/a")
    under_way.add("default/b")
    assert [under_way.go_on(10) for _ in range(2)] == [[], []] and len(visited) == 20
    assert under_way and "default/a" in under_way
    assert under_way.go_on(10) == ["default/a", "default/b"]
    assert len(set(visited)) == len(visited) == 25
    assert not under_way and "default/a" not in under_way


def test_what_comes_during_a_pass_waits_for_a_pass_of_its_own() -> None:
    world, visited = crowd(15), list[str]()
    under_way = PodPass(world, world, lambda key, pod: visited.append(key))
    under_way.add("default/a")
    under_way.go_on(10)
    under_way.add("default/b")
    assert under_way.go_on(10) == ["default/a"]
    assert under_way and "default/b" in under_way
    visited.clear()
    assert [under_way.go_on(10) for _ in range(2)] == [[], ["default/b"]]
    assert len(visited) == 15


def test_pods_of_other_namespaces_are_not_visited_and_cost_little() -> None:
    world, visited = crowd(100), list[str]()
    under_way = PodPass(world, world, lambda key, pod: visited.append(key))
    under_way.add("other/a")
    assert under_way.go_on(10) == ["other/a"] and not visited


def test_a_pod_that_cannot_be_visited_is_skipped() -> None:
    world, visited = crowd(3), list[str]()

    def visit(key: str, _: object) -> None:
        visited.append(key)
        raise ValueError

    under_way = PodPass(world, world, visit)
    under_way.add("default/a")
    assert under_way.go_on(10) == ["default/a"]
    assert len(visited) == len(world.faults) == 3


def test_of_what_is_discarded_no_end_is_told() -> None:
    world = crowd(15)
    under_way = PodPass(world, world, lambda key, pod: None)
    under_way.add("default/a")
    under_way.go_on(10)
    under_way.discard("default/a")
    assert under_way.go_on(10) == [] and not under_way
