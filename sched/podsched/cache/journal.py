"""The rows that changed, in order, so that readers read only these again.

::

    _start = 7            rows = [3, 3, 0, 5]           position = 11
    positions before 7    position  7  8  9  10         changed_since(9) = {0, 5}
    are forgotten

A write appends a number. Each of many readers keeps its own position, and the journal does not know
the readers. Rejected alternative: flags per row, which must be cleared for each reader. The journal
is bounded: a reader whose position is too old gets None and must read all rows.

Guarantee: ``changed_since(p)`` returns every row that changed after ``position`` was ``p``, or None
if that is no longer known. Non-goal: what changed in the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from podsched.framework.verdicts import Rows

#: At this many entries the owner calls ``trim``, which keeps the newer half.
JOURNAL_LIMIT: Final = 131_072


class Journal:
    """A bounded list of row numbers; positions only grow."""

    __slots__ = ("_changed", "_changed_at", "rows", "start")

    def __init__(self) -> None:
        #: The position of the first of ``rows``.
        self.start = 0
        #: Results since the last change, by position, because several readers ask in a row.
        self._changed: dict[int, Rows] = {}
        self._changed_at = 0
        #: The owner appends to it directly: this is the hottest line of the cache.
        self.rows: list[int] = []

    @property
    def position(self) -> int:
        return self.start + len(self.rows)

    def trim(self) -> None:
        """Keep only the newer half of the entries."""
        excess = len(self.rows) - JOURNAL_LIMIT // 2
        if excess > 0:
            del self.rows[:excess]
            self.start += excess

    def extend(self, rows: Iterable[int]) -> None:
        self.rows.extend(rows)

    def restart(self) -> None:
        """Make all earlier positions too old."""
        self.start += len(self.rows) + 1
        self.rows.clear()

    def changed_since(self, position: int) -> Rows | None:
        """Return the distinct rows, ascending; None when ``position`` is too old."""
        if position < self.start:
            return None
        # Usually a few rows changed, for which a set is much faster than ``np.unique``.
        now = self.start + len(self.rows)
        if now != self._changed_at:
            self._changed, self._changed_at = {}, now
        found = self._changed.get(position)
        if found is None:
            distinct = set(self.rows[position - self.start :])
            found = self._changed[position] = np.fromiter(distinct, np.intp, len(distinct))
            found.sort()
            found.flags.writeable = False
        return found
