"""The totals of the rows: weighted scores of all plugins, summed; and the best row.

If a plugin gives all rows of a group (usually a zone) the same score, each pod changes the scores
of few groups and few rows. Then the sums of all *other* plugins' scores are stored in the order of
the groups, so the best row of a group is found in one slice of an array:

    row          0   1   2   3   4        order    0   2   4 | 1   3
    group        a   b   a   b   a        sums     7   9   .   9   4       . not feasible (NO_TOTAL)
    sums         7   9   9   4   .        score    a: 0        b: 5
                                          best     row 2: 9    row 1: 14   <-- highest

instead of summing every row in one pass per plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.framework.nodes import Bools
from podsched.framework.verdicts import Rows, Scores

#: The total of rows that are not feasible; all others are at least 0.
NO_TOTAL: Final = -1
#: With more groups, a pass over all rows is cheaper than 0.5 us per group.
FEW_GROUPS: Final = 24


class RowGroups:
    """Rows ordered by group.

    ``order``: the rows by group, ascending in each group; ``place``: each row's index in it.
    """

    def __init__(self, groups: Rows, number: int) -> None:
        """Order rows by group. ``groups``: group of each row, in 0..number-1, shape ``(size,)``."""
        self.groups = groups
        self.order: Rows = np.argsort(groups, kind="stable")
        self.place: Rows = np.empty_like(self.order)
        self.place[self.order] = np.arange(len(groups))
        starts = np.searchsorted(groups[self.order], np.arange(number + 1)).tolist()
        self._pieces = [
            (group, start, stop)
            for group, (start, stop) in enumerate(pairwise(starts))
            if start < stop
        ]

    def best(self, sums: Scores, scores: Scores) -> tuple[int, int]:
        """Return the lowest row with the highest total, and that total.

        sums: in ``order``, shape ``(size,)``, NO_TOTAL where not feasible. scores: added to the
        sums, by group. The total is NO_TOTAL if no row is feasible.
        """
        row, best = 0, NO_TOTAL
        of_group = scores.tolist()
        for group, start, stop in self._pieces:
            place = start + int(sums[start:stop].argmax())
            total = sums.item(place)
            if total == NO_TOTAL:
                continue
            total += of_group[group]
            # Groups are not in the order of rows, so equal totals are compared by row.
            if total >= best:
                other = self.order.item(place)
                if total > best or other < row:
                    row, best = other, total
        return row, best

    def total(self, sums: Scores, scores: Scores) -> Scores:
        """Return the totals by row, in a new array; NO_TOTAL where not feasible."""
        of_rows = sums.take(self.place)
        total = of_rows + scores.take(self.groups)
        np.putmask(total, of_rows == NO_TOTAL, NO_TOTAL)
        return total


class Totals:
    """The totals of a class's feasible rows, summed from its columns of scores.

    The scores of one column with few groups of rows may be kept *apart* from the sums.
    """

    def __init__(
        self, columns: Sequence[ScoreColumn], group: Callable[[Rows, int], RowGroups]
    ) -> None:
        """``group`` returns the rows ordered by group, given each row's group and their number."""
        self._columns = columns
        self._group = group
        self._sums: Scores = np.zeros(0, dtype=np.int64)
        #: The column that the sums leave out, and the rows ordered by its groups, if any.
        self._apart: tuple[ScoreColumn, RowGroups] | None = None
        #: The totals by row; None: to be computed from sums in the order of the groups.
        self._by_row: Scores | None = self._sums

    def reset(self, size: int) -> None:
        """Make room for ``size`` rows, none of them feasible."""
        self._apart = None
        self._sums = self._by_row = np.full(size, NO_TOTAL, dtype=np.int64)

    def continue_from(self, other: Totals) -> None:
        """Start with a copy of another class's totals; no column is kept apart."""
        self._apart = None
        self._sums = self._by_row = other.by_row.copy()

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._sums)

    @property
    def by_row(self) -> Scores:
        """The totals, shape ``(size,)``, NO_TOTAL where not feasible. Read-only."""
        if self._by_row is None:
            assert self._apart is not None
            column, groups = self._apart
            self._by_row = groups.total(self._sums, column.groups.scores)
        return self._by_row

    def best(self) -> tuple[int, int]:
        """Return the lowest row with the highest total, and that total.

        NO_TOTAL if no row is feasible.
        """
        if self._by_row is None and self._apart is not None:
            column, groups = self._apart
            return groups.best(self._sums, column.groups.scores)
        total = self.by_row
        row = int(total.argmax())
        return row, total.item(row)

    def drop(self, rows: Rows) -> None:
        """Note that rows are no longer feasible."""
        self._put(rows, NO_TOTAL)

    def _put(self, rows: Rows, sums: Scores | int) -> None:
        if self._apart is not None:
            rows, self._by_row = self._apart[1].place[rows], None
        self._sums[rows] = sums

    def leaves_out(self, column: ScoreColumn) -> bool:
        """Whether a column is kept apart from the sums, and its groups are still the same."""
        apart = self._apart
        return apart is not None and apart[0] is column and apart[1].groups is column.groups.groups

    def _set_apart(self) -> None:
        """Exclude one column with scores of few groups from the sums, if there is one."""
        # Only one, because the sums are stored in the order of its groups.
        self._apart = None
        for column in self._columns:
            if column.active and column.grouped:
                scores, groups = column.groups
                if len(scores) <= FEW_GROUPS:
                    self._apart = column, self._group(groups, len(scores))
                    return

    def add_up(self, rows: Rows, feasible: Bools, *, whole: bool) -> None:
        """Sum the weighted scores of feasible rows; without Score plugins each row has 1.

        ``feasible``: whether each row is feasible, shape ``(size,)``.
        ``whole``: ``rows`` are all feasible rows. Then whole columns are added, because picking
        that many rows out of each column costs several times as much.
        """
        if whole:
            self._set_apart()
        apart = None if self._apart is None else self._apart[0]
        active = [column for column in self._columns if column.active and column is not apart]
        flat = sum(column.flat for column in active if column.flat is not None)
        columns = [column.scores for column in active if column.flat is None]
        flat += not self._columns
        if not whole:
            total = np.full(len(rows), flat, dtype=np.int64)
            for scores in columns:
                total += scores[rows]
            self._put(rows, total)
            return
        # Write to a new array, because a running look-ahead still reads the old one.
        total = columns[0] + flat if columns else np.full(self.size, flat, dtype=np.int64)
        for scores in columns[1:]:
            total += scores
        if len(rows) < len(total):
            np.putmask(total, ~feasible, NO_TOTAL)
        if self._apart is None:
            self._sums = self._by_row = total
        else:
            self._sums, self._by_row = total.take(self._apart[1].order), None
