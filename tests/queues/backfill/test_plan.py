"""Which units start, and which get a reservation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsched.queues.backfill.plan import (
    Ask,
    Backfill,
    Option,
    Plan,
    PlanRules,
    Reservation,
    make_plan,
)
from podsched.queues.backfill.profile import Demand, Occupation, Profile
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from support.queue_trees import CPU

EVERYWHERE = np.ones(2, dtype=np.bool_)


def ask(key: str, amount: int, occupied: float, priority: int = 0, not_now: bool = False) -> Ask:
    """A unit of one pod."""
    demand = Demand(1, np.array([amount], dtype=np.int64), EVERYWHERE)
    return Ask(key, "q", priority, occupied, (Option({CPU: amount}, (demand,)),), not_now)


def takes(node: int, amount: int) -> Occupation:
    return Occupation("q", {CPU: amount}, np.array([node]), np.array([[amount]], dtype=np.int64))


def plan(
    *asks: Ask,
    running: Mapping[float, Occupation],
    kept: Mapping[str, Reservation] = {},
    quota: int = 8,
    **rules: float,
) -> Plan:
    """Plan at time 0 for two nodes with 4 CPUs each; what runs is given by its end."""
    forest = Snapshot([ClusterQueue("q", quotas={CPU: Quota(quota)})]).forest
    profile = Profile(0.0, np.array([[4], [4]], dtype=np.int64), forest)
    for end, taken in running.items():
        profile.occupy(taken, 0.0, end)
    made = Plan()
    how = PlanRules(Backfill.CONSERVATIVE, **rules)  # type: ignore[arg-type]
    for _ in make_plan(profile, asks, kept, how, made):
        pass
    return made


def starts(made: Plan) -> dict[str, float]:
    return {key: one.start for key, one in {**made.starts, **made.reservations}.items()}


def test_a_reservation_stays_on_its_nodes_unless_it_gets_earlier() -> None:
    kept = {"a": Reservation(9.0, 19.0, takes(1, 4))}
    both = {9.0: takes(1, 4), 9.5: takes(0, 4)}
    same = plan(ask("a", 4, 10.0), running=both, kept=kept)
    assert same.reservations["a"].occupation.rows.tolist() == [1]
    earlier = plan(ask("a", 4, 10.0), running={9.0: takes(1, 4), 5.0: takes(0, 4)}, kept=kept)
    assert starts(earlier) == {"a": 5.0}
    assert earlier.reservations["a"].occupation.rows.tolist() == [0]
    assert not earlier.withdrawn


def test_a_reservation_moves_only_by_as_much_as_the_resolution_or_to_now() -> None:
    kept = {"a": Reservation(9.0, 19.0, takes(1, 4))}
    running = {9.0: takes(1, 4), 5.0: takes(0, 4)}
    assert starts(plan(ask("a", 4, 10.0), running=running, kept=kept, resolution=4.0)) == {"a": 9.0}
    assert starts(plan(ask("a", 4, 10.0), running={}, kept=kept, resolution=60.0)) == {"a": 0.0}


def test_a_higher_priority_takes_what_was_reserved_which_is_withdrawn() -> None:
    kept = {"a": Reservation(9.0, 19.0, takes(1, 4))}
    running = {9.0: takes(1, 4), np.inf: takes(0, 4)}
    made = plan(ask("a", 4, 10.0), ask("b", 4, 5.0, priority=1), running=running, kept=kept)
    assert starts(made) == {"b": 9.0, "a": 14.0}
    assert list(made.withdrawn) == ["a"]


def test_a_unit_that_cannot_start_now_although_its_time_has_come_gets_a_later_one() -> None:
    kept = {"a": Reservation(0.0, 10.0, takes(1, 4))}
    running = {7.0: takes(0, 4)}
    made = plan(ask("a", 4, 10.0, not_now=True), running=running, kept=kept)
    assert starts(made) == {"a": 7.0}
    assert list(made.withdrawn) == ["a"]


def test_nothing_is_reserved_behind_the_horizon() -> None:
    running = {7.0: takes(0, 4), 8.0: takes(1, 4)}
    assert starts(plan(ask("a", 4, 10.0), running=running, horizon=7.0)) == {"a": 7.0}
    assert starts(plan(ask("a", 4, 10.0), running=running, horizon=6.0)) == {}
