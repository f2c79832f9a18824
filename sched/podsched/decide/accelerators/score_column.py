"""One Score plugin's results for one pod class, kept until the plugin's inputs or the rows change.

::

    raw       results of Score
    scored    whether raw is valid for the current state of the row
    scores    raw, normalised over the feasible rows and weighted

The arrays are indexed by row. A plugin fills in a few rows; readers add up whole columns. Entries
of rows that a plugin was not asked about are undefined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.scoring import weighted
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.nodes import Bools
from podsched.framework.plugin import CycleState, GroupScores, ScorePlugin
from podsched.framework.verdicts import Rows, Scores

_NO_SCORES: Scores = np.zeros(0, dtype=np.int64)
_NOT_SCORED: Bools = np.zeros(0, dtype=np.bool_)


class _Weighed(NamedTuple):
    """Raw and weighted scores of all feasible rows, and the extremes of the raw ones."""

    raw: Scores
    scores: Scores
    low: int
    high: int


class _Grouped(NamedTuple):
    """Raw and weighted scores by group, and each row's group."""

    raw: Scores
    scores: Scores
    groups: Rows


class ScoreColumn:
    """Raw and weighted scores of one Score plugin on the feasible rows.

    Normalisation links the rows: one raw score may change the weighted scores of all rows. Most
    plugins normalise by the extremes, so a score between the smallest and the largest changes
    nothing else. That makes an evaluation after one placed pod cheap. If all rows are equal (no
    taints, no preferences), the score is the number ``flat`` instead of an array.

    A ``shared`` column has raw scores of all rows with a node, feasible or not. Other classes read
    and write the same array, which is safe: all of them write the same value for a changed row.

    If whole groups of rows share a score (``grouped``), scores are stored by group, and scores by
    row are computed only when read.
    """

    __slots__ = (
        "_before", "_occupied", "_raw", "_scores", "active", "by_extremes", "depends_on_feasible",
        "flat", "grouped", "high", "known", "low", "named", "normalizes", "only_nodes", "scored",
        "shared", "size",
    )  # fmt: skip

    def __init__(self, named: Named[ScorePlugin]) -> None:
        self.named = named
        self.active = True
        #: Whether a score depends on the other rows' scores, and if so on the extremes alone.
        self.normalizes = named.normalize is not None
        self.by_extremes = named.traits.normalizes_by_extremes
        #: Whether PreScore depends on which rows are feasible.
        self.depends_on_feasible = named.traits.depends_on_feasible
        #: Whether only changes of Nodes change the scores, not pods.
        self.only_nodes = named.traits.reads_only_nodes
        #: Feasible rows, group of each row, and the groups that have feasible rows.
        self._occupied: tuple[Rows, Rows, Rows] | None = None
        self.clear(0)

    def clear(self, size: int) -> None:
        """Forget everything and make room for ``size`` rows."""
        self.size = size
        self._raw: Scores = _NO_SCORES
        self._scores: Scores = _NO_SCORES
        #: The scores by group, if they are stored so.
        self.grouped: _Grouped | None = None
        #: The scores before they were forgotten, while they may be useful (``weigh_anew``).
        self._before: _Weighed | None = None
        #: Which rows have a raw score; empty while no row or, if ``shared`` or grouped, every row
        #: has one.
        self.scored: Bools = _NOT_SCORED
        self.shared = False
        #: The weighted score of all feasible rows, if it is the same for all.
        self.flat: int | None = None
        #: Smallest and largest raw score of the feasible rows.
        self.low = 0
        self.high = 0
        #: False if PreScore has to run (again).
        self.known = False

    @property
    def raw(self) -> Scores:
        """The results of Score, by row."""
        if self.grouped is not None and not len(self._raw):
            self._raw = self.grouped.raw.take(self.grouped.groups)
        return self._raw

    @property
    def scores(self) -> Scores:
        """The weighted scores, by row."""
        if self.grouped is not None and not len(self._scores):
            self._scores = self.grouped.scores.take(self.grouped.groups)
        return self._scores

    @property
    def groups(self) -> GroupScores:
        """The weighted scores of the groups; only valid if ``grouped``."""
        assert self.grouped is not None
        return GroupScores(self.grouped.scores, self.grouped.groups)

    def forget(self) -> None:
        """Mark the column so that PreScore runs and all rows are scored again."""
        before = None
        # Only such scores can be compared with new ones in ``weigh_anew``.
        by_row = self.flat is None and self.grouped is None and len(self._scores)
        if by_row and self.by_extremes and self.normalizes:
            before = _Weighed(self._raw, self._scores, self.low, self.high)
        self.clear(self.size)
        self._before = before

    def drop(self, rows: Rows) -> None:
        """Mark rows to be scored again when needed."""
        if len(self.scored):
            self.scored[rows] = False

    def unscored(self, rows: Rows) -> Rows:
        """Return those of the rows that have no raw score."""
        if self.shared or self.grouped is not None:
            return NO_ROWS
        return rows[~self.scored[rows]] if len(self.scored) else rows

    @property
    def is_final(self) -> bool:
        """Whether raw scores in range are already the weighted scores."""
        return self._scores is self._raw and len(self._raw) > 0

    def put(self, rows: Rows, raw: Scores) -> None:
        """Store raw scores."""
        if not len(self._raw):
            self._raw = np.zeros(self.size, dtype=np.int64)
            self.scored = np.zeros(self.size, dtype=np.bool_)
        self._raw[rows] = raw
        if len(self.scored):
            self.scored[rows] = True

    def adopt(self, raw: Scores) -> None:
        """Share raw scores of all rows."""
        self._raw, self.scored, self.shared = raw, _NOT_SCORED, True
        self._scores, self.flat = _NO_SCORES, None

    def continue_from(self, other: ScoreColumn) -> None:
        """Start with the results of another class's column that has the same projection.

        Normalised scores depend on the class's feasible rows, so they are copied.
        """
        self.size, self.shared, self.known = other.size, other.shared, other.known
        self.active, self.flat = other.active, other.flat
        self.low, self.high = other.low, other.high
        self.scored, self.grouped = other.scored.copy(), other.grouped
        # A shared array has raw scores of all rows, and every class writes the same values to it.
        self._raw = other._raw if other.shared else other._raw.copy()
        self._scores = self._raw if other._scores is other._raw else other._scores.copy()

    def weigh(self, state: CycleState, rows: Rows, feasible: Rows) -> bool:
        """Update the weighted scores after ``rows`` were scored or the feasible rows changed.

        Return whether the scores of other rows may have changed, too. Raises PluginFailure.
        """
        if not self.normalizes:
            self._put_scores(rows, weighted(self.named, state, self._raw[rows]))
            return False
        if self.by_extremes and self._keeps_extremes(rows, feasible):
            if self.flat is None:
                self._put_scores(rows, self.scores_of(state, self._raw[rows]))
            return False
        if self.by_extremes and self.low == self.high and len(feasible):
            # All raw scores are equal: one normalised score stands for all rows, without an array.
            before, self._scores = self.flat, _NO_SCORES
            self.flat = int(self.scores_of(state, np.array([self.low], dtype=np.int64))[0])
            return before != self.flat
        self.flat = None
        if len(feasible) == self.size:
            self._scores = weighted(self.named, state, self._raw)
        else:
            self._put_scores(feasible, weighted(self.named, state, self._raw[feasible]))
        return True

    def put_groups(self, state: CycleState, found: GroupScores, feasible: Rows) -> None:
        """Store the scores of the feasible rows by group, and weigh them.

        This needs no pass over rows, whereas scores by row need one for each step of the plugin's
        ``normalize``. Groups without a feasible row get 0. Raises PluginFailure.
        """
        raw, groups = found
        occupied = self._groups_with(feasible, groups, len(raw))
        of_occupied = raw[occupied]
        # Of few numbers, Python finds the extremes faster than NumPy.
        values = of_occupied.tolist()
        self.low, self.high = min(values), max(values)
        final = np.zeros(len(raw), dtype=np.int64)
        final[occupied] = weighted(self.named, state, of_occupied)
        self.grouped, self.flat = _Grouped(raw, final, groups), None
        self._raw, self._scores, self.scored = _NO_SCORES, _NO_SCORES, _NOT_SCORED

    def _groups_with(self, feasible: Rows, groups: Rows, number: int) -> Rows:
        """Return the groups that have feasible rows; usually both arrays are the same as before."""
        known = self._occupied
        if known is None or known[0] is not feasible or known[1] is not groups:
            occupied = np.flatnonzero(np.bincount(groups[feasible], minlength=number))
            known = self._occupied = (feasible, groups, occupied)
        return known[2]

    def weigh_all(self, state: CycleState, feasible: Rows) -> None:
        """Weigh the new scores of all feasible rows. Raises PluginFailure."""
        if self.normalizes or self.named.weight != 1 or not self.shared:
            self.weigh(state, feasible, feasible)
            return
        self._scores = self._raw

    def weigh_anew(self, state: CycleState, feasible: Rows, changed: Rows | None) -> Rows | None:
        """Weigh all scores after they were forgotten; return the rows whose scores differ now.

        None means possibly all. ``changed``: rows that changed since then (other classes may have
        scored them in a shared array), or None if other rows were feasible. Usually a pod has
        changed few rows and no extreme, so other rows are not normalised again.
        Raises PluginFailure.
        """
        before, self._before = self._before, None
        raw = self._raw
        if before is None or changed is None or len(before.raw) != len(raw):
            self.weigh_all(state, feasible)
            return None
        everywhere = len(feasible) == self.size
        if _extremes(raw if everywhere else raw[feasible]) != (before.low, before.high):
            self.weigh_all(state, feasible)
            return None
        # With the same extremes, an equal raw score is normalised to the same score.
        self.low, self.high, self._scores = before.low, before.high, before.scores
        differs: Bools = raw != before.raw
        differs[changed] = True
        rows: Rows = np.flatnonzero(differs) if everywhere else feasible[differs[feasible]]
        if len(rows):
            self._scores[rows] = self.scores_of(state, raw[rows])
        return rows

    def _put_scores(self, rows: Rows, scores: Scores) -> None:
        if self.is_final:
            return
        if not len(self._scores):
            self._scores = np.zeros(self.size, dtype=np.int64)
        self._scores[rows] = scores

    def scores_at(self, rows: Rows) -> Scores:
        """Return the weighted scores of feasible rows."""
        if self.flat is not None:
            return np.full(len(rows), self.flat, dtype=np.int64)
        return self.scores[rows]

    def _keeps_extremes(self, rows: Rows, feasible: Rows) -> bool:
        """Update the extremes; return whether they stayed, so that only ``rows`` need new scores.

        False if all rows are new, because then there were no extremes before.
        """
        everywhere = len(feasible) == self.size
        if len(rows) == len(feasible):
            raw = self._raw if everywhere else self._raw[feasible]
            self.low, self.high = _extremes(raw) if len(raw) else (0, 0)
            return False
        new = self._raw[rows]
        # All rows were equal and still are (no taints, no preferences): skip the pass over rows.
        if self.low == self.high and (not len(new) or (new == self.low).all()):
            return True
        raw = self._raw if everywhere else self._raw[feasible]
        low, high = _extremes(raw)
        same = (low, high) == (self.low, self.high)
        self.low, self.high = low, high
        return same

    def scores_of(self, state: CycleState, raw: Scores) -> Scores:
        """Return the weighted scores of raw ones between the extremes. Raises PluginFailure.

        The plugin normalises over the scores that it gets, so the extremes are added to them.
        """
        if not self.normalizes:
            return weighted(self.named, state, raw)
        extremes = np.array([self.low, self.high], dtype=np.int64)
        return weighted(self.named, state, np.concatenate([extremes, raw]))[2:]


def _extremes(raw: Scores) -> tuple[int, int]:
    """Return the smallest and the largest of some scores."""
    return int(np.minimum.reduce(raw)), int(np.maximum.reduce(raw))
