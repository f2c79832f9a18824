"""What one plugin said of every row for one pod class, kept until its inputs or the rows change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.engine.evaluation.filtering import renumbered
from podsched.engine.evaluation.scoring import weighted
from podsched.engine.runtime.profile_runtime import Named
from podsched.framework.nodes import Bools
from podsched.framework.plugin import PASSED, CycleState, FilterPlugin, ScorePlugin
from podsched.framework.status import Code
from podsched.framework.verdicts import Bits, Reason, Rows, Scores, Verdicts


class FilterColumn:
    """Reason bits of one Filter plugin; they mean something on rows that it was asked about."""

    __slots__ = ("active", "bits", "index", "named", "only_nodes", "reasons", "rejects")

    def __init__(self, index: int, named: Named[FilterPlugin]) -> None:
        self.index = index
        self.named = named
        self.bits: Bits = np.zeros(0, dtype=np.uint64)
        self.reasons: list[Reason] = []
        #: False when PreFilter said Skip.
        self.active = True
        #: False when it is sure that no row is rejected.
        self.rejects = False
        #: Pods that come and go change nothing.
        self.only_nodes = named.traits.reads_only_nodes

    def clear(self, size: int) -> None:
        """Forgets everything and makes room for ``size`` rows."""
        self.bits = np.zeros(size, dtype=np.uint64)
        self.reasons = []
        self.rejects = False

    def put(self, rows: Rows, verdicts: Verdicts, *, all_rows: bool) -> None:
        """Take over verdicts; ``all_rows``: these are all the rows there are."""
        if all_rows:
            self.reasons = []
            if not verdicts.reasons:
                # Most plugins pass every row, and clearing is far cheaper than writing by row.
                self.bits.fill(0)
                self.rejects = False
                return
        bits = renumbered(verdicts.bits, verdicts.reasons, self.reasons)
        self.bits[rows] = bits
        rejected = bool(verdicts.reasons) and bool(bits.any())
        self.rejects = rejected if all_rows else self.rejects or rejected

    @property
    def may_fail(self) -> bool:
        """Whether Code.ERROR is among the reasons."""
        return any(reason.code is Code.ERROR for reason in self.reasons)


class ScoreColumn:
    """Raw and weighted scores of one Score plugin on the feasible rows."""

    __slots__ = (
        "active", "by_extremes", "high", "known", "low", "named", "only_nodes", "raw", "scored",
        "scores",
    )  # fmt: skip

    def __init__(self, named: Named[ScorePlugin]) -> None:
        self.named = named
        self.active = True
        self.by_extremes = named.traits.normalizes_by_extremes
        #: Pods that come and go change nothing.
        self.only_nodes = named.traits.reads_only_nodes
        self.clear(0)

    def clear(self, size: int) -> None:
        """Forgets everything and makes room for ``size`` rows."""
        self.raw: Scores = np.zeros(size, dtype=np.int64)
        self.scores: Scores = np.zeros(size, dtype=np.int64)
        self.scored: Bools = np.zeros(size, dtype=np.bool_)
        #: Smallest and largest raw score of the feasible rows.
        self.low = 0
        self.high = 0
        #: False when PreScore has to be run (again).
        self.known = False

    def forget(self) -> None:
        """All rows are to be scored again, after PreScore."""
        self.scored[:] = False
        self.known = False

    @property
    def normalizes(self) -> bool:
        """Whether a score depends on the other rows' scores."""
        return self.named.normalize is not None

    @property
    def depends_on_feasible(self) -> bool:
        """Whether PreScore looks at which rows are feasible."""
        return self.named.traits.depends_on_feasible

    def put(self, rows: Rows, raw: Scores) -> None:
        """Take over raw scores."""
        self.raw[rows] = raw
        self.scored[rows] = True

    def weigh(self, state: CycleState, rows: Rows, feasible: Rows) -> bool:
        """Brings the weighted scores up to date after ``rows`` were scored.

        Returns whether the scores of other rows changed with them. Raises PluginFailure.
        """
        if not self.normalizes:
            self.scores[rows] = weighted(self.named, state, self.raw[rows])
            return False
        if self.by_extremes and self._keeps_extremes(rows, feasible):
            self.scores[rows] = self.scores_of(state, self.raw[rows])
            return False
        self.scores[feasible] = weighted(self.named, state, self.raw[feasible])
        return True

    def _keeps_extremes(self, rows: Rows, feasible: Rows) -> bool:
        if len(rows) == len(feasible):
            raw = self.raw[feasible]
            self.low, self.high = (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)
            return False
        new = self.raw[rows]
        if self.low == self.high and (not len(new) or (new == self.low).all()):
            return True
        raw = self.raw[feasible]
        low, high = int(raw.min()), int(raw.max())
        same = (low, high) == (self.low, self.high)
        self.low, self.high = low, high
        return same

    def scores_of(self, state: CycleState, raw: Scores) -> Scores:
        """Weighted scores of raw ones that lie between the extremes. Raises PluginFailure."""
        if not self.normalizes:
            return weighted(self.named, state, raw)
        extremes = np.array([self.low, self.high], dtype=np.int64)
        return weighted(self.named, state, np.concatenate([extremes, raw]))[2:]

    def keeps_others(self, state: CycleState, rows: Rows, raw: Scores) -> Bools:
        """For rows whose raw score became ``raw``: whether no other row's score changes with it."""
        if not self.normalizes:
            return np.ones(len(rows), dtype=np.bool_)
        if self.by_extremes and self.low == self.high:
            return np.equal(raw, self.low)
        return np.equal(raw, self.raw[rows])

    def keeps_others_without(self, rows: Rows) -> Bools:
        """Return the same for rows that stop being feasible."""
        if self.depends_on_feasible:
            return np.zeros(len(rows), dtype=np.bool_)
        if not self.normalizes or (self.by_extremes and self.low == self.high):
            return np.ones(len(rows), dtype=np.bool_)
        if not self.by_extremes:
            return np.zeros(len(rows), dtype=np.bool_)
        raw = self.raw[rows]
        return np.not_equal(raw, self.low) & np.not_equal(raw, self.high)


def first_rejections(
    columns: Sequence[FilterColumn],
    judged: Rows | None,
    candidate: Bools,
    plugin: Scores,
    bits: Bits,
) -> None:
    """Set ``plugin`` and ``bits`` of candidate rows: the first rejecting plugin, and its bits.

    ``judged``: the rows to look at, None for all. Other rows than candidates are left alone.
    """
    if judged is not None:
        rows = judged[candidate[judged]]
        plugin[rows], bits[rows] = _first(columns, rows, len(rows))
        return
    # Whole columns, without picking rows out of them: this is what every pod costs whose plugins
    # count over the cluster.
    first, words = _first(columns, slice(None), len(plugin))
    np.copyto(plugin, first, where=candidate)
    np.copyto(bits, words, where=candidate)


def _first(columns: Sequence[FilterColumn], rows: Rows | slice, size: int) -> tuple[Scores, Bits]:
    first = np.full(size, PASSED, dtype=np.int64)
    words = np.zeros(size, dtype=np.uint64)
    for column in reversed(columns):
        if column.active and column.rejects:
            mine = column.bits[rows]
            hit = mine != 0
            np.putmask(first, hit, column.index)
            np.copyto(words, mine, where=hit)
    return first, words
