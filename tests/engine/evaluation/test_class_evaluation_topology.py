"""Pods that depend on other pods: what the engine keeps and does in batches holds for them, too."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from podsched.config.load import default_config
from podsched.engine.evaluation.class_evaluation import ClassEvaluation
from podsched.engine.evaluation.selection import Selector
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.engine.simulation import SimulatedHandle
from podsched.framework.pods import PodInfo
from podsched.plugins.registry import factories
from support.engine_world import World
from support.evaluations import from_scratch, seen
from support.plain_topology import Manifest
from support.topology_world import TopologyWorld


class Evaluated:
    """A topology world with the default profile, to be taken for an engine's world."""

    def __init__(self, seed: int, **sizes: int) -> None:
        self.world = TopologyWorld(seed, **sizes)
        self.cluster = self.world.cluster
        handle = SimulatedHandle(self.cluster)
        self.runtime = ProfileRuntime(default_config().profiles[0], factories(), handle)

    def evaluation(self, pod: PodInfo) -> ClassEvaluation:
        return ClassEvaluation(self.runtime, self.cluster, pod.cls)

    def commit(self, pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
        for pod, row in zip(pods, rows, strict=True):
            self.cluster.columns.add_pod(row, pod)

    def copies(self, pod: Manifest, count: int) -> list[PodInfo]:
        """Equal pods with names of their own; none is being deleted, as such are not scheduled."""
        found = []
        for number in range(count):
            one: Any = copy.deepcopy(pod)
            one["metadata"] |= {"name": f"copy-{number}", "uid": f"copy-{number}"}
            one["metadata"].pop("deletionTimestamp", None)
            found.append(self.world.info(one))
        return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_after_any_changes_it_equals_an_evaluation_from_scratch(seed: int) -> None:
    one = Evaluated(seed)
    pendings = [one.world.info(one.world.random_pod()) for _ in range(4)]
    evaluations = [one.evaluation(pending) for pending in pendings]
    for turn in range(20):
        for _ in range(one.world.random.choice((0, 1, 2))):
            one.world.mutate()
        if turn % 7 == 3:
            nominee = one.world.info(one.world.random_pod())
            node = one.world.random.choice(one.world.scene.nodes)["metadata"]["name"]
            one.cluster.nominator.add(nominee, node)
        at = one.world.random.randrange(4)
        expected = from_scratch(cast(World, one), pendings[at])
        assert seen(evaluations[at], pendings[at]) == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
# Constraints with an empty selector: they count no pod, but do in trials.
@example(2777, 3)
@example(532227, 6)
@example(257520, 5)
def test_a_batch_goes_where_its_pods_would_go_one_by_one(seed: int, count: int) -> None:
    batch, single = Evaluated(seed, nodes=8), Evaluated(seed, nodes=8)
    pods = batch.copies(batch.world.random_pod(), count)
    run = Selector(batch.evaluation(pods[0])).select_batch(pods, batch.commit)
    chosen = []
    for pod in single.copies(single.world.random_pod(), count):
        choice = Selector(single.evaluation(pod)).select(pod)
        if choice is None:
            break
        single.commit([pod], [choice.row])
        chosen.append(choice.row)
    assert run.rows == chosen
