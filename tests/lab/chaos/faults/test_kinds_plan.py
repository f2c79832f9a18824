"""Plans: the same seed plans the same, and every kind has its turn."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from podsched.lab.chaos.faults.kinds import WARM_UP, Need, Span, named, plan

SPANS = {name: kind.span for name, kind in named(Need).items()}


def test_the_same_seed_plans_the_same_and_another_one_something_else() -> None:
    assert plan(7, 600, SPANS) == plan(7, 600, SPANS)
    assert plan(7, 600, SPANS) != plan(8, 600, SPANS)


def test_every_kind_comes_once_before_one_comes_again() -> None:
    faults = plan(7, 1800, SPANS)
    first = {fault.name for fault in faults[: len(SPANS)]}
    assert first == set(SPANS)
    counts = Counter(fault.name for fault in faults)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_half_an_hour_has_two_hundred_faults() -> None:
    assert all(len(plan(seed, 1800, SPANS)) >= 200 for seed in range(10))


def test_faults_are_over_in_time_and_begin_after_each_other() -> None:
    for seed in range(20):
        faults = plan(seed, 120, SPANS)
        assert faults[0].at >= WARM_UP
        assert all(before.at < after.at for before, after in pairwise(faults))
        assert all(fault.at + fault.seconds <= 120 for fault in faults)
        assert [fault.number for fault in faults] == list(range(1, len(faults) + 1))
        for fault in faults:
            span = SPANS[fault.name]
            assert span.shortest <= fault.seconds <= span.longest
            assert 0 <= fault.pick < 1


def test_now_and_then_two_faults_last_at_the_same_time() -> None:
    faults = plan(7, 600, SPANS)
    assert any(before.at + before.seconds > after.at for before, after in pairwise(faults))


def test_what_lasts_too_long_for_the_run_is_left_out() -> None:
    spans = {"short": Span(1, 2), "long": Span(1, 16)}
    assert {fault.name for fault in plan(7, 60, spans)} == {"short"}
    assert plan(7, 60, {"long": Span(1, 16)}) == []
