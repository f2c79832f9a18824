"""When a unit can start beside what runs and what is reserved."""

from __future__ import annotations

from podsched.queues.backfill.plan import Plan, Reservation
from podsched.queues.backfill.profile import Profile
from podsched.queues.objects import Backfill, ClusterQueue
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from support.queue_trees import CPU


def plan(**reserved: Reservation) -> Plan:
    """At time 0, with 8 CPUs, of which 4 are in use until 9."""
    queues = [ClusterQueue(name, quotas={CPU: Quota(8)}) for name in ("q", "other")]
    profile = Profile(0.0, Snapshot(queues).forest)
    profile.occupy("q", {CPU: 4}, 0.0, 9.0)
    return Plan(profile, reserved)


def reservation(start: float, seconds: float, amount: int, priority: int = 0) -> Reservation:
    return Reservation("q", priority, start, seconds, {CPU: amount})


def test_a_unit_starts_only_if_it_ends_before_what_is_reserved_or_fits_beside_it() -> None:
    made = plan(head=reservation(9.0, 10.0, 6))
    assert made.starts("short", "q", 0, {CPU: 4}, 9.0)[0] == 0.0
    assert made.starts("long", "q", 0, {CPU: 4}, 9.5)[0] == 19.0
    assert made.starts("small", "q", 0, {CPU: 2}, 99.0)[0] == 0.0


def test_a_unit_is_not_in_its_own_way() -> None:
    made = plan(head=reservation(9.0, 10.0, 6))
    assert made.starts("head", "q", 0, {CPU: 6}, 10.0)[0] == 9.0
    made.reserve("head", reservation(12.0, 10.0, 8))
    assert made.starts("head", "q", 0, {CPU: 8}, 10.0)[0] == 9.0


def test_a_higher_priority_does_not_wait_for_what_is_reserved_below() -> None:
    made = plan(head=reservation(9.0, 10.0, 8))
    assert made.starts("high", "q", 1, {CPU: 8}, 99.0)[0] == 9.0
    assert list(made.others("high", 1)) == []
    assert made.starts("low", "q", 0, {CPU: 8}, 99.0)[0] == 19.0
    assert list(made.others("low", 0)) == ["head"]


def test_easy_reserves_for_one_unit_of_each_queue_and_conservative_for_all() -> None:
    made = plan(head=reservation(9.0, 10.0, 8))
    assert made.may_reserve("head", "q", 0, Backfill.EASY)
    assert not made.may_reserve("next", "q", 0, Backfill.EASY)
    assert made.may_reserve("first", "other", 0, Backfill.EASY)
    assert made.may_reserve("next", "q", 0, Backfill.CONSERVATIVE)


def test_a_unit_that_starts_takes_the_place_of_its_reservation() -> None:
    made = plan(head=reservation(9.0, 10.0, 4))
    made.start("head", "q", {CPU: 4}, 12.0)
    assert made.reservations == {}
    assert made.starts("next", "q", 0, {CPU: 4}, 1.0)[0] == 9.0
    assert made.starts("wide", "q", 0, {CPU: 8}, 1.0)[0] == 12.0
