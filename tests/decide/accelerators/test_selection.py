"""Runs of equal pods are placed exactly as one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators.selection import Ending, Selector
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Scores, Verdicts, rejecting
from podsched.plugins.rows.normalize import default_normalize
from support.engine_world import World, container, node
from support.examples import examples

LEAST = {"type": "LeastAllocated"}


class Decider:
    """Places pods on one world and remembers where they went."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: list[int] = []
        self.calls = 0

    def commit(self, pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
        self.calls += 1
        names = self.world.cluster.nodes.names
        self.world.cache.assume_many(pods, [names[row] for row in rows])
        self.rows += rows


class Crowd:
    """Scores the number of pods, which every placement changes, relative to the fullest node."""

    name: ClassVar[str] = "Crowd"
    traits: ClassVar[Traits] = Traits(reads_pods=False, normalizes_by_extremes=True)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        return nodes.pod_count[rows]

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return default_normalize(scores)


class RankedCrowd(Crowd):
    """The same by rank, so that each score depends on all others."""

    traits: ClassVar[Traits] = Traits(reads_pods=False)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return np.searchsorted(np.unique(scores), scores).astype(np.int64)


CROWDS: tuple[dict[str, type], ...] = ({}, {"Crowd": Crowd}, {"Crowd": RankedCrowd})


def prepared(seed: int, changes: int = 15) -> World:
    world = World(seed, nodes=world_size(seed), scores=CROWDS[seed % 3])
    for _ in range(changes):
        world.mutate()
    return world


def world_size(seed: int) -> int:
    return 3 + seed % 20


@examples(60)
@given(st.integers(0, 10**6), st.integers(1, 60))
def test_a_batch_goes_where_its_pods_would_go_one_by_one(seed: int, count: int) -> None:
    one, many = prepared(seed), prepared(seed)
    template = seed % 4
    first = one.pending(template)
    selector, decider = Selector(one.evaluation(first)), Decider(one)
    feasible = []
    for _ in range(count):
        pending = one.pending(template)
        choice = selector.select(pending)
        if choice is None:
            break
        feasible.append(choice.feasible)
        decider.commit([pending], [choice.row])
    pods = [many.pending(template) for _ in range(count + 1)][1:]
    batch = Decider(many)
    run = Selector(many.evaluation(pods[0])).select_batch(pods, batch.commit)
    assert run.rows == batch.rows == decider.rows
    assert [number for part in run.rounds for number in part.feasible] == feasible
    assert (run.ending is Ending.PLACED) == (len(decider.rows) == count)


@examples(25)
@given(st.integers(0, 10**6))
def test_each_choice_of_a_batch_is_among_the_best_at_its_turn(seed: int) -> None:
    world, checking = prepared(seed), prepared(seed)
    template = seed % 4
    pods = [world.pending(template) for _ in range(30)]
    run = Selector(world.evaluation(pods[0])).select_batch(pods, Decider(world).commit)
    again = [checking.pending(template) for _ in range(30)]
    for pending, row in zip(again, run.rows, strict=False):
        evaluation = checking.evaluation(pending)
        evaluation.refresh(pending)
        assert evaluation.total[row] == evaluation.total.max() >= 0
        Decider(checking).commit([pending], [row])


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_a_batch_in_parts_is_placed_as_in_one_go(seed: int, rounds: int) -> None:
    whole, parts = prepared(seed), prepared(seed)
    template = seed % 4
    decider = Decider(whole)
    pods = [whole.pending(template) for _ in range(30)]
    at_once = Selector(whole.evaluation(pods[0])).select_batch(pods, decider.commit)
    pods = [parts.pending(template) for _ in range(30)]
    batch, selector = Decider(parts), Selector(parts.evaluation(pods[0]))
    left = pods
    while left:
        asked = iter(range(1, rounds + 1))
        run = selector.select_batch(left, batch.commit, lambda: next(asked) == rounds)  # noqa: B023
        assert len(run.rounds) <= rounds
        if run.ending is not Ending.PLACED:
            break
        left = left[len(run.rows) :]
    assert batch.rows == decider.rows
    assert run.ending is at_once.ending


def test_equal_pods_on_equal_nodes_take_one_round() -> None:
    world = World(0, nodes=0, strategy=LEAST)
    for number in range(100):
        world.cache.placed.add_node(node(f"n{number:03}"))
    world.templates = [{}] * 4
    pods = [world.pending(0) for _ in range(90)]
    decider = Decider(world)
    Selector(world.evaluation(pods[0])).select_batch(pods, decider.commit)
    assert sorted(decider.rows) == list(range(90))
    assert decider.calls == 2, "one pod to learn that nothing else changes, then all at once"


def test_room_kept_for_a_nominated_pod_is_not_given_away_in_a_batch() -> None:
    world = World(0, nodes=0, strategy={"type": "MostAllocated"})
    for name, pods in (("a", "9"), ("b", "4")):
        world.cache.placed.add_node(
            node(
                name,
                allocatable={"cpu": "1" if name == "b" else "4", "memory": "8Gi", "pods": pods},
            )
        )
    world.templates = [{}] * 4
    world.cluster.nominator.add(world.pending(0), "b")
    decider = Decider(world)
    pods = [world.pending(0) for _ in range(6)]
    Selector(world.evaluation(pods[0])).select_batch(pods, decider.commit)
    names = [world.cluster.nodes.names[row] for row in decider.rows]
    assert names == ["b", "b", "b", "a", "a", "a"]


def test_a_node_that_fills_up_changes_how_the_others_are_normalised() -> None:
    world = World(0, nodes=0, strategy=LEAST)
    small = {"cpu": "8", "memory": "64Gi", "pods": "2"}
    world.cache.placed.add_node(node("first", labels={"rank": "2"}, allocatable=small))
    full = {"cpu": "8", "memory": "64Gi", "pods": "10"}
    world.cache.placed.add_node(node("second", labels={"rank": "1"}, allocatable=full))
    world.cache.placed.add_node(node("third", allocatable=full, images=["base:2"]))
    preferred = [
        {"weight": w, "preference": {"matchExpressions": [
            {"key": "rank", "operator": "In", "values": [rank]}]}}
        for w, rank in ((100, "2"), (50, "1"))
    ]  # fmt: skip
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    filler = {"containers": [container({"cpu": "7", "memory": "56Gi"}, "other")]}
    wanted = {"containers": [container({"cpu": "10m"}, "base:2")], "affinity": affinity}
    world.templates = [filler, wanted, wanted, wanted]
    world.cache.assume(world.pending(0), "second")
    decider = Decider(world)
    pods = [world.pending(1) for _ in range(4)]
    Selector(world.evaluation(pods[0])).select_batch(pods, decider.commit)
    names = [world.cluster.nodes.names[row] for row in decider.rows]
    assert names == ["first", "first", "second", "second"]


def test_a_batch_ends_at_the_first_pod_that_fits_nowhere() -> None:
    world = World(0, nodes=0, strategy=LEAST)
    world.cache.placed.add_node(node("n", allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"}))
    world.templates = [{}] * 4
    pods = [world.pending(0) for _ in range(12)]
    selector = Selector(world.evaluation(pods[0]))
    run = selector.select_batch(pods, Decider(world).commit)
    assert (len(run.rows), run.ending) == (10, Ending.UNSCHEDULABLE)
    message = "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods."
    assert selector.evaluation.diagnosis().fit_error() == message


def test_the_nominated_node_is_taken_when_it_fits_though_others_are_better() -> None:
    world = World(0, nodes=0, strategy=LEAST)
    for name, cpu in (("worse", "1"), ("better", "8")):
        world.cache.placed.add_node(
            node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"})
        )
    world.templates = [{}] * 4
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    better = selector.select(pending)
    assert better is not None
    assert world.cluster.nodes.names[better.row] == "better"
    pending.nominated_node_name = "worse"
    world.cluster.nominator.add(pending, "worse")
    choice = selector.select(pending)
    assert choice is not None
    assert world.cluster.nodes.names[choice.row] == "worse"
    assert choice.evaluated == 1


def test_a_pod_that_fits_its_nominated_node_is_placed_without_a_look_at_other_rows() -> None:
    world = World(0, nodes=0, strategy=LEAST)
    for name in ("a", "b", "c"):
        world.cache.placed.add_node(node(name))
    world.templates = [{}] * 4
    nominees = [world.pending(0) for _ in range(2)]
    for nominee, name in zip(nominees, ("c", "b"), strict=True):
        world.cluster.nominator.add(nominee, name)
    selector, decider = Selector(world.evaluation(nominees[0])), Decider(world)
    run = selector.select_batch(nominees, decider.commit)
    assert [world.cluster.nodes.names[row] for row in run.rows] == ["c", "b"]
    assert not selector.evaluation.is_evaluated, "no other row was needed"
    other = world.pending(0)
    run = selector.select_batch([other], decider.commit)
    assert [world.cluster.nodes.names[row] for row in run.rows] == ["a"]


@pytest.mark.parametrize("status_knows", [True, False])
def test_a_nominated_pod_does_not_stand_in_its_own_way_but_in_that_of_others(
    status_knows: bool,
) -> None:
    world = World(0, nodes=0, strategy=LEAST)
    world.cache.placed.add_node(node("n", allocatable={"cpu": "1", "memory": "8Gi", "pods": "1"}))
    world.templates = [{}] * 4
    nominee, other = world.pending(0), world.pending(0)
    nominee.nominated_node_name = "n" if status_knows else ""
    world.cluster.nominator.add(nominee, "n")
    selector = Selector(world.evaluation(other))
    assert selector.select(other) is None
    assert selector.select(nominee) is not None
    assert selector.select(other) is None


def test_a_share_of_the_nodes_is_scored_when_configured() -> None:
    world = World(0, nodes=0, percentage=1, strategy=LEAST)
    for number in range(300):
        world.cache.placed.add_node(node(f"n{number:03}"))
    world.templates = [{}] * 4
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    first, second = selector.select(pending), selector.select(pending)
    assert first is not None and second is not None
    assert (first.feasible, first.evaluated) == (100, 100)
    assert (first.row, second.row) == (0, 100)


@pytest.mark.parametrize(
    ("percentage", "expected"),
    [(1, [(0, 1), (1, 1)]), (100, [(0, 1), (1, 1)]), (None, [(0, 3)] * 2)],
)
def test_without_a_score_plugin_a_search_for_a_share_ends_at_the_first_node_that_fits(
    percentage: int | None, expected: list[tuple[int, int]]
) -> None:
    """As in kube-scheduler, also in a small cluster: there is nothing to compare nodes by."""
    world = World(0, nodes=0, percentage=percentage, strategy=LEAST, scoring=False)
    for number in range(3):
        world.cache.placed.add_node(node(f"n{number}"))
    world.templates = [{}] * 4
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    found = [selector.select(pending) for _ in range(2)]
    assert [(one.row, one.evaluated) for one in found if one is not None] == expected


def naming(percentage: int | None) -> World:
    """300 nodes, and pods that name the last 200 of them."""
    world = World(0, nodes=0, percentage=percentage, strategy=LEAST)
    for number in range(300):
        world.cache.placed.add_node(node(f"n{number:03}"))
    by_name = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{number:03}"]}]}
        for number in range(100, 300)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}}
    world.templates = [{"affinity": {"nodeAffinity": required}}] * 4
    return world


def test_the_nodes_that_a_pod_does_not_name_are_not_counted_as_looked_at() -> None:
    world = naming(None)
    pods = [world.pending(0) for _ in range(20)]
    run = Selector(world.evaluation(pods[0])).select_batch(pods, Decider(world).commit)
    assert run.rows == list(range(100, 120))
    # The second round places the others with look-ahead.
    assert [(len(one.rows), one.evaluated) for one in run.rounds] == [(1, 200), (19, 200)]


def test_the_share_is_one_of_the_nodes_that_the_pod_names() -> None:
    world = naming(60)
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    first, second = selector.select(pending), selector.select(pending)
    assert first is not None and second is not None
    assert (first.feasible, first.evaluated) == (120, 120)
    assert (first.row, second.row) == (100, 100)
    assert selector.sample().tolist() == list(range(140, 260))


def test_the_share_of_the_nodes_is_taken_from_all_zones_in_turn() -> None:
    world = World(0, nodes=0, percentage=1, strategy=LEAST)
    for zone in "ab":
        for number in range(150):
            labels = {"topology.kubernetes.io/zone": zone}
            world.cache.placed.add_node(node(f"{zone}{number:03}", labels=labels))
    world.templates = [{}] * 4
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    selector.evaluation.refresh(pending)
    names = world.cluster.nodes.names
    for first in (0, 50):
        expected = [f"{zone}{number:03}" for zone in "ab" for number in range(first, first + 50)]
        assert [names[row] for row in selector.sample().tolist()] == expected


def test_a_filter_that_failed_is_asked_again_in_the_next_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(0, nodes=0, percentage=1, strategy=LEAST)
    for number in range(300):
        world.cache.placed.add_node(node(f"n{number:03}"))
    world.templates = [{}] * 4
    pending = world.pending(0)
    selector = Selector(world.evaluation(pending))
    plugin = world.runtime.plugins["TaintToleration"]
    failing = {50}

    def fail(state: object, pod: object, nodes: object, rows: Rows) -> Verdicts:
        return rejecting(np.isin(rows, list(failing)), Code.ERROR, "flaky")

    monkeypatch.setattr(plugin, "filter", fail)
    assert selector.select(pending) is None
    assert "flaky" in str(selector.evaluation.failure)
    second = selector.select(pending)
    assert second is not None and second.row == 100
    failing.clear()
    for _ in range(2):
        assert selector.select(pending) is not None
    assert selector.evaluation.failure is None
