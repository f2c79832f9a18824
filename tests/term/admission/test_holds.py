"""Quota that is kept for units that wait for their victims."""

from __future__ import annotations

from typing import Any, cast

from podsched.cache.cache import Cache
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.books import Books
from podsched.term.admission.holds import Holds
from podsched.term.admission.units import Unit
from support.queue_trees import CPU


class World:
    """A queue with two victims that use 3 each, and a unit that waits for them with a need of 8."""

    def __init__(self) -> None:
        self.snapshot = Snapshot([ClusterQueue("team", quotas={CPU: Quota(10)})])
        self.books = Books(Cache(), snapshot=self.snapshot)
        self.units = self.books.units
        self.units |= {key: Unit(key, "team", "team") for key in ("a", "b")}
        self.holds = Holds(self.books)
        for unit in self.units.values():
            unit.held["pod"] = cast(Any, None)
            unit.usage[CPU] = 3
            self.snapshot.add_usage("team", unit.usage)
        self.holds.add("new", "team", {CPU: 8}, {"a", "b"})

    def leave(self, key: str) -> None:
        unit = self.units.pop(key)
        self.snapshot.remove_usage("team", unit.usage)
        self.holds.note_changed(key)

    def used(self) -> int:
        return self.snapshot.node("team").usage.get(CPU, 0)


def test_what_victims_still_use_is_not_kept_twice() -> None:
    world = World()
    for leaving in ("a", "b"):
        assert list(world.holds.recount()) == []
        assert world.used() == 8
        world.leave(leaving)
    assert list(world.holds.recount()) == ["team"]
    assert world.used() == 8


def test_the_queue_is_tried_again_once_when_the_last_victim_is_gone() -> None:
    world = World()
    world.leave("a")
    assert list(world.holds.recount()) == []
    world.units["b"].held.clear()
    world.holds.note_changed("b")
    assert list(world.holds.recount()) == ["team"]
    assert list(world.holds.recount()) == []


def test_a_hold_that_ends_leaves_usage_and_has_its_units_looked_at_again() -> None:
    world = World()
    list(world.holds.recount())
    assert world.holds.is_victim("a")
    world.books.stale.clear()
    world.holds.lift("new")
    assert world.used() == 6
    assert world.books.freed == [("team", {CPU})]
    assert world.books.stale.keys() == {"new", "a", "b"}
    assert not world.holds.is_victim("a")
    world.holds.lift("new")
    assert world.used() == 6


def test_a_new_snapshot_has_the_hold_after_the_next_count() -> None:
    world = World()
    list(world.holds.recount())
    fresh = Snapshot([ClusterQueue("team", quotas={CPU: Quota(10)})])
    world.books.snapshot = fresh
    world.holds.begin()
    list(world.holds.recount())
    assert fresh.node("team").usage[CPU] == 2


def test_a_hold_of_a_queue_that_is_gone_is_not_counted() -> None:
    world = World()
    world.books.snapshot = Snapshot(())
    world.holds.begin()
    assert list(world.holds.recount()) == []
    world.holds.lift("new")
    assert not world.holds.of


def test_the_victims_for_a_queue_that_is_gone_are_looked_at_again() -> None:
    world = World()
    world.books.snapshot = Snapshot(())
    world.holds.begin()
    world.books.stale.clear()
    world.holds.lift("new")
    assert world.books.stale.keys() == {"new", "a", "b"}
