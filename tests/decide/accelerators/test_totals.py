"""The best row by groups is the one that sums over all rows give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators.totals import NO_TOTAL, RowGroups

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(NO_TOTAL, 3)), min_size=1, max_size=12)


@given(rows=ROWS, scores=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_it_is_the_first_of_the_rows_with_the_highest_sum(
    rows: list[tuple[int, int]], scores: list[int]
) -> None:
    groups = np.array([group for group, _ in rows], dtype=np.intp)
    found = RowGroups(groups, 4)
    sums = np.array([own for _, own in rows])[found.order]
    plain = [own + scores[group] if own != NO_TOTAL else NO_TOTAL for group, own in rows]
    assert found.total(sums, np.array(scores)).tolist() == plain
    best = max(plain)
    where = plain.index(best) if best != NO_TOTAL else 0
    assert found.best(sums, np.array(scores)) == (where, best)
