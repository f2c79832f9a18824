"""Decide from scratch: ask every plugin about every node and keep nothing.

This follows kube-scheduler's scheduling cycle literally (v1.36 ``schedule_one.go``, schedulePod).
All accelerators are tested against it::

    PreFilter --> the nominated node alone, if it fits
              '-> Filter --> feasible nodes --> (a share of them) --> PreScore, Score --> the best

Of equal totals the lowest row wins, so that a choice can be repeated; kube-scheduler takes any.
"""

from __future__ import annotations

import numpy as np

from podsched.decide.decision import Decided, Decision
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.evaluation.filtering import run_filters
from podsched.decide.evaluation.nominated_rows import nominated_row
from podsched.decide.evaluation.pre_filtering import PreFilterOutcome, run_pre_filter
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.evaluation.scoring import run_pre_score, run_score
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import EXCLUDED, PASSED, FilterOutcome
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code
from podsched.framework.trial import Trial
from podsched.framework.verdicts import Rows


class Reference:
    """Decides for one pod at a time."""

    def __init__(self, cluster: ClusterView, rotation: Rotation) -> None:
        """``rotation``: where searches for a share of the nodes start."""
        self._cluster = cluster
        self._rotation = rotation

    def decide(self, trial: Trial, runtime: ProfileRuntime, queued: QueuedPodInfo) -> Decided:
        """Decide for a pod, and assume it in the trial if there is a node."""
        state = CycleState()
        try:
            decision = self._decide(runtime, state, queued)
        except PluginFailure as failure:
            decision = Decision(queued, state, error=failure.status)
        if not decision.node_name:
            return Decided([decision], goes_on=False)
        pod = queued.info
        trial.assume(pod, decision.node_name)
        return Decided([decision], goes_on=not runtime.reserving(state, pod))

    def _decide(
        self, runtime: ProfileRuntime, state: CycleState, queued: QueuedPodInfo
    ) -> Decision:
        pod, cluster, nodes = queued.info, self._cluster, self._cluster.nodes
        pre = run_pre_filter(runtime, state, pod, cluster)
        every = np.flatnonzero(nodes.alive)
        if not pre.status.ok:
            diagnosis = Diagnosis(len(every), pre)
            return Decision(queued, state, diagnosis=diagnosis, evaluated=len(every))
        nominated = nominated_row(cluster, pod)
        if nominated is not None:
            alone = filter_nodes(runtime, state, pod, pre, np.array([nominated]), cluster)
            if alone.plugin[0] == PASSED:
                # Not scored: the node is taken even if others have higher scores.
                return Decision(queued, state, nodes.names[nominated], feasible=1, evaluated=1)
        outcome = filter_nodes(runtime, state, pod, pre, every, cluster)
        feasible = every[outcome.plugin == PASSED]
        allowed = None if pre.node_names is None else every[outcome.plugin != EXCLUDED]
        failures = [group.places for group in outcome.groups if group.status.code is Code.ERROR]
        failing = every[np.sort(np.concatenate([NO_ROWS, *failures]))]
        sample = self._rotation.sample(cluster, runtime.profile, feasible, allowed, failing)
        if sample.failed is not None:
            # kube-scheduler ends the cycle when a Filter fails on a node, even if other nodes fit.
            failed = outcome.status(int(np.searchsorted(every, sample.failed)))
            return Decision(queued, state, error=failed)
        rows, evaluated = sample.rows, sample.evaluated
        if not len(rows):
            diagnosis = Diagnosis(len(every), pre, outcome)
            return Decision(queued, state, diagnosis=diagnosis, evaluated=len(every))
        # kube-scheduler does not score a single feasible node; here its total is computed, too.
        run_pre_score(runtime, state, pod, cluster, rows)
        totals = run_score(runtime, state, pod, nodes, rows).total
        # Rows ascend and ``argmax`` returns the first maximum, so the lowest row wins.
        best = int(totals.argmax())
        name, total = nodes.names[int(rows[best])], int(totals[best])
        return Decision(queued, state, name, total=total, feasible=len(rows), evaluated=evaluated)


def filter_nodes(
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    pre: PreFilterOutcome,
    rows: Rows,
    cluster: ClusterView,
) -> FilterOutcome:
    """Run the profile's filters on ``rows``; nodes that PreFilter left out are EXCLUDED."""
    nodes = cluster.nodes
    if pre.node_names is None:
        return run_filters(runtime, state, pod, nodes, rows, cluster)
    names = nodes.names
    inside = np.array([names[row] in pre.node_names for row in rows.tolist()], dtype=np.bool_)
    some = run_filters(runtime, state, pod, nodes, rows[inside], cluster)
    plugin = np.full(len(rows), EXCLUDED, dtype=np.int16)
    bits = np.zeros(len(rows), dtype=np.uint64)
    plugin[inside], bits[inside] = some.plugin, some.bits
    return FilterOutcome(rows, plugin, bits, some.plugins, some.reasons, pre.excluded)
