"""How much longer pods waited: the product-limit estimate."""

from __future__ import annotations

import math

import numpy as np

from podsched.ask.explain.eta import Waits, waits_from

NAN = math.nan


def test_pods_that_wait_still_count_until_now() -> None:
    # By hand: 1/4 at 1 s; the one seen for 2 s leaves two, so 1 - 3/4 * 1/2 = 5/8 at 3 s; 1 at 4 s.
    waits = Waits(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True]))
    assert waits.quantiles((0.25, 0.26, 0.625, 0.63)) == [1.0, 3.0, 3.0, 4.0]


def test_what_too_few_pods_reached_is_not_told() -> None:
    waits = Waits(np.array([1.0, 2.0]), np.array([True, False]))
    assert waits.quantiles((0.5, 0.9)) == [1.0, math.inf]


def test_only_pods_count_that_waited_as_long() -> None:
    began, bound = np.array([0.0, 0.0, 0.0, 0.0]), np.array([5.0, 15.0, NAN, NAN])
    ended = np.array([NAN, NAN, 30.0, NAN])
    waits = waits_from(began, bound, ended, 10.0, 50.0)
    assert waits.seconds.tolist() == [5.0, 20.0, 40.0]
    assert waits.over.tolist() == [True, False, False]
