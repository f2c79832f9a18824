"""Cached dry runs of preemption say what trying every node anew says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.evaluation.filtering import ProfileFilters
from podsched.framework.plugin import FilterRunner
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.plugins.default_preemption import dry_run_cache
from podsched.plugins.default_preemption.dry_run import Budgets, DryRun, dry_run
from podsched.plugins.default_preemption.dry_run_cache import DryRunCache
from podsched.plugins.default_preemption.plugin import best_candidates
from podsched.v1 import objects_pb2 as v1
from support.engine_world import World, container, node
from support.examples import examples


def with_priorities(seed: int) -> World:
    """The later a template, the higher the priority of its pods."""
    world = World(seed)
    world.templates = [
        {**template, "priority": 10 * i} for i, template in enumerate(world.templates)
    ]
    return world


def set_start_time(world: World) -> None:
    """The informer reports when a placed pod started."""
    if world.placed:
        index = world.random.randrange(len(world.placed))
        started = replace(world.placed[index], start_time=float(world.random.randrange(100)))
        world.placed[index] = started
        row = world.cluster.nodes.row_of(started.node_name)
        assert row is not None
        world.cache.columns.pod_table.replace(row, started)


def budget(world: World) -> v1.PodDisruptionBudget:
    found = v1.PodDisruptionBudget()
    found.metadata.namespace, found.metadata.name = "default", "budget"
    found.spec.selector.match_labels["app"] = "x"
    found.status.disruptions_allowed = world.random.randrange(3)
    return found


def both(world: World, cache: DryRunCache, pending: PodInfo) -> tuple[DryRun, DryRun]:
    """What is cached or tried, and what trying everything finds."""
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    cluster = world.cluster
    runner: FilterRunner = ProfileFilters(
        world.runtime, cluster, evaluation.outcome(), evaluation.inputs.last
    )
    live = np.flatnonzero(cluster.nodes.alive)
    chosen = [row for row in live.tolist() if world.random.random() < 0.7]
    rows = np.array(chosen, dtype=np.intp)
    cached = cache.dry_run(evaluation.state, pending, cluster, rows, runner)
    budgets = Budgets(cluster.list("PodDisruptionBudget"))
    return cached, dry_run(evaluation.state, pending, cluster.nodes, rows, runner, budgets)


def named(found: DryRun) -> dict[int, tuple[list[str], int]]:
    """Victims by uid: a pod that started anew at the same time is another object."""
    candidates = found.candidates.items()
    return {row: ([p.uid for p in v.pods], v.num_pdb_violations) for row, v in candidates}


def reasons(found: DryRun) -> dict[int, tuple[Code, set[str]]]:
    """Why rows are ruled out; a row's reasons are in the order of those of the rows before it."""
    return {row: (status.code, set(status.reasons)) for row, status in found.rejected.items()}


@examples(25)
@given(st.integers(0, 10**6))
def test_after_any_changes_the_victims_are_those_of_a_fresh_dry_run(seed: int) -> None:
    world = with_priorities(seed)
    cache = DryRunCache()
    for _ in range(25):
        for _ in range(world.random.choice((0, 1, 2))):
            change = world.random.random()
            if change < 0.7:
                world.mutate()
            elif change < 0.9:
                set_start_time(world)
            else:
                world.cluster.put("PodDisruptionBudget", budget(world))
        # A nominated pod counts for the others of its class, but not for itself.
        new = world.pending(world.random.choice((2, 3)))
        cached, fresh = both(world, cache, world.random.choice([new, *world.nominees]))
        assert named(cached) == named(fresh)
        assert reasons(cached) == reasons(fresh)


@examples(25)
@given(st.integers(0, 10**6))
def test_the_best_of_a_search_is_the_one_that_all_criteria_leave(seed: int) -> None:
    world, cache = with_priorities(seed), DryRunCache()
    for _ in range(25):
        world.mutate()
        set_start_time(world)
        if world.random.random() < 0.2:
            world.cluster.put("PodDisruptionBudget", budget(world))
        pending = world.pending(3)
        evaluation = world.evaluation(pending)
        evaluation.refresh(pending)
        runner = ProfileFilters(
            world.runtime, world.cluster, evaluation.outcome(), evaluation.inputs.last
        )
        rows = np.flatnonzero(world.cluster.nodes.alive)
        chunks = [rows[:4], rows[4:8], rows[8:]]
        found = cache.search(evaluation.state, pending, world.cluster, chunks, runner)
        candidates = found.results().candidates
        best = found.best()
        assert best == (best_candidates(candidates)[0] if candidates else None)
        assert best is None or found.victims(best) == candidates[best]


