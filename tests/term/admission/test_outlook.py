"""What is expected to run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podsched.cache.cache import Cache
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.books import Books
from podsched.term.admission.holds import Holds
from podsched.term.admission.outlook import Outlook
from podsched.term.admission.units import Unit
from support.queue_trees import CPU


class Ends:
    """A victim is gone at 20, and the unit that waits for it would run for 95."""

    def __init__(self) -> None:
        self.of = {"victim": 50.0}

    def still(self, end: float) -> float:
        return end

    def gone_at(self, victims: Iterable[str], evicted: float) -> float:
        return 20.0

    def end_from(self, unit: Unit, at: float) -> float:
        return at + 95


def starts_beside(promised: Reservation, quota: int = 8) -> list[float]:
    """When others can start beside a unit that waits for its victim and was promised a start."""
    books = Books(Cache(), snapshot=Snapshot([ClusterQueue("team", quotas={CPU: Quota(quota)})]))
    for key in ("victim", "wide"):
        books.units[key] = Unit(key, "team", "team")
    books.units["victim"].usage[CPU] = 8
    holds = Holds(books)
    holds.add("wide", "team", {CPU: 8}, {"victim"})
    ends: Any = Ends()
    outlook = Outlook(books, holds, ends, {"wide": promised})
    return outlook.plan.starts("other", "team", 0, {CPU: 8}, 10)


def test_a_promise_is_kept_beyond_the_end_of_a_start_that_may_fail() -> None:
    assert starts_beside(Reservation("team", 0, 62.0, 97.0, {CPU: 8})) == [159.0]


def test_a_unit_that_waits_for_its_victims_is_counted_once() -> None:
    promised = Reservation("team", 0, 5.0, 97.0, {CPU: 8})
    assert starts_beside(promised) == [115.0]
    assert starts_beside(promised, 16)[0] == 0.0
