"""Pods that spread or repel each other are placed in runs, exactly as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Pod
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import default_config, load_config
from podsched.decide.accelerators.batch_lookahead import NoEffect
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.selection import Ending, Placements, Selector
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.registry import factories
from support.engine_world import node, pod
from support.examples import examples


class Scene:
    """Nodes in zones of different sizes, some with pods, and one template that spreads."""

    def __init__(self, seed: int, *, nodes: int = 12, soft: bool = False) -> None:
        random = Random(seed)
        self.cache = Cache()
        self.runtime = ProfileRuntime(
            default_config().profiles[0], factories(), SimulatedHandle(self.cache.cluster)
        )
        for number in range(nodes):
            labels = {"zone": random.choice("aab"), "rack": random.choice("xyz")}
            labels["name"] = f"n{number:02}"
            if random.random() < 0.1:
                del labels["zone"]
            cpu = str(random.choice([2, 4, 8]))
            allocatable = {"cpu": cpu, "memory": "8Gi", "pods": str(random.choice([3, 20]))}
            self.cache.placed.add_node(
                node(f"n{number:02}", labels=labels, allocatable=allocatable)
            )
        self.template = self._template(random, soft=soft)
        for number in range(random.randrange(6) if nodes else 0):
            placed = self.info(f"placed-{number}")
            self.cache.assume(placed, f"n{random.randrange(nodes):02}")

    def _template(self, random: Random, *, soft: bool) -> dict[str, Any]:
        constraints = [
            {
                "maxSkew": random.choice([1, 2, 3]),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": random.choice(["mine", "mine", "other"])}},
                **({"minDomains": random.choice([2, 4])} if random.random() < 0.3 else {}),
            }
            for key in random.sample(["zone", "rack"], random.choice([1, 2]))
        ]
        if soft:
            constraints[-1] |= {"whenUnsatisfiable": "ScheduleAnyway"}
            constraints[-1].pop("minDomains", None)
        return {"topologySpreadConstraints": constraints}

    def info(self, name: str) -> PodInfo:
        message: Pod = pod(name, self.template, labels={"app": "mine"})
        return make_pod_info(message, self.cache.classes)

    def selector(self, info: PodInfo) -> Selector:
        return Selector(ClassEvaluation(self.runtime, self.cache.cluster, info.cls))

    def commit(self, pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
        self.cache.assume_many(pods, [self.cache.columns.names[row] for row in rows])


def chosen_by(run: Placements) -> list[tuple[int, int]]:
    """For each pod its row, and how many rows were feasible for it."""
    parts = (zip(part.rows, part.feasible, strict=True) for part in run.rounds)
    return list(chain.from_iterable(parts))


def one_by_one(scene: Scene, count: int) -> list[tuple[int, int]]:
    """Place so many pods, each with an evaluation of its own; those that fit, as above."""
    chosen: list[tuple[int, int]] = []
    for number in range(count):
        one = scene.info(f"single-{number}")
        result = scene.selector(one).select(one)
        if result is None:
            break
        scene.commit([one], [result.row])
        chosen.append((result.row, result.feasible))
    return chosen


@examples(60)
@given(st.integers(0, 10**6), st.booleans())
def test_a_run_of_spreading_pods_goes_where_they_would_go_one_by_one(seed: int, soft: bool) -> None:
    batch, single = Scene(seed, soft=soft), Scene(seed, soft=soft)
    pods = [batch.info(f"p{number}") for number in range(40)]
    run = batch.selector(pods[0]).select_batch(pods, batch.commit)
    assert chosen_by(run) == one_by_one(single, 40)


def test_as_long_as_no_domain_reaches_its_limit_a_run_takes_few_evaluations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(0, nodes=0)
    for number in range(30):
        scene.cache.placed.add_node(node(f"n{number:02}", labels={"zone": "abc"[number % 3]}))
    constraint = {
        "maxSkew": 5,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "mine"}},
    }
    scene.template = {"topologySpreadConstraints": [constraint]}
    pods = [scene.info(f"p{number}") for number in range(100)]
    selector = scene.selector(pods[0])
    refreshed = []
    refresh = ClassEvaluation.refresh
    monkeypatch.setattr(
        ClassEvaluation, "refresh", lambda self, one: refreshed.append(one) or refresh(self, one)
    )
    run = selector.select_batch(pods, scene.commit)
    assert run.ending is Ending.PLACED
    assert len(refreshed) < 8


def repelling(scene: Scene, seed: int) -> None:
    """Makes the scene's template one of required anti-affinity to pods like itself, or others."""
    random = Random(seed)
    terms = [
        {
            "topologyKey": random.choice(["name", "name", "name", "zone"]),
            "labelSelector": {"matchLabels": {"app": random.choice(["mine", "mine", "other"])}},
        }
        for _ in range(random.choice([1, 2]))
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    scene.template = {"affinity": {"podAntiAffinity": required}}


@examples(60)
@given(st.integers(0, 10**6))
def test_a_run_of_pods_that_repel_each_other_goes_where_they_would_go_one_by_one(seed: int) -> None:
    batch, single = Scene(seed), Scene(seed)
    for scene in (batch, single):
        repelling(scene, seed)
    pods = [batch.info(f"q{number}") for number in range(15)]
    run = batch.selector(pods[0]).select_batch(pods, batch.commit)
    assert chosen_by(run) == one_by_one(single, 15)


class ScoresWhenFewFit:
    """A Score plugin that prefers later rows, but only once at most three nodes fit."""

    name = "ScoresWhenFewFit"

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Any, feasible: Rows) -> Status:
        return SKIP if len(feasible) > 3 else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        return rows.astype(np.int64)


