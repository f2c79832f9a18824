"""Past usage of LocalQueues."""

from __future__ import annotations

import math

import pytest

from podsched.queues.history import Decay, History

HOUR = Decay(half_life=3600.0)


def test_after_a_half_life_the_past_counts_half() -> None:
    past = History(0.0, {"cpu": 8000.0})
    assert past.sample({}, 3600.0, HOUR).consumed == pytest.approx({"cpu": 4000.0})
    assert past.sample({"cpu": 4000}, 7200.0, HOUR).consumed == pytest.approx({"cpu": 5000.0})


def test_two_samples_are_as_one_of_the_whole_time() -> None:
    once = History(0.0).sample({"gpu": 6}, 900.0, HOUR)
    twice = History(0.0).sample({"gpu": 6}, 300.0, HOUR).sample({"gpu": 6}, 900.0, HOUR)
    assert once.consumed == pytest.approx(twice.consumed)


def test_an_admission_counts_at_once_and_is_settled_once() -> None:
    admitted = History(0.0).admit("a", {"gpu": 6}, HOUR)
    penalty = 6 * (1 - 0.5 ** (300 / 3600))
    assert admitted.usage({}, 1.0) == pytest.approx(penalty)
    assert admitted.admit("a", {"gpu": 6}, HOUR).usage({}, 1.0) == pytest.approx(penalty)
    settled = admitted.sample({}, 0.0, HOUR)
    assert settled.consumed == pytest.approx({"gpu": penalty})
    assert settled.sample({}, 0.0, HOUR) == settled


def test_a_penalty_does_not_fall_when_a_few_more_pods_of_its_workload_are_admitted() -> None:
    admitted = History(0.0).admit("a", {"gpu": 6, "cpu": 1000}, HOUR)
    grown = admitted.admit("a", {"gpu": 1}, HOUR)
    assert grown.usage({}, 1.0) == pytest.approx(admitted.usage({}, 1.0))


def test_usage_is_weighted_by_resource_and_queue() -> None:
    past = History(0.0, {"cpu": 4000.0, "gpu": 2.0})
    assert past.usage({"gpu": 10.0}, 2.0) == pytest.approx((4 + 20) / 2)
    assert past.usage({}, 0.0) == math.inf


def test_without_a_half_life_there_is_no_past() -> None:
    nothing = Decay(half_life=0.0)
    past = History(0.0, {"cpu": 8.0}).sample({"cpu": 4}, 60.0, nothing)
    assert past.admit("a", {"cpu": 4}, nothing).usage({}, 1.0) == 0


def test_a_clock_that_steps_back_adds_no_usage() -> None:
    past = History(100.0, {"cpu": 8.0})
    assert past.sample({"cpu": 99}, 40.0, HOUR) == past