@examples(25)
@given(st.integers(0, 10**6))
def test_a_search_in_parts_finds_what_one_in_one_go_finds(seed: int) -> None:
    """Whatever changes between the parts."""
    world, whole = with_priorities(seed), DryRunCache()
    divided = DryRunCache()

    def should_stop() -> bool:
        return world.random.random() < 0.5

    for _ in range(15):
        world.mutate()
        pending, tries = world.pending(3), 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dry_run_cache, "PART", world.random.choice((1, 4)))
            while True:
                evaluation = world.evaluation(pending)
                evaluation.refresh(pending)
                runner = ProfileFilters(
                    world.runtime, world.cluster, evaluation.outcome(), evaluation.inputs.last
                )
                rows = np.flatnonzero(world.cluster.nodes.alive)
                search = (evaluation.state, pending, world.cluster, [rows[:5], rows[5:]], runner)
                found, tries = divided.search(*search, should_stop), tries + 1
                if found.is_complete or tries > 50:
                    break
                if tries < 4:
                    world.mutate()
        assert found.is_complete, "each part brings it nearer to the end"
        at_once = whole.search(*search)
        assert named(found.results()) == named(at_once.results())
        assert reasons(found.results()) == reasons(at_once.results())
        assert found.best() == at_once.best()


def full(*names: str) -> World:
    """Nodes of two cpus, each with two pods; template ``n`` asks for ``n`` cpus."""
    world = World(1, nodes=0)
    asking = [{"containers": [container({"cpu": f"{n}"})], "priority": 10} for n in range(4)]
    world.templates = [{"containers": [container({"cpu": "1"})]}, *asking[1:]]
    for name in names:
        world.cache.placed.add_node(node(name, allocatable={"cpu": "2", "pods": "10"}))
        for _ in range(2):
            world.cache.assume(world.pending(0), name)
    return world


def number_of_victims(world: World, cache: DryRunCache, pending: PodInfo, row: int) -> int:
    evaluation = world.evaluation(pending)
    evaluation.refresh(pending)
    cluster = world.cluster
    runner = ProfileFilters(world.runtime, cluster, evaluation.outcome(), evaluation.inputs.last)
    rows = np.array([row], dtype=np.intp)
    return len(cache.dry_run(evaluation.state, pending, cluster, rows, runner).candidates[row].pods)


def test_a_pods_own_nomination_counts_for_the_others_of_its_class_only() -> None:
    world, cache = full("n"), DryRunCache()
    nominee, other = world.pending(1), world.pending(1)
    world.cluster.nominator.add(nominee, "n")
    tried = [number_of_victims(world, cache, one, 0) for one in (other, nominee, other, nominee)]
    assert tried == [2, 1, 2, 1]


def test_a_nominated_pod_that_is_resized_is_tried_again_on_the_other_nodes() -> None:
    world, cache = full("n", "m"), DryRunCache()
    nominee = world.pending(1)
    resized = replace(nominee, cls=world.pending(2).cls)
    world.cluster.nominator.add(nominee, "n")
    assert number_of_victims(world, cache, nominee, 1) == 1
    world.cluster.nominator.update(nominee, resized)
    assert number_of_victims(world, cache, resized, 1) == 2


def test_a_second_pod_of_a_class_tries_only_nodes_that_changed() -> None:
    world = World(7, nodes=0)
    world.templates = [{"priority": 0}, {"priority": 10}, {}, {}]
    for _ in range(5):
        world.cache.placed.add_node(world.random_node())
    for name in list(world.cluster.nodes.names)[:5]:
        world.cache.assume(world.pending(0), name)
    cache, tried = DryRunCache(), []
    evaluation = world.evaluation(world.pending(1))
    evaluation.refresh(world.pending(1))

    class Counting(ProfileFilters):
        def run_filters(self, state, pod, nodes, rows):  # type: ignore[no-untyped-def]
            tried.append(nodes.size)
            return super().run_filters(state, pod, nodes, rows)

    runner = Counting(world.runtime, world.cluster, evaluation.outcome(), evaluation.inputs.last)
    rows = np.flatnonzero(world.cluster.nodes.alive)
    cache.dry_run(evaluation.state, world.pending(1), world.cluster, rows, runner)
    assert set(tried) == {5}
    tried.clear()
    world.cache.assume(world.pending(0), world.cluster.nodes.names[int(rows[0])])
    cache.dry_run(evaluation.state, world.pending(1), world.cluster, rows, runner)
    assert set(tried) == {1}
