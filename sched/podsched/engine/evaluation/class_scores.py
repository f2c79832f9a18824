"""The scores of the feasible rows for a pod class, per plugin and in total.

Every Score plugin has a column: raw scores, and weighted ones after normalisation.

    row               0     1     2     3
    feasible          yes   no    yes   yes
    columns[0].raw    3     .     7     5       what Score said
    columns[0].scores 0     .     100   50      normalised over the feasible rows, times the weight
    columns[0].scored yes   no    yes   no      no: ask again before using it
      ...
    total             120   -1    180   90      sum over the plugins; NO_TOTAL where not feasible

What has to be done again after a change, from cheap to expensive:

* a row changed, or became feasible: Score for that row;
* the scores that a normalisation rests on changed (mostly the smallest or the largest):
  NormalizeScore for all feasible rows, without asking Score;
* the plugin's inputs changed, or its PreScore looks at the feasible rows and these changed:
  PreScore, then Score for all feasible rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from podsched.engine.evaluation.class_columns import ScoreColumn
from podsched.engine.evaluation.feasibility import Feasibility
from podsched.engine.evaluation.refresh_scope import FeasibleChange, RefreshScope
from podsched.engine.evaluation.row_sets import NO_ROWS, union
from podsched.engine.evaluation.scoring import pre_score_one, score_one
from podsched.engine.runtime.plugin_metrics import EvaluationCost
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: The total of rows that are not feasible.
NO_TOTAL = -1


class ClassScores:
    """``total``, of shape ``(size,)``, and what it is made of."""

    def __init__(
        self,
        runtime: ProfileRuntime,
        cluster: ClusterView,
        state: CycleState,
        cost: EvaluationCost,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._state = state
        self._cost = cost
        self.columns = [ScoreColumn(named) for named in runtime.score]
        self.total: Scores = np.zeros(0, dtype=np.int64)

    def reset(self, size: int) -> None:
        """Forget everything and make room for ``size`` rows, none of them feasible."""
        for column in self.columns:
            column.clear(size)
        self.total = np.full(size, NO_TOTAL, dtype=np.int64)

    def drop(self, rows: Rows) -> None:
        """Forget rows that are no longer feasible.

        Whatever is normalised while they are gone passes them by, so they are scored anew when
        they come back.
        """
        if not len(rows):
            return
        self.total[rows] = NO_TOTAL
        for column in self.columns:
            column.scored[rows] = False

    def refresh(
        self, pod: PodInfo, scope: RefreshScope, feasibility: Feasibility, change: FeasibleChange
    ) -> None:
        """Score what changed; ``change``: the rows whose feasibility did. Raises PluginFailure."""
        self.drop(change.gone)
        everything, feasible_changed = scope.everything, bool(change)
        for column in self.columns:
            stale = everything or column.named.name in scope.stale
            if stale or (feasible_changed and column.depends_on_feasible):
                column.forget()
            elif not (column.only_nodes and scope.same_nodes):
                column.scored[scope.candidates] = False
        asked = feasibility.rows
        if not everything:
            changed = scope.candidates
            asked = union(changed[feasibility.feasible[changed]], change.came)
        self._score(pod, asked, feasibility.rows, feasible_changed=feasible_changed)

    # ------------------------------------------------------------------ scored remotely

    def pre_score_independent(self, pod: PodInfo) -> tuple[str, ...]:
        """Run PreScore where it does not look at the feasible rows, and name these plugins.

        Those of them that then score. Raises PluginFailure.
        """
        for column in self.columns:
            if not column.depends_on_feasible:
                self._pre_score(column, pod, NO_ROWS)
        return tuple(column.named.name for column in self.columns if column.known and column.active)

    def put(self, rows: Rows, raw: Mapping[str, Scores]) -> None:
        """Take over raw scores by plugin on ``rows``; ``complete`` has to follow."""
        for column in self.columns:
            found = raw.get(column.named.name)
            if found is not None:
                column.put(rows, found)

    def complete(self, pod: PodInfo, feasibility: Feasibility) -> None:
        """Score what ``put`` left open, and sum up. Raises PluginFailure."""
        for column in self.columns:
            # What fits a shard may not fit here, where nominated pods count, too.
            column.scored &= feasibility.feasible
        rows = feasibility.rows
        self._score(pod, rows, rows, feasible_changed=True, weigh_all=True)

    # ------------------------------------------------------------------ scoring

    def _score(
        self,
        pod: PodInfo,
        asked: Rows,
        feasible: Rows,
        *,
        feasible_changed: bool,
        weigh_all: bool = False,
    ) -> None:
        """Score those of ``asked`` that are not scored, and sum up the totals that change.

        ``beyond``: whether totals of other rows than ``asked`` change with it.
        """
        if not len(feasible):
            return
        beyond = weigh_all
        for column in self.columns:
            weigh = weigh_all or not column.known
            if not column.known:
                self._cost.time_pre_score(partial(self._pre_score, column, pod, feasible))
                unscored, beyond = feasible, True
            else:
                unscored = asked[~column.scored[asked]]
            if not column.active:
                continue
            if len(unscored):
                nodes = self._cluster.nodes
                column.put(unscored, score_one(column.named, self._state, pod, nodes, unscored))
            if weigh or len(unscored) or feasible_changed:
                changed = feasible if weigh else unscored
                beyond |= column.weigh(self._state, changed, feasible)
        self._add_up(feasible if beyond else asked, whole=beyond)

    def _pre_score(self, column: ScoreColumn, pod: PodInfo, feasible: Rows) -> None:
        pre_score_one(self._runtime, column.named, self._state, pod, self._cluster, feasible)
        column.active = column.named.name not in self._state.skip_score
        column.known = True

    def _add_up(self, rows: Rows, *, whole: bool) -> None:
        """Sum the weighted scores of feasible rows; without Score plugins each row has 1.

        ``whole``: these are all feasible rows. Then whole columns are added: picking so many rows
        out of each column costs several times as much.
        """
        columns = [column for column in self.columns if column.active]
        total = np.zeros(len(self.total) if whole else len(rows), dtype=np.int64)
        for column in columns:
            total += column.scores if whole else column.scores[rows]
        if not self.columns:
            total += 1
        self.total[rows] = total[rows] if whole else total
