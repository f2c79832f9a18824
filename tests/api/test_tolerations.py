"""Taints and tolerations."""

from __future__ import annotations

import pytest

from podsched.api.objects import Taint, Toleration
from podsched.api.tolerations import find_untolerated, tolerates

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


@pytest.mark.parametrize(("operator", "value"), [("Gt", "4"), ("Lt", "4"), ("Lt", "6")])
def test_comparing_operators_cover_nothing(operator: str, value: str) -> None:
    assert not tolerates(Toleration(key="dedicated", operator=operator, value=value), TAINT)


def test_only_the_effects_asked_for_count() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    assert find_untolerated([soft, TAINT], []) == TAINT
    assert find_untolerated([soft], []) is None
