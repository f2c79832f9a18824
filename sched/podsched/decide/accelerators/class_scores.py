"""The scores of the feasible rows for a pod class, by plugin and in total.

Every Score plugin has a column with raw scores and weighted, normalised scores.

    row               0     1     2     3
    feasible          yes   no    yes   yes
    columns[0].raw    3     .     7     5       results of Score
    columns[0].scores 0     .     100   50      normalised over the feasible rows, times the weight
    columns[0].scored yes   no    yes   no      no: ask again before using it
      ...
    total             120   -1    180   90      sum over the plugins; NO_TOTAL where not feasible

Work after a change, from cheap to expensive:

* a row changed, or became feasible: Score for that row;
* scores of groups of rows (zones) changed: nothing per row. Group scores are kept *apart* and added
  to the sums of the other plugins when the best row is searched (``totals``);
* scores that a normalisation depends on changed (usually the smallest or the largest):
  NormalizeScore for all feasible rows, without Score;
* the plugin's inputs changed, or its PreScore depends on the feasible rows and these changed:
  PreScore, then Score for all feasible rows; rows whose score differs are normalised and summed
  again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial

import numpy as np

from podsched.decide.accelerators.feasibility import (
    Feasibility,
    FeasibleChange,
    RefreshScope,
    Sharing,
)
from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.decide.accelerators.shared_columns import SharedColumns
from podsched.decide.accelerators.totals import RowGroups, Totals
from podsched.decide.evaluation.row_sets import NO_ROWS, union
from podsched.decide.evaluation.scoring import (
    SCORE_WORDING,
    in_range,
    pre_score_one,
    score_all,
    score_one,
)
from podsched.decide.runtime.plugin_metrics import EvaluationCost
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores


class ClassScores:
    """Keeps the columns of scores of one pod class, and the totals that are summed from them."""

    def __init__(
        self,
        runtime: ProfileRuntime,
        cluster: ClusterView,
        state: CycleState,
        cost: EvaluationCost,
        shared: SharedColumns | None,
    ) -> None:
        """``shared``: columns that are shared with other classes, if any."""
        self._shared = shared
        self._runtime = runtime
        self._cluster = cluster
        self._state = state
        self._cost = cost
        self.columns = [ScoreColumn(named) for named in runtime.score]
        self.totals = Totals(self.columns, RowGroups if shared is None else shared.row_groups)

    def reset(self, size: int) -> None:
        """Clear everything for ``size`` rows, none of them feasible."""
        for column in self.columns:
            column.clear(size)
        self.totals.reset(size)

    def continue_from(self, other: ClassScores, different: Set[str]) -> None:
        """Start with the scores of another class, except for the columns of some plugins."""
        for column, of_other in zip(self.columns, other.columns, strict=True):
            if column.named.name in different:
                column.clear(of_other.size)
            else:
                column.continue_from(of_other)
        # They are summed up once the different columns have been scored.
        self.totals.continue_from(other.totals)

    def drop(self, rows: Rows) -> None:
        """Forget rows that are no longer feasible.

        Normalisation skips them from now on, so they must be scored again if they come back.
        """
        if not len(rows):
            return
        self.totals.drop(rows)
        for column in self.columns:
            column.drop(rows)

    def refresh(
        self,
        pod: PodInfo,
        scope: RefreshScope,
        feasibility: Feasibility,
        change: FeasibleChange,
        sharing: Sharing,
    ) -> None:
        """Score what changed. ``change``: rows whose feasibility changed. Raises PluginFailure.

        ``sharing``: the plugins whose columns may be shared; see ``SharedColumns``.
        """
        self.drop(change.removed)
        again = []
        everything, feasible_changed = scope.everything, bool(change)
        for column in self.columns:
            stale = everything or column.named.name in scope.stale
            if stale or (feasible_changed and column.depends_on_feasible):
                column.forget()
            elif column.grouped:
                # Pods that come and go on a row do not change the score of its group.
                if feasible_changed or not scope.same_nodes:
                    column.forget()
            elif not (column.only_nodes and scope.same_nodes):
                column.drop(scope.candidates)
                if column.shared and column.active:
                    again.append(column)
        asked = feasibility.rows
        if not everything:
            changed = scope.candidates
            asked = union(changed[feasibility.feasible[changed]], change.added)
        # The previous scores are useful only if the same rows are feasible.
        anew = not (everything or feasible_changed)
        to_weigh = self._score_again(pod, again, scope.candidates)
        self._score(
            pod,
            asked,
            feasibility,
            sharing,
            changed=to_weigh,
            feasible_changed=feasible_changed,
            anew=anew,
        )

    # ------------------------------------------------------------------ scored remotely

    def pre_score_independent(self, pod: PodInfo) -> tuple[str, ...]:
        """Run PreScore where it does not depend on the feasible rows.

        Return the names of these plugins that did not skip. Raises PluginFailure.
        """
        for column in self.columns:
            if not column.depends_on_feasible:
                self._pre_score(column, pod, NO_ROWS)
        return tuple(column.named.name for column in self.columns if column.known and column.active)

    def put(self, rows: Rows, raw: Mapping[str, Scores]) -> None:
        """Store raw scores by plugin on ``rows``; call ``complete`` afterwards."""
        for column in self.columns:
            found = raw.get(column.named.name)
            if found is not None:
                column.put(rows, found)

    def complete(self, pod: PodInfo, feasibility: Feasibility) -> None:
        """Score the rows that ``put`` left out, and sum up. Raises PluginFailure."""
        for column in self.columns:
            # A row that fits in the shard may not fit here, because nominated pods also count.
            column.drop(np.flatnonzero(~feasibility.feasible))
        self._score(pod, feasibility.rows, feasibility, {}, weigh_all=True, feasible_changed=True)

    # ------------------------------------------------------------------ scoring

    def _score_again(
        self, pod: PodInfo, columns: Sequence[ScoreColumn], rows: Rows
    ) -> Sequence[ScoreColumn]:
        """Score changed rows of shared columns, feasible or not, because other classes read them.

        Return the columns that have to be weighed again.
        """
        if not len(rows):
            return columns
        nodes, to_weigh = self._cluster.nodes, []
        for column in columns:
            raw = score_one(column.named, self._state, pod, nodes, rows)
            column.put(rows, raw)
            # Where raw scores are the final ones, only a score out of range is left to be noticed.
            if not (column.is_final and in_range(raw)):
                to_weigh.append(column)
        return to_weigh

    def _score(
        self,
        pod: PodInfo,
        asked: Rows,
        feasibility: Feasibility,
        sharing: Sharing,
        *,
        changed: Sequence[ScoreColumn] = (),
        feasible_changed: bool,
        weigh_all: bool = False,
        anew: bool = False,
    ) -> None:
        """Score the rows of ``asked`` without a score, and sum up the totals that change.

        ``changed``: shared columns in which rows were scored, but not weighed.
        ``feasible_changed``: other rows are feasible than before. ``weigh_all``: no column has
        weighted scores yet. ``anew``: forgotten columns had scores of the same rows.
        """
        feasible = feasibility.rows
        if not len(feasible):
            self.totals.reset(self.totals.size)
            return
        # The totals of ``asked`` and ``more`` change; ``beyond``: those of all feasible rows may.
        beyond, more = weigh_all, NO_ROWS
        for column in self.columns:
            if not column.known:
                others = self._score_unknown(
                    column, pod, feasible, sharing, asked if anew else None
                )
                beyond |= others is None
                more = more if others is None else union(more, others)
                continue
            if not column.active:
                continue
            rows = column.unscored(asked)
            if len(rows):
                nodes = self._cluster.nodes
                column.put(rows, score_one(column.named, self._state, pod, nodes, rows))
            if weigh_all:
                column.weigh_all(self._state, feasible)
            elif len(rows) or feasible_changed or column in changed:
                # In a shared column another class may have scored these rows; the weighted scores
                # are this class's own.
                mine = asked if column.shared else rows
                beyond |= column.weigh(self._state, mine, feasible)
        rows = feasible if beyond else union(asked, more)
        self.totals.add_up(rows, feasibility.feasible, whole=beyond)

    def _score_unknown(
        self,
        column: ScoreColumn,
        pod: PodInfo,
        feasible: Rows,
        sharing: Sharing,
        changed: Rows | None,
    ) -> Rows | None:
        """Fill an empty column; return the rows whose sums change, None for all.

        ``changed``: rows that changed since it was forgotten; None if other rows were feasible.
        """
        was_active = column.active
        self._cost.time_pre_score(partial(self._pre_score, column, pod, feasible))
        if not column.active:
            return None if was_active else NO_ROWS
        if self._score_groups(column, pod, feasible):
            return NO_ROWS if self.totals.leaves_out(column) else None
        self._score_first(column, pod, feasible, sharing)
        return column.weigh_anew(self._state, feasible, changed)

    def _score_groups(self, column: ScoreColumn, pod: PodInfo, feasible: Rows) -> bool:
        """Fill an empty column by groups of rows; False if its plugin has no groups."""
        named, state = column.named, self._state
        if named.groups is None:
            return False
        found = named.runs.call(named.name, SCORE_WORDING, named.groups, state, pod)
        if found is None:
            return False
        column.put_groups(state, found, feasible)
        return True

    def _score_first(
        self, column: ScoreColumn, pod: PodInfo, feasible: Rows, sharing: Sharing
    ) -> None:
        """Fill an empty column."""
        named, state, nodes = column.named, self._state, self._cluster.nodes
        of_plugin, shared = sharing.get(named.name), self._shared
        if of_plugin is not None and shared is not None and not column.depends_on_feasible:

            def ask(rows: Rows | None) -> Scores:
                if rows is None:
                    return score_all(named, state, pod, nodes, shared.alive)
                return score_one(named, state, pod, nodes, rows)

            if shared.score(column, *of_plugin, ask):
                return
        column.put(feasible, score_one(named, state, pod, nodes, feasible))

    def _pre_score(self, column: ScoreColumn, pod: PodInfo, feasible: Rows) -> None:
        pre_score_one(self._runtime, column.named, self._state, pod, self._cluster, feasible)
        column.active = column.named.name not in self._state.skip_score
        column.known = True
