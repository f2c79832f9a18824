"""A class hears of nominated pods that count for it, once, and is filtered with them added."""

from __future__ import annotations

import numpy as np
import pytest

from podsched.decide.evaluation.nominated_rows import NominatedRows
from podsched.framework.nodes import Bools
from podsched.framework.pods import PodInfo
from support.engine_world import World, node


@pytest.fixture
def world() -> World:
    """Nodes a and b; templates of priority 5 and of priority 4."""
    made = World(0, nodes=0)
    for name in ("a", "b"):
        made.cache.placed.add_node(
            node(name, allocatable={"cpu": "4", "memory": "8Gi", "pods": "1"})
        )
    made.templates = [{"priority": 5}, {"priority": 4}] * 2
    return made


def rows_for(world: World, pod: PodInfo) -> NominatedRows:
    return NominatedRows(world.runtime, world.cluster, pod.priority)


def everywhere(world: World) -> Bools:
    return np.ones(world.cluster.nodes.size, dtype=np.bool_)


def test_a_nomination_is_reported_once_when_it_comes_and_once_when_it_goes(world: World) -> None:
    nominated = rows_for(world, world.pending(0))
    nominee = world.pending(0)
    world.cluster.nominator.add(nominee, "b")
    row = world.cluster.nodes.row_of("b")
    assert nominated.refresh(everywhere(world)).tolist() == [row]
    assert nominated.rows == [row]
    assert nominated.refresh(everywhere(world)).tolist() == []
    world.cluster.nominator.delete(nominee.uid)
    assert nominated.refresh(everywhere(world)).tolist() == [row]
    assert nominated.rows == []


def test_a_class_far_behind_reads_the_nominations_that_are_left_and_not_all_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(0, nodes=50)
    names = [name for name in world.cluster.nodes.names if name]
    pod = world.pending(0)
    nominated, nominee = rows_for(world, pod), world.pending(0)
    for name in names[:2]:
        world.cluster.nominator.add(world.pending(0), name)
    nominated.refresh(everywhere(world))
    for name in names[10:]:
        world.cluster.nominator.add(nominee, name)
    read: list[str] = []
    ask = world.cluster.nominator.pods
    monkeypatch.setattr(
        world.cluster.nominator, "pods", lambda name: [read.append(name), ask(name)][1]
    )
    rows = [world.cluster.nodes.row_of(name) for name in (*names[:2], names[-1])]
    assert nominated.refresh(everywhere(world)).tolist() == rows[2:]
    assert sorted(nominated.rows) == sorted(row for row in rows if row is not None)
    assert read == [*names[:2], names[-1]]


def test_a_class_slightly_behind_reads_only_what_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nominated = rows_for(world, world.pending(0))
    world.cluster.nominator.add(world.pending(0), "a")
    nominated.refresh(everywhere(world))
    world.cluster.nominator.add(world.pending(0), "b")
    ask, read = world.cluster.nominator.pods, list[str]()
    monkeypatch.setattr(
        world.cluster.nominator, "pods", lambda name: [read.append(name), ask(name)][1]
    )
    assert nominated.refresh(everywhere(world)).tolist() == [world.cluster.nodes.row_of("b")]
    assert read == ["b"]


def test_a_pod_of_lower_priority_does_not_count(world: World) -> None:
    nominated = rows_for(world, world.pending(0))
    world.cluster.nominator.add(world.pending(1), "b")
    assert nominated.refresh(everywhere(world)).tolist() == []
    assert nominated.rows == []


def test_a_row_that_is_no_candidate_is_not_reported(world: World) -> None:
    nominated = rows_for(world, world.pending(0))
    world.cluster.nominator.add(world.pending(0), "b")
    assert nominated.refresh(~everywhere(world)).tolist() == []


def test_the_first_pass_filters_nominated_rows_with_their_pods_added(world: World) -> None:
    pod = world.pending(0)
    evaluation = world.evaluation(pod)
    evaluation.refresh(pod)
    nominated = rows_for(world, pod)
    world.cluster.nominator.add(world.pending(0), "b")
    nominated.refresh(everywhere(world))
    found = nominated.first_pass(evaluation.state, pod, evaluation.feasible_rows)
    assert found is not None
    rows, outcome = found
    assert rows.tolist() == [world.cluster.nodes.row_of("b")]
    assert outcome.status(0).message == "Too many pods"


def test_without_nominated_rows_among_those_asked_about_there_is_no_first_pass(
    world: World,
) -> None:
    pod = world.pending(0)
    nominated = rows_for(world, pod)
    world.cluster.nominator.add(world.pending(0), "b")
    nominated.refresh(everywhere(world))
    other = np.array([world.cluster.nodes.row_of("a")], dtype=np.intp)
    assert nominated.first_pass(world.evaluation(pod).state, pod, other) is None
