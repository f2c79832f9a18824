"""The best rows of an evaluation, and where they stop being the best.

For ``count`` pods at most ``count`` rows matter: the *top* rows. The best of all other rows is the
*barrier*: while the best top row is better than the barrier, other rows need no look. Rows are
ordered by (-total, row): higher totals first, lower rows first among equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from podsched.decide.evaluation.row_groups import NO_TOTAL
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.framework.verdicts import Rows, Scores

#: Comes after every (-total, row): there is no other row.
NO_BARRIER = (1, 0)


class TopRows(NamedTuple):
    """The best rows, best first, and the (-total, row) of the best row that is not among them."""

    rows: Rows
    barrier: tuple[int, int]


def top_rows(total: Scores, count: int, excluded: Sequence[int]) -> TopRows:
    """Return the top rows for ``count`` pods; ``excluded`` rows only count for the barrier.

    Usually hundreds of rows share the best total, so the common case is one comparison over all
    rows. Only if fewer do, rows of several totals are partitioned and sorted.
    """
    left = total
    if excluded:
        left = total.copy()
        left[list(excluded)] = NO_TOTAL
    best = int(left.max())
    if best == NO_TOTAL:
        return TopRows(NO_ROWS, NO_BARRIER)
    rows = np.flatnonzero(left == best)
    if len(rows) < count:
        rows = _several_totals(left, count)
    top, rest = rows[:count], rows[count:]
    # An excluded row may be better than every top row; then look-ahead places no pod.
    others = ((-int(total[row]), row) for row in excluded if total[row] != NO_TOTAL)
    return TopRows(top, min(_barrier(left, top, rest), *others, NO_BARRIER))


def _several_totals(total: Scores, count: int) -> Rows:
    """Return the best ``count`` rows in order, and all rows that equal the last one."""
    if count < len(total):
        least = int(np.partition(total, len(total) - count)[len(total) - count])
    else:
        least = NO_TOTAL
    rows = np.flatnonzero(total >= max(least, NO_TOTAL + 1))
    return rows[np.argsort(-total[rows], kind="stable")]


def _barrier(total: Scores, top: Rows, rest: Rows) -> tuple[int, int]:
    if len(rest):
        return -int(total[rest[0]]), int(rest[0])
    # Without a rest, no other row equals the last top row, so the best of the others is lower.
    lower = np.where(total < int(total[top[-1]]), total, NO_TOTAL)
    row = int(lower.argmax())
    return (-int(lower[row]), row) if lower[row] != NO_TOTAL else NO_BARRIER
