"""Where to run a run of pods of one class: evaluations kept per class, choices made one after
another.

``decide`` works on the live columns and assumes what it chooses, so each pod sees those before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsched.engine.class_evaluation import ClassEvaluation
from podsched.engine.diagnosis import Diagnosis
from podsched.engine.filtering import ProfileFilters, run_filters
from podsched.engine.profile_runtime import ProfileRuntime
from podsched.engine.state import SchedulingState
from podsched.framework.plugin import (
    EXCLUDED,
    PASSED,
    CycleState,
    FilterOutcome,
    PostFilterResult,
)
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.framework.status import Status

#: Evaluations kept: one is some 200 bytes a node and class, so 1 MB each at 5,000 nodes.
MAX_EVALUATIONS = 256


@dataclass(eq=False, slots=True)
class Decision:
    """What came of one pod: a node (already assumed), a diagnosis why none fits, or an error."""

    queued: QueuedPodInfo
    state: CycleState
    node_name: str = ""
    diagnosis: Diagnosis | None = None
    error: Status | None = None


class Decider:
    """Decides for the pods of one scheduling state."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._evaluations: OrderedDict[tuple[str, PodClass], ClassEvaluation] = OrderedDict()

    def evaluation(self, runtime: ProfileRuntime, cls: PodClass) -> ClassEvaluation:
        """The evaluation of a class, made when there is none yet."""
        key = (runtime.scheduler_name, cls)
        found = self._evaluations.get(key)
        if found is None:
            found = ClassEvaluation(runtime, self._state.cache.cluster, cls)
            self._evaluations[key] = found
            if len(self._evaluations) > MAX_EVALUATIONS:
                self._evaluations.popitem(last=False)
        else:
            self._evaluations.move_to_end(key)
        return found

    async def prepare(self, runtime: ProfileRuntime, pod: PodInfo) -> None:
        """Has actors do ahead what is much to evaluate; locally there is nothing to prepare."""

    def decide(self, runtime: ProfileRuntime, batch: Sequence[QueuedPodInfo]) -> list[Decision]:
        """Decisions for pods of one class, in their order; at least one, maybe not for all."""
        first = batch[0]
        evaluation = self.evaluation(runtime, first.info.cls)
        if first.info.nominated_node_name:
            nominated = self._on_nominated_node(runtime, evaluation, first)
            if nominated is not None:
                return [nominated]
        evaluation.refresh(first.info)
        if evaluation.failure is not None:
            return [Decision(first, evaluation.state, error=evaluation.failure.status)]
        rows = evaluation.feasible_rows
        if not len(rows):
            return [Decision(first, evaluation.state, diagnosis=evaluation.diagnosis())]
        row = int(rows[int(np.argmax(evaluation.total[rows]))])
        return [self._assume(evaluation, first, row)]

    def _assume(self, evaluation: ClassEvaluation, queued: QueuedPodInfo, row: int) -> Decision:
        cache = self._state.cache
        node_name = cache.columns.names[row]
        cache.assume(queued.info, node_name)
        return Decision(queued, own_state(evaluation), node_name)

    def _on_nominated_node(
        self, runtime: ProfileRuntime, evaluation: ClassEvaluation, queued: QueuedPodInfo
    ) -> Decision | None:
        """S10: the node the pod is nominated for is looked at alone first, and taken if it fits."""
        cluster = self._state.cache.cluster
        row = cluster.nodes.row_of(queued.info.nominated_node_name)
        if row is None:
            return None
        evaluation.refresh(queued.info)
        if evaluation.failure is not None or not evaluation.pre_filtered.status.ok:
            return None
        names = evaluation.pre_filtered.node_names
        if names is not None and queued.info.nominated_node_name not in names:
            return None
        rows = np.array([row], dtype=np.intp)
        outcome = run_filters(runtime, evaluation.state, queued.info, cluster.nodes, rows, cluster)
        if outcome.plugin[0] != PASSED:
            return None
        return self._assume(evaluation, queued, row)

    def post_filter(self, runtime: ProfileRuntime, decision: Decision) -> PostFilterResult | None:
        """S19: PostFilter plugins in order until one succeeds; None when there is none.

        The last plugin's result otherwise.
        """
        diagnosis = decision.diagnosis
        assert diagnosis is not None
        if not diagnosis.num_all_nodes:
            return None
        cluster = self._state.cache.cluster
        outcome = diagnosis.outcome
        if outcome is None:
            outcome = self._rejected_everywhere(diagnosis.pre_filter.status)
        runner = ProfileFilters(runtime, cluster, outcome)
        result = None
        for named in runtime.post_filter:
            result = named.plugin.post_filter(decision.state, decision.queued.info, cluster, runner)
            if result.status.ok:
                break
        return result

    def _rejected_everywhere(self, status: Status) -> FilterOutcome:
        rows = np.flatnonzero(self._state.cache.columns.alive)
        plugin = np.full(len(rows), EXCLUDED, dtype=np.int16)
        bits = np.zeros(len(rows), dtype=np.uint64)
        return FilterOutcome(rows, plugin, bits, (), (), status)


def own_state(evaluation: ClassEvaluation) -> CycleState:
    """The class's state for one pod to go on with: what plugins add does not leak to the next."""
    state = evaluation.state
    return CycleState(dict(state.data), set(state.skip_filter), set(state.skip_score))
