"""A score column asks for new normalised scores only where they can have changed."""

from __future__ import annotations

import numpy as np
import pytest

from podsched.decide.accelerators.lookahead import keeps_others_without
from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.plugin import CycleState, GroupScores, Traits
from podsched.framework.verdicts import Scores

ALL = np.arange(4)


def by_extremes(state: CycleState, raw: Scores) -> Scores:
    low, high = int(raw.min()), int(raw.max())
    return (raw - low) * 100 // max(high - low, 1)


@pytest.fixture
def column() -> ScoreColumn:
    """Raw scores 0, 5, 5, 10 of four feasible rows, weighed."""
    traits = Traits(normalizes_by_extremes=True, depends_on_feasible=False)
    made = ScoreColumn(Named("P", None, 1, traits=traits, normalize=by_extremes))  # type: ignore[arg-type]
    made.clear(4)
    made.put(ALL, np.array([0, 5, 5, 10]))
    assert made.weigh(CycleState(), ALL, ALL)
    return made


def changed(column: ScoreColumn, row: int, raw: int) -> bool:
    """Have the row scored anew; whether other rows' scores changed with it."""
    rows = np.array([row], dtype=np.intp)
    column.put(rows, np.array([raw]))
    return column.weigh(CycleState(), rows, ALL)


def test_a_score_between_the_extremes_changes_its_own_row_alone(column: ScoreColumn) -> None:
    assert not changed(column, 1, 8)
    assert column.scores.tolist() == [0, 80, 50, 100]


def test_a_new_extreme_changes_all_rows(column: ScoreColumn) -> None:
    assert changed(column, 3, 20)
    assert column.scores.tolist() == [0, 25, 25, 100]


def test_a_row_that_is_neither_extreme_may_go_without_changing_others(column: ScoreColumn) -> None:
    assert keeps_others_without(column, ALL).tolist() == [False, True, True, False]


def test_scores_by_group_are_weighed_by_the_groups_that_have_feasible_rows() -> None:
    made = ScoreColumn(Named("P", None, 2, normalize=by_extremes))  # type: ignore[arg-type]
    made.clear(4)
    found = GroupScores(np.array([7, 1, 99, 3]), np.array([0, 1, 2, 3]))
    feasible = np.array([True, True, False, True])
    made.put_groups(CycleState(), found, np.flatnonzero(feasible))
    assert made.scores[feasible].tolist() == [200, 0, 66]
    assert made.raw[feasible].tolist() == [7, 1, 3]
    assert made.groups.scores.tolist() == [200, 0, 0, 66]


def test_groups_are_looked_at_again_when_other_rows_are_feasible() -> None:
    made = ScoreColumn(Named("P", None, 1, normalize=by_extremes))  # type: ignore[arg-type]
    made.clear(4)
    found = GroupScores(np.array([0, 5, 10]), np.array([0, 1, 2, 2]))
    made.put_groups(CycleState(), found, ALL)
    assert made.scores.tolist() == [0, 50, 100, 100]
    made.put_groups(CycleState(), found, np.array([0, 1]))
    assert made.scores[:2].tolist() == [0, 100]


def scored_anew(column: ScoreColumn, raw: list[int], changed: list[int] | None) -> list[int] | None:
    """Have all rows scored anew; return the rows that have other scores, None for maybe all."""
    column.forget()
    column.put(ALL, np.array(raw))
    rows = None if changed is None else np.array(changed, dtype=np.intp)
    others = column.weigh_anew(CycleState(), ALL, rows)
    return None if others is None else others.tolist()


def test_rows_scored_anew_are_weighed_where_they_differ_while_the_extremes_stay(
    column: ScoreColumn,
) -> None:
    assert scored_anew(column, [0, 8, 5, 10], []) == [1]
    assert column.scores.tolist() == [0, 80, 50, 100]


def test_rows_scored_anew_are_all_weighed_where_an_extreme_moved(column: ScoreColumn) -> None:
    assert scored_anew(column, [0, 5, 5, 20], []) is None
    assert column.scores.tolist() == [0, 25, 25, 100]


def test_rows_scored_anew_are_all_weighed_where_other_rows_were_feasible(
    column: ScoreColumn,
) -> None:
    assert scored_anew(column, [0, 5, 5, 10], None) is None


def test_a_row_that_others_have_scored_in_a_shared_array_is_weighed_again(
    column: ScoreColumn,
) -> None:
    shared = np.array([0, 5, 5, 10])
    column.adopt(shared)
    column.weigh_all(CycleState(), ALL)
    shared[1] = 8  # by another class
    column.forget()
    column.adopt(shared.copy())
    others = column.weigh_anew(CycleState(), ALL, np.array([1]))
    assert others is not None
    assert others.tolist() == [1]
    assert column.scores.tolist() == [0, 80, 50, 100]
