"""One Filter plugin's verdicts on all rows, kept until the plugin's inputs or the rows change."""

from __future__ import annotations

import numpy as np

from podsched.decide.evaluation.filtering import renumbered
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.plugin import FilterPlugin
from podsched.framework.status import Code
from podsched.framework.verdicts import Bits, Reason, Rows, Verdicts

_NO_BITS: Bits = np.zeros(0, dtype=np.uint64)


class FilterColumn:
    """The verdicts of one Filter plugin.

    ``reasons`` only grows between two evaluations of all rows, so that bits written earlier keep
    their meaning; the bits of new verdicts are renumbered to it. ``bits`` is empty as long as the
    plugin rejects nothing, as most plugins do of most classes.
    """

    __slots__ = ("active", "bits", "index", "named", "only_nodes", "reasons", "rejects", "size")

    def __init__(self, index: int, named: Named[FilterPlugin]) -> None:
        self.index = index
        self.named = named
        self.bits: Bits = _NO_BITS
        self.reasons: list[Reason] = []
        self.size = 0
        #: False when PreFilter said Skip.
        self.active = True
        #: False if certainly no row is rejected. Then ``first_rejections`` skips the column.
        self.rejects = False
        #: Whether only changes of Nodes change the column, not pods.
        self.only_nodes = named.traits.reads_only_nodes

    def clear(self, size: int) -> None:
        """Forget everything and make room for ``size`` rows."""
        self.size = size
        # New objects, because other columns may share the old ones (``adopt``).
        self.bits = _NO_BITS
        self.reasons = []
        self.rejects = False

    def put(self, rows: Rows, verdicts: Verdicts, *, all_rows: bool) -> None:
        """Store verdicts; ``all_rows``: ``rows`` are all existing rows.

        Verdicts on all rows go into new arrays, because other columns may share the old ones.
        """
        if all_rows:
            self.clear(self.size)
        rejected = bool(verdicts.reasons) and bool(verdicts.bits.any())
        if not len(self.bits):
            if not rejected:
                return
            self.bits = np.zeros(self.size, dtype=np.uint64)
        self.bits[rows] = renumbered(verdicts.bits, verdicts.reasons, self.reasons)
        self.rejects = self.rejects or rejected

    def put_whole(self, verdicts: Verdicts) -> None:
        """Store verdicts on all rows, shape ``(size,)``; rows without a node have no bits."""
        self.clear(self.size)
        if verdicts.reasons:
            self.bits, self.reasons = verdicts.bits, list(verdicts.reasons)
            self.rejects = bool(verdicts.bits.any())

    def adopt(self, other: FilterColumn) -> None:
        """Share the arrays of another column of the plugin."""
        # The list of reasons as well: whoever writes to the bits must number reasons alike.
        self.size, self.bits, self.reasons = other.size, other.bits, other.reasons
        self.rejects = other.rejects

    def continue_from(self, other: FilterColumn) -> None:
        """Start with the results of another class's column that has the same projection."""
        self.adopt(other)
        self.active = other.active

    @property
    def may_fail(self) -> bool:
        """Whether Code.ERROR is among the reasons."""
        return any(reason.code is Code.ERROR for reason in self.reasons)
