"""Estimates of when a waiting pod gets a node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from podsched.ask.explain.eta import (
    FOREVER,
    Past,
    Waiting,
    _quantile,
    estimate,
    estimate_among,
    shape_of,
)

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


def overloaded(never: int) -> Past:
    """Of 40 pods that came 10 s apart, so many get no node; the others one after 3 s."""
    began = [10.0 * number for number in range(40)]
    return past(began, [NAN if n % 40 < never else at + 3.0 for n, at in enumerate(began)])


def test_where_pods_do_not_go_in_turn_the_median_is_what_others_waited() -> None:
    known = overloaded(never=3)
    found = estimate_among([known, known], Waiting(400.0, 0), 401.0)
    assert found is not None
    assert found.seconds[1] == pytest.approx(2.0)
    assert (found.waited, found.got) == (40, 37)


def test_an_interval_has_no_end_where_one_of_ten_pods_like_it_got_no_node() -> None:
    known = overloaded(never=8)
    found = estimate_among([known, known], Waiting(400.0, 0), 401.0)
    assert found is not None
    assert found.seconds[1] == pytest.approx(2.0)
    assert found.seconds[2] == FOREVER


def test_what_came_of_pods_of_its_priority_counts_before_that_of_others() -> None:
    known = overloaded(never=0)
    known.priority[:20] = 9
    known.bound[:20] = known.began[:20] + 50.0
    among = [known, known]
    urgent = estimate_among(among, Waiting(400.0, 9), 401.0)
    usual = estimate_among(among, Waiting(400.0, 0), 401.0)
    assert urgent is not None and usual is not None
    assert (urgent.seconds[1], usual.seconds[1]) == (pytest.approx(49.0), pytest.approx(2.0))


def test_pods_with_similar_requests_have_the_same_shape() -> None:
    assert shape_of({"cpu": 1100, "memory": 0}) == shape_of({"cpu": 1900})
    assert shape_of({"cpu": 1100}) != shape_of({"cpu": 2100})
