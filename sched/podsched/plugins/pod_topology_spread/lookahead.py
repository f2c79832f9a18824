"""What DoNotSchedule constraints would say as pods of one class are placed one after another.

A pod more in a domain changes what a constraint says of a row only when the domain reaches its
limit or the least count rises; between such moments a run of equal pods is placed without looking
at the rows again. Pure: ``plugin`` says when it applies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.framework.nodes import Bools
from podsched.plugins.pod_topology_spread.counts import NO_MINIMUM, HardSpread


class FollowedSpread:
    """One constraint's counts, followed from pod to pod; each pod placed counts ``adds``."""

    def __init__(self, spread: HardSpread, counted: Bools, adds: int) -> None:
        """``counted``: the domains, by id, whose counts may be the least."""
        self._spread = spread
        self._adds = adds
        self._counted = counted
        self._sums = np.zeros(len(counted), dtype=np.int64)
        self._sums[spread.ids] = spread.counts
        self._minimum = spread.minimum
        self._exceeded = self._sums > self._limit

    @property
    def _limit(self) -> int:
        spread = self._spread
        return spread.max_skew + (self._minimum if spread.enough else 0) - spread.self_match

    def place(self, row: int) -> bool:
        """Count a pod on the row; whether the constraint says of every row what it said."""
        if not self._adds or not self._spread.taking_part[row]:
            return True
        domain = int(self._spread.ids[row])
        before = int(self._sums[domain])
        now = self._sums[domain] = before + self._adds
        if before == self._minimum and self._counted[domain]:
            self._minimum = int(self._sums.min(initial=NO_MINIMUM, where=self._counted))
            return bool(np.array_equal(self._sums > self._limit, self._exceeded))
        return bool((now > self._limit) == self._exceeded[domain])


class SpreadAhead:
    """``framework.plugin.Lookahead`` of all constraints of a class."""

    covers_own_row: bool = True

    def __init__(self, followed: Sequence[FollowedSpread]) -> None:
        self._followed = followed

    def place(self, row: int) -> bool:
        """Count a pod on the row; whether every verdict stays."""
        return all(followed.place(row) for followed in self._followed)
