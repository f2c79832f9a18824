"""The best rows, and the best of the rest, are those that a full sort gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators.batch_lookahead import NO_BARRIER, top_rows
from podsched.decide.accelerators.totals import NO_TOTAL

TOTALS = st.lists(st.integers(NO_TOTAL, 6), min_size=1, max_size=30)


@given(TOTALS, st.integers(1, 12), st.sets(st.integers(0, 29)))
def test_top_rows_and_barrier_are_the_beginning_of_all_rows_in_order(
    totals: list[int], count: int, nominated: set[int]
) -> None:
    excluded = sorted(row for row in nominated if row < len(totals))
    found = top_rows(np.array(totals, dtype=np.int64), count, excluded)
    order = sorted((-total, row) for row, total in enumerate(totals) if total != NO_TOTAL)
    expected = [row for _, row in order if row not in excluded][:count]
    rest = [key for key in order if key[1] not in expected]
    assert found.rows.tolist() == expected
    if expected:
        assert found.barrier == (rest[0] if rest else NO_BARRIER)


def test_where_no_row_is_feasible_there_are_no_top_rows() -> None:
    assert not len(top_rows(np.array([NO_TOTAL, NO_TOTAL]), 3, ()).rows)


def test_a_nominated_row_is_a_barrier_however_good_it_is() -> None:
    found = top_rows(np.array([5, 9, 5]), 2, [1])
    assert found.rows.tolist() == [0, 2]
    assert found.barrier == (-9, 1)
