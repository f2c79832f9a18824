"""What a choice was made from is told as the evaluation has it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators.score_details import RUNNERS_UP, best_rows, details_of
from podsched.decide.accelerators.selection import Selector
from podsched.decide.accelerators.totals import NO_TOTAL
from support.engine_world import World
from support.evaluations import from_scratch
from support.examples import examples


def test_the_best_others_follow_the_chosen_row_and_those_that_do_not_fit_are_left_out() -> None:
    total = np.array([70, NO_TOTAL, 90, 90, 80], dtype=np.int64)
    rows, ties = best_rows(total, 2)
    assert rows.tolist() == [2, 3, 4, 0]
    assert ties == 2
    assert total.tolist() == [70, NO_TOTAL, 90, 90, 80], "the evaluation's own is left alone"


@examples(30)
@given(st.integers(0, 10**6))
def test_the_scores_told_are_those_of_an_evaluation_from_scratch(seed: int) -> None:
    world = World(seed)
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    result = selector.select(pending)
    if result is None:
        return
    details = details_of(selector.evaluation, result.row)
    _, _, totals = from_scratch(world, pending)
    names = world.cluster.nodes.names
    if result.total is None:
        assert details is None or result.feasible == 1, "a nominated node"
        return
    assert details is not None
    best = sorted(totals.values(), reverse=True)
    assert details.rows[0].row == result.row
    assert [told.total for told in details.rows] == best[: RUNNERS_UP + 1]
    assert details.ties == best.count(best[0])
    for told in details.rows:
        assert sum(told.plugins.values()) == told.total == totals[names[told.row]]
