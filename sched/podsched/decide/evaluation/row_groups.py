"""Rows ordered by group, so that the best row is found without summing up all rows.

If a plugin gives all rows of a group (usually a zone) the same score, each pod changes the scores
of few groups and few rows. The sums of all other plugins' scores are stored in the order of the
groups, so the best row of a group is found in one slice of an array:

    row          0   1   2   3   4        order    0   2   4 | 1   3
    group        a   b   a   b   a        sums     7   9   .   9   4       . not feasible (NO_TOTAL)
    sums         7   9   9   4   .        score    a: 0        b: 5
                                          best     row 2: 9    row 1: 14   <-- highest

instead of summing every row in one pass per plugin.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from podsched.framework.verdicts import Rows, Scores

#: The total of rows that are not feasible; all others are at least 0.
NO_TOTAL: Final = -1
#: With more groups, a pass over all rows is cheaper than 0.5 us per group.
FEW_GROUPS: Final = 24


class RowGroups:
    """``order``: the rows by group, ascending in each group; ``place``: each row's index in it."""

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