def test_a_plugin_that_skipped_is_asked_again_when_fewer_nodes_fit() -> None:
    name = ScoresWhenFewFit.name
    known = {**factories(), name: lambda args, handle: ScoresWhenFewFit()}
    enabled = {"enabled": [{"name": name}]}
    document = {"profiles": [{"plugins": {"preScore": enabled, "score": enabled}}]}
    profile = load_config(document, known_plugins=user_plugin_specs(known)).profiles[0]

    def scene() -> Scene:
        made = Scene(0, nodes=0)
        made.template = {}
        made.runtime = ProfileRuntime(profile, known, SimulatedHandle(made.cache.cluster))
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "1"}
        for number in range(8):
            made.cache.placed.add_node(node(f"n{number}", allocatable=allocatable))
        return made

    batch = scene()
    pods = [batch.info(f"p{number}") for number in range(8)]
    run = batch.selector(pods[0]).select_batch(pods, batch.commit)
    assert run.rows == [0, 1, 2, 3, 4, 7, 6, 5]
    assert chosen_by(run) == one_by_one(scene(), 8)


class Reserves:
    """A plugin that reserves something of its own for each pod: ``LooksPastReserve``."""

    sees_ahead = True

    def look_ahead(self, *_: object) -> NoEffect | None:
        return NoEffect() if self.sees_ahead else None

    def independent(self, pods: Sequence[PodInfo]) -> int:
        return len(pods)


def test_pods_for_which_something_is_reserved_are_placed_in_short_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(0, nodes=0)
    for number in range(100):
        scene.cache.placed.add_node(node(f"n{number:02}"))
    scene.template = {}
    monkeypatch.setattr(scene.runtime, "reserving", lambda state, pod: {"Reserves"})
    scene.runtime.lookahead = {**scene.runtime.lookahead, "Reserves": Reserves()}
    pods = [scene.info(f"p{number}") for number in range(100)]
    selector, lengths = scene.selector(pods[0]), []
    while pods:
        run = selector.select_batch(pods, scene.commit)
        lengths.append(len(run.rows))
        del pods[: len(run.rows)]
    # The first teaches what the pods change.
    assert lengths == [1, 32, 32, 32, 3]


def test_pods_that_cannot_be_looked_past_are_placed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(0, nodes=1)
    scene.template = {}
    monkeypatch.setattr(scene.runtime, "reserving", lambda state, pod: {"Reserves"})
    plugin = Reserves()
    scene.runtime.lookahead = {**scene.runtime.lookahead, "Reserves": plugin}
    pod = scene.info("p")
    selector = scene.selector(pod)
    plugin.sees_ahead = False
    assert not selector.places_alone(pod)  # Nothing is known yet.
    selector.select_batch([pod], scene.commit)
    assert selector.places_alone(pod)
    plugin.sees_ahead = True
    assert not selector.places_alone(pod)
