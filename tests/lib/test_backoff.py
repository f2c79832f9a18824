"""Waiting times."""

from __future__ import annotations

import random

from podsched.lib.backoff import Backoff, exponential


def longest() -> float:
    """The chance that leaves each wait as long as it can get."""
    return 1.0


def test_the_wait_doubles_up_to_its_bound() -> None:
    assert [exponential(1, 10, count) for count in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_a_bound_of_zero_switches_backoff_off() -> None:
    assert exponential(1, 0, 5) == 0


def test_a_very_long_row_of_failures_still_has_a_wait() -> None:
    assert exponential(1, 10, 10**9) == 10


def test_chance_spreads_each_wait_over_its_upper_half() -> None:
    chance = random.Random(1)
    for _ in range(100):
        backoff = Backoff(1, 10, chance.random)
        waits = [backoff.next_delay() for _ in range(6)]
        assert all(
            most / 2 <= wait < most for wait, most in zip(waits, (1, 2, 4, 8, 10, 10), strict=True)
        )


def test_a_success_begins_anew() -> None:
    backoff = Backoff(1, 10, longest)
    assert [backoff.next_delay(), backoff.next_delay()] == [1, 2]
    backoff.reset()
    assert backoff.next_delay() == 1


def test_retries_on_servers_not_tried_yet_do_not_wait() -> None:
    backoff = Backoff(1, 10, longest, immediate=2)
    assert [backoff.next_delay() for _ in range(5)] == [0, 0, 1, 2, 4]
