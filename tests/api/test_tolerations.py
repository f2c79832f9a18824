"""Taints and tolerations."""

from __future__ import annotations

import pytest

from podsched.api.objects import Taint, Toleration
from podsched.api.tolerations import find_untolerated, tolerated_seconds, tolerates

TAINT = Taint(key="dedicated", value="5", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="dedicated", value="5"), True),
        (Toleration(key="dedicated", operator="Equal", value="6"), False),
        (Toleration(key="dedicated", operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="dedicated", operator="Gt", value="4"), False),
    ],
)
def test_a_toleration_covers_a_taint_as_in_kubernetes(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, TAINT) == covers


def test_comparing_operators_work_only_when_switched_on() -> None:
    above_four = Toleration(key="dedicated", operator="Gt", value="4")
    assert tolerates(above_four, TAINT, comparison_operators=True)
    below_four = Toleration(key="dedicated", operator="Lt", value="4")
    assert not tolerates(below_four, TAINT, comparison_operators=True)


def test_only_the_effects_asked_for_count() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    assert find_untolerated([soft, TAINT], []) == TAINT
    assert find_untolerated([soft], []) is None


def test_the_shortest_toleration_says_how_long_a_pod_may_stay() -> None:
    taint = Taint(key="k", effect="NoExecute")
    short = Toleration(key="k", operator="Exists", toleration_seconds=5)
    long = Toleration(key="k", operator="Exists", toleration_seconds=50)
    for_ever = Toleration(key="k", operator="Exists")
    assert tolerated_seconds([taint], [long, short]) == 5
    assert tolerated_seconds([taint], [for_ever]) is None
    assert tolerated_seconds([taint], []) == 0
    assert tolerated_seconds([TAINT], []) is None
