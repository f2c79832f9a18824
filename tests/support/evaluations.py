"""What an evaluation of a pod class says, in a form to compare, and the same from scratch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.totals import NO_TOTAL
from podsched.decide.evaluation.filtering import run_filters
from podsched.decide.evaluation.pre_filtering import run_pre_filter
from podsched.decide.evaluation.scoring import run_pre_score, run_score
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from support.engine_world import World

Seen = tuple[str, dict[str, Status], dict[str, int]]


def plain(outcome: FilterOutcome, index: int) -> Status:
    """A row's status; the order of its reasons means nothing."""
    status = outcome.status(index)
    return replace(status, reasons=tuple(sorted(status.reasons)))


def seen(evaluation: ClassEvaluation, pending: PodInfo) -> Seen:
    """(failure or PreFilter's words, status per node, total per feasible node)."""
    evaluation.refresh(pending)
    names = evaluation.cluster.nodes.names
    outcome = evaluation.outcome()
    statuses = {names[row]: plain(outcome, i) for i, row in enumerate(outcome.rows.tolist())}
    totals = {names[row]: int(evaluation.total[row]) for row in evaluation.feasible_rows.tolist()}
    assert set(np.flatnonzero(evaluation.total != NO_TOTAL)) == set(evaluation.feasible_rows)
    return evaluation.pre_filtered.status.message, statuses, totals


def from_scratch(world: World, pending: PodInfo) -> Seen:
    """The same by the plain runs of all plugins over all rows."""
    state, nodes = CycleState(), world.cluster.nodes
    pre = run_pre_filter(world.runtime, state, pending, world.cluster)
    rows = np.flatnonzero(nodes.alive)
    outcome = run_filters(world.runtime, state, pending, nodes, rows, world.cluster)
    feasible = rows[outcome.plugin == -1]
    run_pre_score(world.runtime, state, pending, world.cluster, feasible)
    scores = run_score(world.runtime, state, pending, nodes, feasible)
    statuses = {nodes.names[row]: plain(outcome, i) for i, row in enumerate(rows.tolist())}
    totals = {
        nodes.names[row]: total
        for row, total in zip(feasible.tolist(), scores.total.tolist(), strict=True)
    }
    return pre.status.message, statuses, totals
