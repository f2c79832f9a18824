"""The evaluation kept per class says what an evaluation from scratch says, whatever changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.evaluation.filtering import ProfileFilters, Settled, run_filters
from podsched.decide.runtime.plugin_calls import PluginFailure
from support.engine_world import World, node
from support.evaluations import from_scratch, plain, seen
from support.examples import examples


@examples(40)
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


@examples(40)
@given(st.integers(0, 10**6))
def test_one_row_and_forks_are_filtered_as_if_every_plugin_were_asked(seed: int) -> None:
    world = World(seed)
    pendings = [world.pending(template) for template in range(4)]
    evaluations = [world.evaluation(pending) for pending in pendings]
    cluster = world.cluster
    for _ in range(25):
        world.mutate()
        at = world.random.randrange(4)
        evaluation, pending = evaluations[at], pendings[at]
        evaluation.refresh(pending)
        if world.random.random() < 0.5:
            # Some columns are behind now.
            world.mutate()
        live = np.flatnonzero(cluster.nodes.alive)
        row = int(world.random.choice(live.tolist()))
        fits = evaluation.fits_row(pending, row)
        if not evaluation.pre_filtered.status.ok:
            continue
        state, place = evaluation.state, live.tolist().index(row)
        plainly = run_filters(world.runtime, state, pending, cluster.nodes, live, cluster)
        assert plain(evaluation.filter_row(pending, row), 0) == plain(plainly, place)
        assert fits == plainly.status(place).ok
        fork = cluster.nodes.fork(live)
        for fork_row in range(fork.size):
            for there in list(fork.pods(fork_row).values())[:1]:
                fork.remove_pod(fork_row, there)
        some = np.array(world.random.sample(range(fork.size), 3), dtype=np.intp)
        settled = Settled(state, pending, evaluation.settled)
        runner = ProfileFilters(world.runtime, cluster, plainly, None, settled)
        found = runner.run_filters(state, pending, fork, some)
        asked = run_filters(world.runtime, state, pending, fork, some, cluster)
        assert [plain(found, i) for i in range(3)] == [plain(asked, i) for i in range(3)]


@pytest.mark.parametrize(("plugin", "asked"), [("NodeResourcesFit", [1]), ("TaintToleration", [])])
def test_a_plugin_that_reads_only_nodes_is_not_asked_again_about_a_row_that_it_let_pass(
    monkeypatch: pytest.MonkeyPatch, plugin: str, asked: list[int]
) -> None:
    world = World(1, nodes=0)
    world.cache.placed.add_node(node("n"))
    world.templates = [{}] * 4
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    found: list[int] = []
    real = world.runtime.plugins[plugin].filter  # type: ignore[attr-defined]

    def counting(state, pod, nodes, rows):  # type: ignore[no-untyped-def]
        found.append(len(rows))
        return real(state, pod, nodes, rows)

    monkeypatch.setattr(world.runtime.plugins[plugin], "filter", counting)
    assert evaluation.fits_row(pending, 0)
    assert found == asked
    world.cache.placed.add_node(node("n", labels={"new": "label"}))
    found.clear()
    assert evaluation.fits_row(pending, 0)
    assert found == [1]


@pytest.mark.parametrize(
    ("plugin", "after_a_pod", "after_a_node"),
    [("NodeResourcesFit", [1], [1]), ("TaintToleration", [], [1])],
)
def test_only_changed_rows_are_asked_about_again(
    monkeypatch: pytest.MonkeyPatch, plugin: str, after_a_pod: list[int], after_a_node: list[int]
) -> None:
    world = World(1)
    pending = world.pending(0)
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    asked: list[int] = []
    real = world.runtime.plugins[plugin].filter  # type: ignore[attr-defined]

    def counting(state, pod, nodes, rows):  # type: ignore[no-untyped-def]
        asked.append(len(rows))
        return real(state, pod, nodes, rows)

    monkeypatch.setattr(world.runtime.plugins[plugin], "filter", counting)
    evaluation.refresh(pending)
    assert asked == []
    name = world.cluster.nodes.names[0]
    world.cache.assume(world.pending(1), name)
    evaluation.refresh(pending)
    assert asked == after_a_pod
    asked.clear()
    world.cache.placed.add_node(world.random_node(name))
    evaluation.refresh(pending)
    assert asked == after_a_node


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
    world.cache.placed.add_node(world.random_node("only"))
    _, nominee, pending = world.pending(0), world.pending(1), world.pending(0)
    evaluation = world.evaluation(pending)
    before = seen(evaluation, pending)
    world.cluster.nominator.add(nominee, "only")
    assert seen(evaluation, pending) == before


def test_what_is_normalised_while_a_node_is_taken_by_a_nominee_reaches_it_when_it_is_free() -> None:
    world = World(4, nodes=0)
    soft = [{"key": "k", "value": "1", "effect": "PreferNoSchedule"}]
    for name in ("a", "b"):
        world.cache.placed.add_node(
            node(name, taints=soft, allocatable={"cpu": "4", "memory": "8Gi", "pods": "1"})
        )
    world.templates = [{}] * 4
    nominee, pending = world.pending(0), world.pending(0)
    evaluation = world.evaluation(pending)
    assert seen(evaluation, pending) == from_scratch(world, pending)
    world.cluster.nominator.add(nominee, "a")
    assert seen(evaluation, pending) == from_scratch(world, pending)
    world.cache.placed.add_node(node("c", taints=soft * 2))
    assert seen(evaluation, pending) == from_scratch(world, pending)
    world.cluster.nominator.delete(nominee.uid)
    assert seen(evaluation, pending) == from_scratch(world, pending)


def _big() -> dict[str, object]:
    return {"name": "c", "image": "app:1", "resources": {"requests": {"memory": "900Gi"}}}
