"""Filter and Score a pod class over a part of the nodes in another process.

    leader                                            part (a shard of the nodes)
    ClassEvaluation.begin: PreFilter, PreScore
    request_for: pod, CycleState, plugins --------->  evaluate: Filter, Score for its rows
    adopt: merge, nominated pods, NormalizeScore  <-- EvaluationResult

Requests and results are plain values that can be pickled; transport is done elsewhere.

Guarantee: any split into parts gives the same result as the whole (property test). This requires
that a part's columns have the leader's rows (``cache.deltas``), because plugins put arrays over
rows into CycleState. The leader counts nominated pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.decide.accelerators.class_evaluation import ClassEvaluation, PendingEvaluation
from podsched.decide.accelerators.evaluation_result import EvaluationResult, merge
from podsched.decide.evaluation.filtering import filter_one
from podsched.decide.evaluation.scoring import score_one
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A request to a part. ``pod`` is a serialized Pod; ``filters`` and ``scores`` name plugins.

    ``node_names``: the only nodes to evaluate, None for all nodes of the part.
    """

    scheduler_name: str
    pod: bytes
    state: CycleState
    filters: tuple[str, ...]
    scores: tuple[str, ...]
    node_names: frozenset[str] | None = None


class RemoteEvaluator(Protocol):
    """Makes the first evaluation of a class in other processes; does nothing if it cannot."""

    @property
    def available(self) -> bool:
        """Whether other processes are available."""

    async def prepare(self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str) -> bool:
        """Make the first evaluation; return whether time has passed meanwhile."""


def request_for(pending: PendingEvaluation) -> EvaluationRequest:
    """Return the request for a class's first evaluation."""
    evaluation = pending.evaluation
    return EvaluationRequest(
        evaluation.runtime.scheduler_name,
        pending.pod.pod.SerializeToString(),
        evaluation.state,
        pending.filters,
        pending.scores,
        evaluation.pre_filtered.node_names,
    )


def evaluate(
    runtime: ProfileRuntime, nodes: NodeColumns, classes: PodClasses, request: EvaluationRequest
) -> EvaluationResult:
    """Answer a request for the nodes of these columns. Raises PluginFailure if a Score fails."""
    pod = make_pod_info(v1.Pod.FromString(request.pod), classes)
    rows = np.flatnonzero(nodes.alive)
    if request.node_names is not None:
        names = nodes.names
        inside = [names[row] in request.node_names for row in rows.tolist()]
        rows = rows[np.array(inside, dtype=np.bool_)]
    fits = np.ones(len(rows), dtype=np.bool_)
    verdicts = {}
    for filtering in runtime.filter:
        if filtering.name in request.filters:
            # On all rows, although another filter may have rejected some: the leader keeps every
            # column.
            said = filter_one(filtering, request.state, pod, nodes, rows)
            verdicts[filtering.name] = said
            fits &= said.bits == 0
    raw = {
        scoring.name: score_one(scoring, request.state, pod, nodes, rows[fits])
        for scoring in runtime.score
        if scoring.name in request.scores
    }
    return EvaluationResult(rows, verdicts, fits, raw)


def adopt(
    pending: PendingEvaluation, results: Sequence[EvaluationResult], unknown: Rows | None = None
) -> None:
    """Complete a pending evaluation; without results it is discarded.

    ``unknown``: rows whose state in the parts may have differed from that at the request. These
    rows, and rows without a result, are evaluated here. Raises PluginFailure.
    """
    if not results:
        pending.discard()
        return
    merged = merge(results)
    if unknown is not None and len(unknown):
        merged = merged.only(~np.isin(merged.rows, unknown))
    pending.adopt(merged)
