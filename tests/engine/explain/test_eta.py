"""Estimates of when a waiting pod gets a node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from podsched.engine.explain.eta import Past, Waiting, _quantile, estimate, estimate_among, shape_of

NAN = math.nan


def past(began: Sequence[float], bound: Sequence[float], priority: int = 0) -> Past:
    count = len(began)
    return Past(
        np.array(began, dtype=np.float64),
        np.array(bound, dtype=np.float64),
        np.full(count, NAN),
        np.full(count, priority, dtype=np.int64),
    )


def steady(waiting: int) -> Past:
    """A pod bound every 10 s, all having waited since the beginning; some wait still, at 300 s."""
    bound = [10.0 * (number + 1) for number in range(30)]
    return past([0.0] * 30 + [float(n) for n in range(waiting)], bound + [NAN] * waiting)


@pytest.mark.parametrize(
    ("p", "a", "b", "x"), [(0.5, 1, 1, 1.0), (0.9, 1, 1, 9.0), (0.5, 3, 3, 1.0), (0.75, 1, 2, 1.0)]
)
def test_quantiles_of_beta_prime_are_those_of_its_closed_forms(
    p: float, a: float, b: float, x: float
) -> None:
    assert _quantile(p, a, b) == pytest.approx(x)


def test_a_pod_waits_as_long_as_its_rank_times_the_time_between_bindings() -> None:
    for rank in (1, 5, 20):
        found = estimate(steady(rank), Waiting(float(rank - 1), 0), 300.0)
        assert found is not None
        assert found.rank == rank
        low, median, high = found.seconds
        assert low < median < high
        assert median == pytest.approx(10.0 * rank, rel=0.35)


def test_more_important_pods_are_ahead() -> None:
    important = steady(5)
    important.priority[:] = 9
    found = estimate(important, Waiting(-1.0, 0), 300.0)
    assert found is not None
    assert found.rank == 6


def test_room_that_terminating_pods_free_comes_first() -> None:
    found = estimate(steady(2), Waiting(1.0, 0, room_soon=(30.0, 20.0)), 300.0)
    assert found is not None
    assert found.seconds == (3.0, 15.0, 30.0)


def test_the_backoff_that_is_left_is_a_lower_bound() -> None:
    found = estimate(steady(1), Waiting(0.0, 0, backoff=50.0), 300.0)
    assert found is not None
    assert found.seconds[0] == 50.0


def test_nothing_is_told_before_a_pod_like_it_was_bound() -> None:
    waiting = past([0.0], [NAN])
    assert estimate(waiting, Waiting(0.0, 0), 10.0) is None
    assert estimate_among([waiting], Waiting(0.0, 0), 10.0) is None


def test_the_interval_is_as_wide_as_pods_of_all_kinds_let_it_be() -> None:
    own, everyone = steady(1), steady(10)
    alone = estimate(own, Waiting(9.5, 0), 300.0)
    among = estimate_among([own, everyone], Waiting(9.5, 0), 300.0)
    assert alone is not None and among is not None
    assert among.seconds[:2] == alone.seconds[:2]
    assert among.seconds[2] > alone.seconds[2]


def test_pods_are_alike_that_ask_for_about_the_same() -> None:
    assert shape_of({"cpu": 1100, "memory": 0}) == shape_of({"cpu": 1900})
    assert shape_of({"cpu": 1100}) != shape_of({"cpu": 2100})
