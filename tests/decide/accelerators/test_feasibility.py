"""A row's rejection may be overridden until the next refresh; only changed rows are asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsched.cache.pod_class import make_pod_info
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Reason
from support.engine_world import World, node, pod
from support.evaluations import from_scratch, seen

ONE_POD = {"cpu": "4", "memory": "8Gi", "pods": "1"}
SOFT = [{"key": "k", "value": "1", "effect": "PreferNoSchedule"}]


def world_of_two_nodes() -> World:
    world = World(4, nodes=0)
    for name in ("a", "b"):
        world.cache.placed.add_node(node(name, taints=SOFT, allocatable=ONE_POD))
    world.templates = [{}] * 4
    return world


def override(evaluation: ClassEvaluation, name: str) -> int:
    """Have NodeResourcesFit reject the node."""
    row = evaluation.cluster.nodes.row_of(name)
    assert row is not None
    names = tuple(column.named.name for column in evaluation.feasibility.columns)
    index = names.index("NodeResourcesFit")
    reasons = tuple(
        (Reason(Code.UNSCHEDULABLE, "for this pod"),) if name == names[index] else ()
        for name in names
    )
    one = np.array([index], dtype=np.int16)
    rows, bits = np.array([row], dtype=np.intp), np.ones(1, dtype=np.uint64)
    evaluation.override_row(row, FilterOutcome(rows, one, bits, names, reasons))
    return row


def test_as_long_as_every_row_has_its_status_the_outcome_is_the_same_one() -> None:
    world = World(5, nodes=0)
    for name in ("a", "b"):
        world.cache.placed.add_node(
            node(name, allocatable={"cpu": "1", "memory": "8Gi", "pods": "1"})
        )
    world.templates = [{}] * 4
    for name in ("a", "b"):
        world.cache.assume(world.pending(), name)
    pending = world.pending()
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    outcome = evaluation.outcome()
    world.cluster.nominator.add(world.pending(), "b")
    evaluation.refresh(pending)
    assert evaluation.outcome() is outcome
    world.cache.placed.add_node(node("b", unschedulable=True))
    evaluation.refresh(pending)
    changed = evaluation.outcome()
    assert changed.status(1).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert outcome.status(1).code is Code.UNSCHEDULABLE
    assert (outcome.resolvable.tolist(), changed.resolvable.tolist()) == ([0, 1], [0])


def test_an_overridden_row_is_rejected_until_the_next_refresh() -> None:
    world = world_of_two_nodes()
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    row = override(evaluation, "a")
    assert row not in evaluation.feasible_rows
    assert evaluation.outcome().status(row).message == "for this pod"
    assert seen(evaluation, pending) == from_scratch(world, pending)
    assert row in evaluation.feasible_rows


def test_an_overridden_row_that_stays_rejected_is_normalised_anew_when_it_fits() -> None:
    world = world_of_two_nodes()
    pending, other = world.pending(0), world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    override(evaluation, "a")
    world.cache.assume(other, "a")
    assert seen(evaluation, pending) == from_scratch(world, pending)
    two = [*SOFT, {"key": "l", "value": "1", "effect": "PreferNoSchedule"}]
    world.cache.placed.add_node(node("b", taints=two, allocatable=ONE_POD))
    assert seen(evaluation, pending) == from_scratch(world, pending)
    world.cache.forget(other)
    assert seen(evaluation, pending) == from_scratch(world, pending)


def test_what_a_plugin_reads_that_filters_nothing_has_no_row_asked_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PodTopologySpread reads how many such pods each node has, here for its scores alone."""
    world = world_of_two_nodes()
    pending, other = spread_pod(world, "pending"), spread_pod(world, "other")
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    asked_of_all: list[bool] = []
    ask = evaluation.feasibility.filter

    def told(*args: Any) -> bool:
        asked_of_all.append(ask(*args))
        return asked_of_all[-1]

    monkeypatch.setattr(evaluation.feasibility, "filter", told)
    world.cache.assume(other, "a")
    evaluation.refresh(pending)
    assert asked_of_all == [False]
    assert seen(evaluation, pending) == from_scratch(world, pending)


def spread_pod(world: World, name: str) -> PodInfo:
    """A pod that prefers zones with few of its like."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    spec = {"topologySpreadConstraints": [constraint]}
    return make_pod_info(pod(name, spec, labels={"app": "a"}), world.cache.classes)
