"""Look-ahead for DoNotSchedule constraints: tells when placing one more pod changes a verdict.

One more pod in a domain changes a verdict only if the domain exceeds its limit, or if the lowest
count rises. Until then, equal pods are placed one after another without filtering the rows again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.framework.nodes import Bools
from podsched.plugins.pod_topology_spread.counts import NO_MINIMUM, HardSpread


class ConstraintLookahead:
    """The counts of one constraint, updated for each placed pod.

    ``adds``: by how much a placed pod raises the count of its domain, 0 or 1.
    """

    def __init__(self, spread: HardSpread, counted: Bools, adds: int) -> None:
        """Start from the counts of ``spread``.

        ``counted``, of shape ``(domains + 1,)``: the domains over which the minimum is taken.
        """
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
        """Count a pod on the row; return whether the verdicts on all rows stay the same."""
        if not self._adds or not self._spread.taking_part[row]:
            return True
        domain = int(self._spread.ids[row])
        before = int(self._sums[domain])
        now = self._sums[domain] = before + self._adds
        if before == self._minimum and self._counted[domain]:
            self._minimum = int(self._sums.min(initial=NO_MINIMUM, where=self._counted))
            return bool(np.array_equal(self._sums > self._limit, self._exceeded))
        return bool((now > self._limit) == self._exceeded[domain])


class SpreadLookahead:
    """Implements ``framework.lookahead.Lookahead`` for all constraints of a class."""

    covers_own_row: bool = True

    def __init__(self, constraints: Sequence[ConstraintLookahead]) -> None:
        self._constraints = constraints

    def place(self, row: int) -> bool:
        """Count a pod on the row; return whether the verdicts on all rows stay the same.

        After a False, the counts of further constraints are not updated: it is not called again.
        """
        return all(constraint.place(row) for constraint in self._constraints)
