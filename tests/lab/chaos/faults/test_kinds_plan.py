"""Plans: the same seed plans the same, and every kind has its turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from podsched.lab.chaos.faults.kinds import KINDS, WARM_UP, Need, named, plan

ALL = named(Need)


def test_the_same_seed_plans_the_same_and_another_one_something_else() -> None:
    assert plan(7, 600, ALL) == plan(7, 600, ALL)
    assert plan(7, 600, ALL) != plan(8, 600, ALL)


def test_every_kind_comes_once_before_one_comes_again() -> None:
    faults = plan(7, 1800, ALL)
    first = {fault.name for fault in faults[: len(ALL)]}
    assert first == set(ALL)
    counts = Counter(fault.name for fault in faults)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_half_an_hour_has_two_hundred_faults() -> None:
    assert all(len(plan(seed, 1800, ALL)) >= 200 for seed in range(10))


def test_faults_are_over_in_time_and_begin_after_each_other() -> None:
    for seed in range(20):
        faults = plan(seed, 120, ALL)
        assert faults[0].at >= WARM_UP
        assert all(before.at < after.at for before, after in pairwise(faults))
        assert all(fault.at + fault.seconds <= 120 for fault in faults)
        assert [fault.number for fault in faults] == list(range(1, len(faults) + 1))
        for fault in faults:
            kind = ALL[fault.name]
            assert kind.shortest <= fault.seconds <= kind.longest
            assert 0 <= fault.pick < 1


def test_now_and_then_two_faults_last_at_the_same_time() -> None:
    faults = plan(7, 600, ALL)
    assert any(before.at + before.seconds > after.at for before, after in pairwise(faults))


def test_what_lasts_too_long_for_the_run_is_left_out() -> None:
    short, long = (replace(KINDS["slow-disk"], longest=seconds) for seconds in (5.0, 16.0))
    assert {fault.name for fault in plan(7, 60, {"short": short, "long": long})} == {"short"}
    assert plan(7, 60, {"long": long}) == []
