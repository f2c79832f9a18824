"""A journal of the rows that changed, so that readers read only these rows again.

::

    start = 7             keys = [3, 3, 0, 5]           position = 11
    positions before 7    position  7  8  9  10         changed_since(9) = {0, 5}
    are forgotten

A write appends the row's number. Every reader (an evaluation, a plugin's arrays, a shard's deltas)
keeps its own position, and the journal does not know its readers.

Rejected: flags per row, which must be cleared for each reader. Rejected: a sorted array in place of
the list; with two other changes it saved 1.5 % of a decision of ``TemplatesPriorities`` and nothing
elsewhere (docs/performance-history.md).

Guarantee: ``changed_since(p)`` returns every row that changed after ``position`` was ``p``, or None
if that is no longer known, because the list is bounded; then the reader must read all rows.
Non-goal: what changed in the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from podsched.framework.changed_keys import ChangedKeys
from podsched.framework.verdicts import Rows


class Journal(ChangedKeys[int]):
    """A bounded list of row numbers; positions in it only grow."""

    __slots__ = ("_changed", "_changed_at")

    most: ClassVar[int] = 131_072

    def __init__(self) -> None:
        super().__init__()
        #: Results of ``changed_since`` by position, until the next write: after a decision several
        #: readers ask for the same position.
        self._changed: dict[int, Rows] = {}
        self._changed_at = 0

    def extend(self, rows: Sequence[int]) -> None:
        """Note changes of at least one row."""
        self.keys += rows[:-1]
        # By ``add``, which bounds the list.
        self.add(rows[-1])

    def restart(self) -> None:
        """Make all earlier positions too old, so that readers read all rows again."""
        # One more than the entries, so that even the latest position is too old.
        self.start += len(self.keys) + 1
        self.keys.clear()

    def changed_since(self, position: int) -> Rows | None:
        """Return the distinct rows that changed since, ascending; None if the position is too old.

        The array is read-only, because several readers share it.
        """
        if position < self.start:
            return None
        # Usually a few rows changed, for which a set takes a tenth of the time of ``np.unique``.
        now = self.start + len(self.keys)
        if now != self._changed_at:
            self._changed, self._changed_at = {}, now
        found = self._changed.get(position)
        if found is None:
            distinct = set(self.keys[position - self.start :])
            found = self._changed[position] = np.fromiter(distinct, np.intp, len(distinct))
            found.sort()
            found.flags.writeable = False
        return found
