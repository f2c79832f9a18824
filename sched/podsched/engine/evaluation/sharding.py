"""Filter and Score of a pod class over a part of the nodes, to be run somewhere else.

The asking side runs PreFilter and PreScore over the whole cluster and sends the pod and the
CycleState; each part answers for the nodes it holds; the answers are merged, normalised and
completed by ``ClassEvaluation.adopt``. Everything here is plain values and can be pickled; who
carries them is not this module's business.

Guarantee: any split into parts gives what the whole gives (property test). That rests on a part's
columns having the asking side's rows and label value ids (``cache.deltas``), for plugins put arrays
over rows into CycleState. Nominated pods are counted by the asking side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.engine.evaluation.class_evaluation import ClassEvaluation
from podsched.engine.evaluation.filtering import filter_one, renumbered
from podsched.engine.evaluation.scoring import score_one
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import Bools, NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Reason, Rows, Scores, Verdicts
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What is to be found out. ``pod`` is a serialized Pod; ``filters``, ``scores`` name plugins.

    ``node_names``: the only nodes worth looking at, None for all that the part holds.
    """

    scheduler_name: str
    pod: bytes
    state: CycleState
    filters: tuple[str, ...]
    scores: tuple[str, ...]
    node_names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """What was found for some rows; see ``class_evaluation.Findings``."""

    rows: Rows
    verdicts: dict[str, Verdicts]
    fits: Bools
    raw: dict[str, Scores]


def request_for(evaluation: ClassEvaluation, pod: PodInfo) -> EvaluationRequest | None:
    """Return the request for a class's first evaluation; None when there is nothing to ask.

    Raises PluginFailure.
    """
    if not evaluation.begin(pod):
        return None
    filters = tuple(c.named.name for c in evaluation.filters if c.active)
    scores = tuple(c.named.name for c in evaluation.scores if c.known and c.active)
    return EvaluationRequest(
        evaluation.runtime.scheduler_name,
        pod.pod.SerializeToString(),
        evaluation.state,
        filters,
        scores,
        evaluation.pre_filtered.node_names,
    )


def evaluate(
    runtime: ProfileRuntime,
    nodes: NodeColumns,
    classes: PodClasses,
    request: EvaluationRequest,
    rows: Rows | None = None,
) -> EvaluationResult:
    """Answers a request for rows of these columns, by default for all of their nodes.

    Raises PluginFailure when a Score fails.
    """
    pod = make_pod_info(v1.Pod.FromString(request.pod), classes)
    rows = np.flatnonzero(nodes.alive) if rows is None else rows
    if request.node_names is not None:
        names = nodes.names
        inside = [names[row] in request.node_names for row in rows.tolist()]
        rows = rows[np.array(inside, dtype=np.bool_)]
    fits = np.ones(len(rows), dtype=np.bool_)
    verdicts = {}
    for filtering in runtime.filter:
        if filtering.name in request.filters:
            said = filter_one(filtering, request.state, pod, nodes, rows)
            verdicts[filtering.name] = said
            fits &= said.bits == 0
    raw = {
        scoring.name: score_one(scoring, request.state, pod, nodes, rows[fits])
        for scoring in runtime.score
        if scoring.name in request.scores
    }
    return EvaluationResult(rows, verdicts, fits, raw)


def merge(results: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the results of several parts as one. There is at least one."""
    first = results[0]
    return EvaluationResult(
        np.concatenate([result.rows for result in results]),
        {name: _merge_verdicts([r.verdicts[name] for r in results]) for name in first.verdicts},
        np.concatenate([result.fits for result in results]),
        {name: np.concatenate([result.raw[name] for result in results]) for name in first.raw},
    )


def _merge_verdicts(parts: Sequence[Verdicts]) -> Verdicts:
    reasons: list[Reason] = []
    bits = [renumbered(part.bits, part.reasons, reasons) for part in parts]
    return Verdicts(np.concatenate(bits), tuple(reasons))


def adopt(
    evaluation: ClassEvaluation,
    pod: PodInfo,
    results: Sequence[EvaluationResult],
    unknown: Rows | None = None,
) -> None:
    """Completes an evaluation that ``request_for`` began; without results it is abandoned.

    ``unknown``: rows that the parts may not have had as they were at the request. These, and rows
    that no result has, are evaluated here. Raises PluginFailure.
    """
    size = evaluation.cluster.nodes.size
    if not results or len(evaluation.feasible) != size:
        evaluation.discard()
        return
    merged = merge(results)
    if unknown is not None and len(unknown):
        kept = ~np.isin(merged.rows, unknown)
        merged = _only(merged, kept)
    evaluation.adopt(pod, merged.rows, merged)


def _only(result: EvaluationResult, kept: Bools) -> EvaluationResult:
    of_fitting = kept[result.fits]
    return EvaluationResult(
        result.rows[kept],
        {name: Verdicts(v.bits[kept], v.reasons) for name, v in result.verdicts.items()},
        result.fits[kept],
        {name: raw[of_fitting] for name, raw in result.raw.items()},
    )
