"""Topology spread and inter-pod affinity say of each node what a plain reading does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podsched.api.selectors import EVERYTHING, NOTHING
from podsched.config.plugin_args import InterPodAffinityArgs, PodTopologySpreadArgs
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.verdicts import Rows
from podsched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from podsched.plugins.inter_pod_affinity.terms import AffinityTerm, AllTerms, SomeTerms
from podsched.plugins.pod_topology_spread.constraints import MatchingPods
from podsched.plugins.pod_topology_spread.plugin import PodTopologySpread
from support.examples import examples
from support.plain_topology import (
    Manifest,
    Trial,
    affinity_reason,
    affinity_scores,
    affinity_skips,
    constraints_of,
    spread_reason,
    spread_scores,
)
from support.topology_world import TopologyWorld

SEEDS = st.integers(0, 10**6)


@dataclass
class Asked:
    """A plugin asked as the runtime does: state is kept while ``inputs`` stays."""

    plugin: Any
    world: TopologyWorld
    pod: Manifest
    state: CycleState = field(default_factory=CycleState)
    inputs: Hashable = "nothing read yet"
    skipped: bool = False

    def __post_init__(self) -> None:
        self.info = self.world.info(self.pod)

    def refresh(self) -> bool:
        """Runs PreFilter if anything that it reads changed; whether that was so."""
        inputs = self.plugin.inputs(self.info, self.world.cluster)
        if inputs == self.inputs:
            return False
        self.inputs = inputs
        result = self.plugin.pre_filter(self.state, self.info, self.world.cluster)
        self.skipped = result.status.skipped
        return True

    def reasons(self, nodes: NodeColumns, rows: Rows) -> list[str]:
        """The reason for each row, "" where it passes."""
        if self.skipped:
            return [""] * len(rows)
        verdicts = self.plugin.filter(self.state, self.info, nodes, rows)
        return [" ".join(verdicts.status(i).reasons) for i in range(len(rows))]

    def scores(self, feasible: Rows) -> dict[str, int] | None:
        nodes, state = self.world.cluster.nodes, self.state
        if self.plugin.pre_score(state, self.info, self.world.cluster, feasible).skipped:
            return None
        raw = self.plugin.score(state, self.info, nodes, feasible)
        scores = self.plugin.normalize(state, raw).tolist()
        names = [nodes.names[row] for row in feasible.tolist()]
        return dict(zip(names, scores, strict=True))


def spread(world: TopologyWorld, pod: Manifest) -> Asked:
    return Asked(
        PodTopologySpread(PodTopologySpreadArgs(), SimulatedHandle(world.cluster)), world, pod
    )


def affinity(
    world: TopologyWorld, pod: Manifest, args: InterPodAffinityArgs | None = None
) -> Asked:
    plugin = InterPodAffinity(args or InterPodAffinityArgs(), SimulatedHandle(world.cluster))
    return Asked(plugin, world, pod)


def live_rows(world: TopologyWorld) -> Rows:
    return np.flatnonzero(world.cluster.nodes.alive)


def rows_of(world: TopologyWorld, nodes: list[Manifest]) -> Rows:
    rows = [world.cluster.nodes.row_of(node["metadata"]["name"]) for node in nodes]
    return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)


def said(asked: Asked) -> dict[str, str]:
    rows = live_rows(asked.world)
    names = asked.world.cluster.nodes.names
    reasons = asked.reasons(asked.world.cluster.nodes, rows)
    return {names[row]: reason for row, reason in zip(rows.tolist(), reasons, strict=True)}


def plainly(rule: Callable[..., str], world: TopologyWorld, pod: Manifest) -> dict[str, str]:
    return {node["metadata"]["name"]: rule(pod, node, world.scene) for node in world.scene.nodes}


def some_nodes(world: TopologyWorld) -> list[Manifest]:
    nodes = [node for node in world.scene.nodes if world.random.random() < 0.8]
    return nodes or world.scene.nodes[:1]


@examples(150)
@given(SEEDS)
def test_spread_filters_as_the_rule_says_whatever_changed_before(seed: int) -> None:
    world = TopologyWorld(seed)
    asked = [spread(world, world.random_pod()) for _ in range(3)]
    for _ in range(8):
        for one in asked:
            one.refresh()
            hard = constraints_of(one.pod, world.scene, "DoNotSchedule")
            assert one.skipped == (not hard)
            assert said(one) == plainly(spread_reason, world, one.pod)
        world.mutate()


@examples(150)
@given(SEEDS)
def test_affinity_filters_as_the_rule_says_whatever_changed_before(seed: int) -> None:
    world = TopologyWorld(seed)
    asked = [affinity(world, world.random_pod()) for _ in range(3)]
    for _ in range(8):
        for one in asked:
            one.refresh()
            assert one.skipped == affinity_skips(one.pod, world.scene)
            assert said(one) == plainly(affinity_reason, world, one.pod)
        world.mutate()


@examples(150)
@given(SEEDS)
def test_spread_scores_as_the_rule_says_over_any_feasible_nodes(seed: int) -> None:
    world = TopologyWorld(seed)
    asked = [spread(world, world.random_pod()) for _ in range(3)]
    for _ in range(5):
        feasible = some_nodes(world)
        for one in asked:
            one.refresh()
            expected = spread_scores(one.pod, feasible, world.scene)
            assert one.scores(rows_of(world, feasible)) == expected
        world.mutate()


@examples(150)
@given(SEEDS)
def test_affinity_scores_as_the_rule_says_over_any_feasible_nodes(seed: int) -> None:
    world = TopologyWorld(seed)
    weight, ignore = world.random.choice((0, 1, 7)), world.random.random() < 0.3
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=weight, ignore_preferred_terms_of_existing_pods=ignore
    )
    asked = [affinity(world, world.random_pod(), args) for _ in range(3)]
    for _ in range(5):
        feasible = some_nodes(world)
        for one in asked:
            one.refresh()
            expected = affinity_scores(
                one.pod, feasible, world.scene, weight, ignore_preferred=ignore
            )
            skipped = dict.fromkeys(expected, 0)
            assert (one.scores(rows_of(world, feasible)) or skipped) == expected
        world.mutate()


def random_trial(world: TopologyWorld, node: Manifest) -> list[tuple[Manifest, int]]:
    """Some pods taken off the node, new ones put on it."""
    there = [pod for pod in world.scene.on(node) if world.random.random() < 0.5]
    new = [world.random_pod() for _ in range(world.random.choice((0, 1, 2)))]
    return [(pod, -1) for pod in there] + [(pod, 1) for pod in new]


@pytest.mark.parametrize(("make", "rule"), [(spread, spread_reason), (affinity, affinity_reason)])
@examples(150)
@example(seed=750)  # a nominated pod brings a term with a label that no placed pod's term looks at
@given(seed=SEEDS)
def test_a_fork_counts_what_its_own_pods_change(
    make: Callable[[TopologyWorld, Manifest], Asked], rule: Callable[..., str], seed: int
) -> None:
    world = TopologyWorld(seed)
    one = make(world, world.random_pod())
    tried = [world.random.choice(world.scene.nodes) for _ in range(5)]
    trials: list[Trial] = [random_trial(world, node) for node in tried]
    for node, trial in zip(tried, trials, strict=True):
        for pod, sign in trial:
            if sign > 0:  # filters add nominated pods alone, and projections count on that
                world.cluster.nominator.add(world.info(pod), node["metadata"]["name"])
    one.refresh()
    rows = [world.cluster.nodes.row_of(node["metadata"]["name"]) for node in tried]
    fork = world.cluster.columns.fork(np.array(rows, dtype=np.intp))
    for row, trial in enumerate(trials):
        for pod, sign in trial:
            change = fork.add_pod if sign > 0 else fork.remove_pod
            change(row, world.info(pod))
    expected = [
        "" if one.skipped else rule(one.pod, node, world.scene, trial)
        for node, trial in zip(tried, trials, strict=True)
    ]
    assert one.reasons(fork, np.arange(len(tried))) == expected


@pytest.mark.parametrize("make", [spread, affinity])
@examples(60)
@given(seed=SEEDS)
def test_any_part_of_the_rows_is_judged_as_in_the_whole(
    make: Callable[[TopologyWorld, Manifest], Asked], seed: int
) -> None:
    world = TopologyWorld(seed, nodes=9)
    one = make(world, world.random_pod())
    one.refresh()
    rows = live_rows(world)
    whole = dict(zip(rows.tolist(), one.reasons(world.cluster.nodes, rows), strict=True))
    shuffled = rows.copy()
    np.random.default_rng(seed).shuffle(shuffled)
    for part in np.array_split(shuffled, 3):
        reasons = one.reasons(world.cluster.nodes, part)
        assert reasons == [whole[row] for row in part.tolist()]


@pytest.mark.parametrize("make", [spread, affinity])
@examples(40)
@given(seed=SEEDS)
def test_a_state_that_travelled_to_another_process_says_the_same(
    make: Callable[[TopologyWorld, Manifest], Asked], seed: int
) -> None:
    world = TopologyWorld(seed)
    one = make(world, world.random_pod())
    one.refresh()
    fork = world.cluster.columns.fork(live_rows(world))
    for row in range(fork.size):
        fork.add_pod(row, world.info(world.random_pod()))
    rows = np.arange(fork.size)
    before = one.reasons(fork, rows)
    one.state = pickle.loads(pickle.dumps(one.state))
    assert one.reasons(fork, rows) == before


def test_hashes_do_not_travel_to_processes_that_hash_otherwise() -> None:
    term = AffinityTerm(frozenset({"default"}), NOTHING, EVERYTHING, "zone")
    for known in (MatchingPods("default", EVERYTHING), AllTerms((term,)), SomeTerms(((1, term),))):
        travelled = pickle.dumps(known)
        object.__setattr__(known, "_hash", -1)
        assert hash(pickle.loads(travelled)) != hash(known)
        assert hash(pickle.loads(pickle.dumps(known))) == hash(pickle.loads(travelled))
    object.__setattr__(term, "_hash", -1)
    assert hash(pickle.loads(pickle.dumps(term))) != -1


def test_what_does_not_concern_a_class_leaves_its_inputs_as_they_are() -> None:
    world = TopologyWorld(0, pods=0)
    pending: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "labels": {"app": "z"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    asked = [spread(world, pending), affinity(world, pending)]
    for one in asked:
        one.refresh()
    repelled = {"topologyKey": "pool", "labelSelector": {"matchLabels": {"app": "x"}}}
    placed: Manifest = {
        **pending,
        "metadata": {**pending["metadata"], "uid": "q", "labels": {"app": "x"}},
        "spec": {
            **pending["spec"],
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [repelled]}
            },
        },
    }
    row = int(live_rows(world)[0])
    world.cluster.columns.pod_table.add(row, world.info(placed))
    assert [one.refresh() for one in asked] == [False, False]
    assert all(one.skipped for one in asked)


@examples(150)
@given(SEEDS)
def test_scores_of_domains_are_those_of_their_nodes(seed: int) -> None:
    world = TopologyWorld(seed)
    asked = spread(world, world.random_pod())
    asked.refresh()
    feasible = rows_of(world, some_nodes(world))
    plugin, state, info = asked.plugin, asked.state, asked.info
    if asked.plugin.pre_score(state, info, world.cluster, feasible).skipped:
        return
    found = plugin.score_groups(state, info)
    if found is None:
        return
    raw = plugin.score(state, info, world.cluster.nodes, feasible)
    groups = found.groups[feasible]
    assert found.scores[groups].tolist() == raw.tolist()
    occupied, places = np.unique(groups, return_inverse=True)
    of_groups = plugin.normalize(state, found.scores[occupied])
    assert of_groups[places].tolist() == plugin.normalize(state, raw).tolist()
