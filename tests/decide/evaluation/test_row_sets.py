"""Sets of rows are put together without sorting what is sorted, complete or empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators import class_scores, feasibility
from podsched.decide.evaluation.row_sets import NO_ROWS, union
from podsched.framework.verdicts import Rows
from support.engine_world import World


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.intp)


def test_the_union_with_an_empty_set_is_the_other_array_itself() -> None:
    some = rows(1, 4)
    assert union(some, NO_ROWS) is some
    assert union(NO_ROWS, some) is some


def test_the_union_of_equal_sets_is_the_first_array_itself() -> None:
    everything = np.arange(100)
    assert union(everything, np.arange(100)) is everything


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (rows(1, 2), rows(5, 9), [1, 2, 5, 9]),
        (rows(5, 9), rows(1, 2), [1, 2, 5, 9]),
        (rows(1, 5, 9), rows(2, 5), [1, 2, 5, 9]),
        (rows(0, 1, 2, 3), rows(2), [0, 1, 2, 3]),
    ],
)
def test_disjoint_and_overlapping_sets_give_an_ascending_one(
    one: Rows, other: Rows, expected: list[int]
) -> None:
    assert union(one, other).tolist() == expected


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_any_two_sets_give_what_a_sort_from_scratch_gives(one: set[int], other: set[int]) -> None:
    assert union(rows(*sorted(one)), rows(*sorted(other))).tolist() == sorted(one | other)


def test_the_first_evaluation_of_a_class_puts_no_sets_of_rows_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(one: Rows, other: Rows) -> Rows:
        raise AssertionError("all rows are looked at: there is nothing to put together")

    monkeypatch.setattr(np, "union1d", fail)
    monkeypatch.setattr(feasibility, "union", fail)
    monkeypatch.setattr(class_scores, "union", fail)
    world = World(1, nodes=30)
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    assert len(evaluation.feasible_rows)
    assert evaluation.failure is None
