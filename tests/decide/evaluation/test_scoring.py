"""What is told about scores that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsched.decide.evaluation.scoring import score_one, weighted
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.plugin import CycleState
from podsched.framework.verdicts import Scores


class Broken:
    """A Score plugin that raises."""

    def score(self, *_: Any) -> Scores:
        raise ValueError("broken")

    def normalize(self, *_: Any) -> Scores:
        raise ValueError("broken")


UNUSED: Any = None
STATE = CycleState()
NAMED: Any = Named("P", Broken(), 1)


def test_an_error_of_score_is_told_in_kube_schedulers_words() -> None:
    with pytest.raises(PluginFailure) as caught:
        score_one(NAMED, STATE, UNUSED, UNUSED, UNUSED)
    assert str(caught.value) == 'running Score plugins: plugin "P" failed with: broken'


def test_an_error_of_normalize_score_is_told_in_kube_schedulers_words() -> None:
    named: Any = Named("P", Broken(), 1, normalize=Broken().normalize)
    with pytest.raises(PluginFailure) as caught:
        weighted(named, STATE, np.zeros(1, dtype=np.int64))
    text = 'running Normalize on Score plugins: plugin "P" failed with: broken'
    assert str(caught.value) == text


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_range_is_told_in_kube_schedulers_words(score: int) -> None:
    with pytest.raises(PluginFailure) as caught:
        weighted(NAMED, STATE, np.array([score, 50]))
    assert str(caught.value) == (
        f'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score '
        f"{score}, it should in the range of [0, 100] after normalizing"
    )
