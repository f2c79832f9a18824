"""Waiting times."""

from __future__ import annotations

from podsched.lib.backoff import Backoff, exponential, jitter


def test_the_wait_doubles_up_to_its_bound() -> None:
    assert [exponential(1, 10, count) for count in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_a_bound_of_zero_switches_backoff_off() -> None:
    assert exponential(1, 0, 5) == 0


def test_a_very_long_row_of_failures_still_has_a_wait() -> None:
    assert exponential(1, 10, 10**9) == 10


def test_jitter_only_ever_lengthens_the_wait() -> None:
    assert jitter(2, 1.2, 0.0) == 2
    assert jitter(2, 1.2, 0.5) == 3.2


def test_a_success_begins_anew() -> None:
    backoff = Backoff(initial=1, maximum=10)
    assert [backoff.failed(), backoff.failed()] == [1, 2]
    backoff.succeeded()
    assert backoff.failed() == 1
