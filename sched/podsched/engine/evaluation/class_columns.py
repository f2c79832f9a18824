"""One plugin's answers for all rows and one pod class, kept until its inputs or the rows change.

    FilterColumn   bits      one word of reason bits a row; ``reasons[i]`` is what bit i means
    ScoreColumn    raw       what Score answered
                   scored    whether raw and scores hold for the row as it is
                   scores    raw, normalised over the feasible rows and weighted

Both kinds are arrays over all rows, indexed by row: a plugin answers for a few rows, and readers
add up or compare whole columns. Entries of rows that a plugin was not asked about mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.engine.evaluation.filtering import renumbered
from podsched.engine.evaluation.scoring import weighted
from podsched.engine.runtime.profile_runtime import Named
from podsched.framework.filter_outcome import PASSED
from podsched.framework.nodes import Bools
from podsched.framework.plugin import CycleState, FilterPlugin, ScorePlugin
from podsched.framework.status import Code
from podsched.framework.verdicts import Bits, Reason, Rows, Scores, Verdicts


class FilterColumn:
    """The verdicts of one Filter plugin.

    ``reasons`` only grows between two evaluations of all rows, so that bits written earlier keep
    their meaning; the bits of new verdicts are renumbered to it.
    """

    __slots__ = ("active", "bits", "index", "named", "only_nodes", "reasons", "rejects")

    def __init__(self, index: int, named: Named[FilterPlugin]) -> None:
        self.index = index
        self.named = named
        self.bits: Bits = np.zeros(0, dtype=np.uint64)
        self.reasons: list[Reason] = []
        #: False when PreFilter said Skip.
        self.active = True
        #: False when certainly no row is rejected: such a column costs nothing when the first
        #: rejections are looked for, and most plugins reject nothing of most classes.
        self.rejects = False
        #: Pods that come and go change nothing.
        self.only_nodes = named.traits.reads_only_nodes

    def clear(self, size: int) -> None:
        """Forget everything and make room for ``size`` rows."""
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
    """Raw and weighted scores of one Score plugin on the feasible rows.

    Normalisation ties the rows together: one raw score may change what all others are worth. Most
    plugins normalise by the extremes, so a score between the smallest and the largest changes
    nothing else; that is what makes an evaluation after one placed pod cheap.
    """

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
        """Forget everything and make room for ``size`` rows."""
        self.raw: Scores = np.zeros(size, dtype=np.int64)
        self.scores: Scores = np.zeros(size, dtype=np.int64)
        self.scored: Bools = np.zeros(size, dtype=np.bool_)
        #: Smallest and largest raw score of the feasible rows.
        self.low = 0
        self.high = 0
        #: False when PreScore has to be run (again).
        self.known = False

    def forget(self) -> None:
        """Have all rows scored again, after PreScore."""
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
        """Bring the weighted scores up to date after ``rows`` were scored or others came and went.

        Returns whether the scores of other rows may have changed with them. Raises PluginFailure.
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
        """Update the extremes; whether they stayed, so that only ``rows`` need new scores.

        Not so when all rows are new, for then nothing is known of the extremes before.
        """
        if len(rows) == len(feasible):
            raw = self.raw[feasible]
            self.low, self.high = (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)
            return False
        new = self.raw[rows]
        # All rows were equal and still are (no taints, no preferences): no need to look at them.
        if self.low == self.high and (not len(new) or (new == self.low).all()):
            return True
        raw = self.raw[feasible]
        low, high = int(raw.min()), int(raw.max())
        same = (low, high) == (self.low, self.high)
        self.low, self.high = low, high
        return same

    def scores_of(self, state: CycleState, raw: Scores) -> Scores:
        """Return the weighted scores of raw ones between the extremes. Raises PluginFailure.

        The plugin normalises whatever it is given, so the extremes are given along.
        """
        if not self.normalizes:
            return weighted(self.named, state, raw)
        extremes = np.array([self.low, self.high], dtype=np.int64)
        return weighted(self.named, state, np.concatenate([extremes, raw]))[2:]

    def keeps_others(self, state: CycleState, rows: Rows, raw: Scores) -> Bools:
        """Return for each row whether a raw score of ``raw`` changes no other row's score.

        One that stays what it was certainly does not. That a score moves within the extremes is not
        used: it would have to be followed which of several rows holds an extreme.
        """
        if not self.normalizes:
            return np.ones(len(rows), dtype=np.bool_)
        return np.equal(raw, self.raw[rows])

    def keeps_others_without(self, rows: Rows) -> Bools:
        """Return for each row whether no other score changes when it is no longer feasible."""
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
    rows: Rows | None,
    candidate: Bools,
    plugin: Scores,
    bits: Bits,
) -> None:
    """Set ``plugin`` and ``bits`` of candidate rows: the first rejecting plugin, and its bits.

    ``rows``: those to look at, None for all. Other rows than candidates are left alone.
    """
    if rows is not None:
        rows = rows[candidate[rows]]
        plugin[rows], bits[rows] = _first(columns, rows, len(rows))
        return
    # Whole columns, without picking rows out of them: this is what every pod costs whose plugins
    # count over the cluster (topology spread, inter-pod affinity).
    first, words = _first(columns, slice(None), len(plugin))
    np.copyto(plugin, first, where=candidate)
    np.copyto(bits, words, where=candidate)


def _first(columns: Sequence[FilterColumn], rows: Rows | slice, size: int) -> tuple[Scores, Bits]:
    """Return the first rejecting plugin and its bits; from the last column to the first."""
    first = np.full(size, PASSED, dtype=np.int64)
    words = np.zeros(size, dtype=np.uint64)
    for column in reversed(columns):
        if column.active and column.rejects:
            mine = column.bits[rows]
            hit = mine != 0
            np.putmask(first, hit, column.index)
            np.copyto(words, mine, where=hit)
    return first, words
