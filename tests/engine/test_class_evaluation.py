"""The evaluation kept per class says what an evaluation from scratch says, whatever changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsched.engine.class_evaluation import NO_TOTAL, ClassEvaluation
from podsched.engine.filtering import run_filters, run_pre_filter
from podsched.engine.plugin_calls import PluginFailure
from podsched.engine.scoring import run_pre_score, run_score
from podsched.framework.plugin import CycleState, FilterOutcome
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status, sorted_reasons
from support.engine_world import World

Seen = tuple[str, dict[str, Status], dict[str, int]]


def plain(outcome: FilterOutcome, index: int) -> Status:
    """A row's status; the order of its reasons means nothing."""
    status = outcome.status(index)
    return replace(status, reasons=sorted_reasons(status.reasons))


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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_after_any_changes_it_equals_an_evaluation_from_scratch(seed: int) -> None:
    world = World(seed)
    pendings = [world.pending(template) for template in range(4)]
    evaluations = [world.evaluation(pending) for pending in pendings]
    for _ in range(30):
        for _ in range(world.random.choice((0, 1, 1, 3))):
            world.mutate()
        at = world.random.randrange(4)
        assert seen(evaluations[at], pendings[at]) == from_scratch(world, pendings[at])


def test_only_changed_rows_are_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    asked: list[int] = []
    plugin = evaluation.filters[0].named.plugin
    real = plugin.filter

    def counting(state, pod, nodes, rows):  # type: ignore[no-untyped-def]
        asked.append(len(rows))
        return real(state, pod, nodes, rows)

    monkeypatch.setattr(plugin, "filter", counting)
    evaluation.refresh(pending)
    assert asked == []
    world.cache.assume(world.pending(1), world.cluster.nodes.names[0])
    evaluation.refresh(pending)
    assert asked == [1]


def test_a_failing_plugin_ends_the_cycle_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(2)
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    plugin = world.runtime.plugins["NodeResourcesFit"]
    with monkeypatch.context() as broken:
        broken.setattr(plugin, "filter", lambda *_: 1 / 0)
        evaluation.refresh(pending)
        assert isinstance(evaluation.failure, PluginFailure)
        expected = 'running "NodeResourcesFit" filter plugin: division by zero'
        assert evaluation.failure.status.message == expected
    assert seen(evaluation, pending) == from_scratch(world, pending)
    assert evaluation.failure is None


def test_a_nominated_pod_of_lower_priority_does_not_count() -> None:
    world = World(3, nodes=0)
    world.templates = [{"priority": 5}, {"priority": 4, "containers": [_big()]}] * 2
    world.cache.add_node(world.random_node("only"))
    _, nominee, pending = world.pending(0), world.pending(1), world.pending(0)
    evaluation = world.evaluation(pending)
    before = seen(evaluation, pending)
    world.cluster.nominator.add(nominee, "only")
    assert seen(evaluation, pending) == before


def _big() -> dict[str, object]:
    return {"name": "c", "image": "app:1", "resources": {"requests": {"memory": "900Gi"}}}
