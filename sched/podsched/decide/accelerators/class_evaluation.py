"""The evaluation of pods of one key in one profile, kept current row by row.

Pods with equal projections are equal for every plugin, so the results for one hold for the next.
Plugins are asked again only about rows that changed (the columns' journal); a plugin whose inputs
changed is asked about all rows. Three parts do this in turn:

    PluginInputs     PreFilter, and which plugins' inputs changed
         |  stale plugins, changed rows (RefreshScope)
    Feasibility      verdicts of all filters --> feasible rows     (with NominatedRows)
         |  rows that came and went (FeasibleChange)
    ClassScores      raw scores --> normalised --> totals

The first evaluation of a key covers all rows. Most of it may be done remotely (``sharding``):

    STALE --refresh--> CURRENT --refresh--> CURRENT        a failure, or a rejection by PreFilter,
      |                   ^                                leads back to STALE
      '--begin--> PENDING-+--adopt
                     '--discard--> STALE

In PENDING, ``begin`` has returned a ``PendingEvaluation``. A refresh does not wait for it: it
evaluates all rows itself, and a later result is ignored.

Guarantee: after any sequence of refreshes the result equals an evaluation from scratch (property
test).
Cost: a refresh is linear in the changed rows while neither a plugin's inputs nor an extreme of a
normalisation changes; otherwise it makes a few passes over arrays of all rows.
Non-goals: choosing among the feasible rows (``selection``), threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import numpy as np

from podsched.decide.accelerators.class_scores import ClassScores
from podsched.decide.accelerators.evaluation_result import EvaluationResult
from podsched.decide.accelerators.feasibility import Feasibility, RefreshScope, Sharing
from podsched.decide.accelerators.plugin_inputs import PluginInputs
from podsched.decide.accelerators.shared_columns import SharedColumns
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.evaluation.filtering import NOTHING_SETTLED, rejected_everywhere, run_filters
from podsched.decide.evaluation.pre_filtering import PreFilterOutcome
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.plugin_metrics import EvaluationCost
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores

_ALONE: Sharing = MappingProxyType({})


class Phase(Enum):
    """The state that the next refresh starts from."""

    STALE = "nothing: it looks at all rows"
    PENDING = "nothing, but a remote evaluation is under way"
    CURRENT = "verdicts and scores of all rows but those that changed since"


class ClassEvaluation:
    """Feasibility, reasons and scores of all rows for a pod class.

    After ``refresh``: ``feasible_rows`` and ``total`` (of shape ``(size,)``, NO_TOTAL where not
    feasible); ``failure`` is the error that ends the cycle, if there was one; ``pre_filtered`` is
    PreFilter's outcome. A Filter that failed may be in ``feasibility.failed`` instead.
    """

    def __init__(
        self,
        runtime: ProfileRuntime,
        cluster: ClusterView,
        cls: PodClass,
        shared: SharedColumns | None = None,
        projections: Mapping[str, Hashable] | None = None,
    ) -> None:
        """Evaluate separately or, with ``shared``, with columns that other classes share.

        ``projections``: the class's projections by plugin.
        """
        self.runtime = runtime
        self.cluster = cluster
        self.cls = cls
        self.state = CycleState()
        self.cost = EvaluationCost(runtime.meter.clock)
        self.inputs = PluginInputs(runtime, cluster, self.state)
        self.feasibility = Feasibility(runtime, cluster, self.state, cls.priority, shared)
        self.scores = ClassScores(runtime, cluster, self.state, self.cost, shared)
        self._projections = projections or {}
        self._deciding = runtime.deciding
        self.failure: PluginFailure | None = None
        #: Whether the filters have run for all nodes, even if scoring failed afterwards.
        self.is_filtered = False
        self._phase = Phase.STALE
        self._pending: PendingEvaluation | None = None
        #: The position in the columns' journal up to which rows are current, and the Node version.
        self._position = 0
        self._node_changes: int | None = None

    def continue_from(self, other: ClassEvaluation) -> bool:
        """Start from another class's evaluation, if most projections are equal.

        Then only plugins with a different projection are asked about all rows. False if it is not
        worth it, or the other evaluation has no results.
        """
        mine, theirs = self._projections, other._projections
        if other._phase is not Phase.CURRENT:
            return False
        if other.cls.priority != self.cls.priority and (
            other.feasibility.nominated.rows or self.cluster.nominator.nodes()
        ):
            return False  # Other nominated pods count for this class.
        if mine.keys() != theirs.keys():
            return False
        different = {name for name, projection in mine.items() if projection != theirs[name]}
        # Plugins without a projection read the whole pod.
        different |= self._deciding - mine.keys()
        # Arrays of another size cannot be continued. The copy pays off if it saves at least half of
        # the plugins a run on all rows.
        has_grown = other.scores.totals.size != self.cluster.nodes.size
        if has_grown or 2 * len(different) > len(self._deciding):
            return False
        self.state.data.update(other.state.data)
        self.state.skip_filter |= other.state.skip_filter
        self.state.skip_score |= other.state.skip_score
        # The copied state has data of the different plugins, too. These are stale, so their
        # PreFilter replaces it before it is read.
        self.inputs.continue_from(other.inputs, different)
        self.feasibility.continue_from(other.feasibility, different)
        self.scores.continue_from(other.scores, different)
        self._phase, self._position = Phase.CURRENT, other._position
        self._node_changes = other._node_changes
        return True

    # ------------------------------------------------------------------ reading

    @property
    def pre_filtered(self) -> PreFilterOutcome:
        """The outcome of PreFilter."""
        return self.inputs.pre_filtered

    @property
    def feasible_rows(self) -> Rows:
        """Ascending rows on which the pod fits."""
        return self.feasibility.rows

    @property
    def total(self) -> Scores:
        """Weighted totals of all rows."""
        return self.scores.totals.by_row

    def outcome(self) -> FilterOutcome:
        """Return the filters' outcome for every node."""
        if not self.pre_filtered.status.ok:
            rows = np.flatnonzero(self.cluster.nodes.alive)
            return rejected_everywhere(rows, self.pre_filtered.status)
        return self.feasibility.outcome(self.pre_filtered)

    def diagnosis(self) -> Diagnosis:
        """Return why nodes reject the pod."""
        num_all_nodes = int(np.count_nonzero(self.cluster.nodes.alive))
        outcome = self.outcome() if self.pre_filtered.status.ok else None
        return Diagnosis(num_all_nodes, self.pre_filtered, outcome)

    # ------------------------------------------------------------------ local evaluation

    def refresh(self, pod: PodInfo) -> None:
        """Refresh feasibility and scores for a pod of the class."""
        self.failure, self.is_filtered = None, False
        self.cost.begin()
        try:
            self._refresh(pod)
        except PluginFailure as failure:
            self.failure = failure
        if self.failure is not None or len(self.feasibility.failed):
            self._enter(Phase.STALE)  # The next refresh asks the plugin that failed again.
        self.cost.end(feasible=bool(len(self.feasible_rows)))

    def fits_row(self, pod: PodInfo, row: int) -> bool:
        """Whether one pod fits a row; refreshes no row.

        False if PreFilter rejects the pod or fails; the next refresh reports why.
        """
        self.failure = None
        self.cost.begin()
        try:
            # Without ``mark_current``: plugins whose inputs changed stay stale for the next
            # refresh.
            self.inputs.refresh(pod)
        except PluginFailure:
            return False
        if not self.pre_filtered.status.ok or not self.allows(row):
            return False
        self.cost.pre_filter_done()
        fits = bool(self.filter_row(pod, row).plugin[0] == PASSED)
        # No row is scored. If the pod does not fit, the refresh that follows measures the attempt.
        if fits:
            self.cost.end(feasible=False)
        return fits

    def allows(self, row: int) -> bool:
        """Whether PreFilter has not excluded a row; call it after PreFilter."""
        names = self.pre_filtered.node_names
        return names is None or self.cluster.nodes.names[row] in names

    def filter_row(self, pod: PodInfo, row: int) -> FilterOutcome:
        """Filter one row for one pod from scratch; call it after PreFilter."""
        nodes, rows = self.cluster.nodes, np.array([row], dtype=np.intp)
        settled = self.settled(rows)
        return run_filters(self.runtime, self.state, pod, nodes, rows, self.cluster, settled)

    def settled(self, rows: Rows) -> Set[str]:
        """Return the plugins that accept all these rows as long as no Node and no input changes.

        They need not run again after pods were added to or removed from these rows. Call it after
        PreFilter.
        """
        current = self._phase is Phase.CURRENT
        if not current or self._node_changes != self.cluster.nodes.node_changes:
            return NOTHING_SETTLED
        # A stale plugin's verdicts are of earlier inputs.
        return self.feasibility.admitted_by(rows) - self.inputs.stale

    def _refresh(self, pod: PodInfo) -> None:
        self.inputs.refresh(pod)
        if not self.pre_filtered.status.ok:
            self._reject_all()
            return
        self.cost.pre_filter_done()
        scope = self._scope()
        feasibility = self.feasibility
        sharing = self._sharing(scope)
        asked_all = feasibility.filter(pod, scope, sharing)
        filtered = feasibility.candidates() if asked_all else scope.candidates
        self.runtime.meter.count_rows(len(filtered), all_of_class=asked_all)
        change = feasibility.recompute(pod, None if asked_all else scope.changed)
        self.is_filtered = True
        self.cost.filter_done()
        self.scores.refresh(pod, scope, feasibility, change, sharing)
        # Last: if a plugin has failed before, the stale plugins stay stale for the next refresh.
        self.inputs.mark_current()

    def _scope(self) -> RefreshScope:
        """Return what changed in the columns since the last refresh."""
        nodes, version = self.cluster.nodes, self.cluster.nodes.node_changes
        # Rows that were excluded before have no verdicts.
        if self.pre_filtered.node_names != self.feasibility.node_names:
            self._enter(Phase.STALE)
        current = self._phase is Phase.CURRENT
        changed = nodes.changed_since(self._position) if current else None
        same_nodes = False
        if changed is None:
            self._reset()
            candidates = self.feasibility.candidates()
        else:
            same_nodes = version == self._node_changes
            candidates = self.feasibility.update_candidates(changed, same_nodes=same_nodes)
        self._position, self._node_changes = nodes.position, version
        # Set before the plugins run: if one fails, ``refresh`` goes back to STALE.
        self._enter(Phase.CURRENT)
        return RefreshScope(changed, candidates, self.inputs.stale, same_nodes)

    def _sharing(self, scope: RefreshScope) -> Sharing:
        """Return the keys by which whole columns may be shared; empty if only some rows changed."""
        if not scope.everything and not scope.stale:
            return _ALONE
        inputs, projections = self.inputs, self._projections
        names = projections if scope.everything else projections.keys() & scope.stale
        return {name: (projections[name], inputs.of(name)) for name in names}

    def _reset(self) -> None:
        self.feasibility.reset(self.pre_filtered.node_names)
        self.scores.reset(self.cluster.nodes.size)

    def _reject_all(self) -> None:
        """Make no row feasible; once PreFilter accepts the pod again, all rows are evaluated."""
        self._enter(Phase.STALE)
        if len(self.feasible_rows) or self.scores.totals.size != self.cluster.nodes.size:
            self._reset()

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._pending = None

    def override_row(self, row: int, outcome: FilterOutcome) -> None:
        """Set another rejection for one row, until the next refresh evaluates it again.

        For a nominated pod, which must not count against itself on its nominated row.
        """
        self.feasibility.override_row(row, outcome)
        self.scores.drop(np.array([row], dtype=np.intp))

    # ------------------------------------------------------------------ remote evaluation

    @property
    def is_evaluated(self) -> bool:
        """Whether the next refresh evaluates only changed rows."""
        return self._phase is Phase.CURRENT

    def begin(self, pod: PodInfo) -> PendingEvaluation | None:
        """Prepare a first evaluation that is mostly done remotely.

        Run PreFilter, and PreScore where it does not depend on the feasible rows. Return None if
        the class is already evaluated or is rejected before Filter. Raises PluginFailure.
        """
        self.failure = None
        if self.is_evaluated:
            return None
        self._enter(Phase.STALE)
        self.inputs.refresh(pod)
        if not self.pre_filtered.status.ok:
            return None
        self._reset()
        # Other processes may already see changes that come after this. The next refresh evaluates
        # these rows again, whatever the other processes saw.
        self._position = self.cluster.nodes.position
        filters = self.feasibility.activate()
        scores = self.scores.pre_score_independent(pod)
        pending = PendingEvaluation(self, pod, filters, scores)
        self._phase, self._pending = Phase.PENDING, pending
        return pending

    def end(self, pending: PendingEvaluation, result: EvaluationResult | None) -> None:
        """End what ``begin`` started, unless a refresh has ended it; see PendingEvaluation."""
        if self._pending is not pending:
            return
        self._enter(Phase.STALE)
        # If the columns have grown meanwhile, arrays of the old size cannot be completed.
        if result is None or self.scores.totals.size != self.cluster.nodes.size:
            return
        pod, feasibility, fits = pending.pod, self.feasibility, result.fits
        feasibility.put(pod, result.rows, result.verdicts)
        feasibility.recompute(pod, None)
        self.scores.put(result.rows[fits], result.raw)
        self.scores.complete(pod, feasibility)
        self.inputs.mark_current()
        self._enter(Phase.CURRENT)


@dataclass(frozen=True, eq=False, slots=True)
class PendingEvaluation:
    """A running remote first evaluation; call one of the two methods to end it.

    ``filters`` and ``scores`` name the plugins whose verdicts and raw scores are needed.
    """

    evaluation: ClassEvaluation
    pod: PodInfo
    filters: tuple[str, ...]
    scores: tuple[str, ...]

    def adopt(self, result: EvaluationResult) -> None:
        """Adopt results for rows as they were at ``begin``.

        Rows without a result are evaluated here; rows changed since, at the next refresh.
        Raises PluginFailure; then the next refresh evaluates all rows.
        """
        self.evaluation.end(self, result)

    def discard(self) -> None:
        """Give up: the next refresh evaluates all rows."""
        self.evaluation.end(self, None)
