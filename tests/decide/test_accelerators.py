"""Accelerators decide as the reference does: with and without each, over random histories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsched.cache.trial import Trial
from podsched.config.settings import Accelerator
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.accelerators.incremental import Incremental
from podsched.decide.accelerators.variant_decisions import VariantDecisions
from podsched.decide.decision import Decision
from podsched.decide.evaluation import sampling
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Reason, Scores, Verdicts
from podsched.plugins.taint_toleration import TaintToleration
from support.engine_world import STRATEGIES, World, container
from support.examples import share

#: The reference alone: what the others need or speed up goes with them.
REFERENCE = ("incremental", "variants")
COUNTED = {"matchLabels": {"app": "a"}}


class Decided(World):
    """A world in which one decider decides in trials, and another decides the same again."""

    def __init__(self, seed: int, percentage: int | None, *, scoring: bool = True) -> None:
        super().__init__(seed, nodes=10, scoring=scoring)
        self.percentage = percentage
        self.strategy = self.random.choice(STRATEGIES)
        names = self.random.sample([name for name in self.cluster.nodes.names if name], 7)
        by_name = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in names
        ]
        self.templates[1]["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": by_name}
            }
        }
        self.templates[2]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": self.random.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": COUNTED,
            }
        ]
        required = [{"labelSelector": COUNTED, "topologyKey": "kubernetes.io/hostname"}]
        kind = self.random.choice(["podAffinity", "podAntiAffinity"])
        self.templates[3]["affinity"] = {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }

    def decider(self, *without: str) -> tuple[ProfileRuntime, AcceleratedDecider]:
        """A decider with plugins of its own, which share no memory with another's."""
        runtime = self.profile(self.strategy, self.percentage)
        profiles = {runtime.scheduler_name: runtime}
        return runtime, AcceleratedDecider(self.cache.cluster, profiles, Chance(0), without=without)

    def batch(self) -> list[QueuedPodInfo]:
        """Pods of one template, or of one that differ in requests, or of any."""
        kind, template = self.random.choice(("same", "requests", "any")), self.random.randrange(4)
        pods: list[PodInfo] = []
        for number in range(self.random.randint(1, 6)):
            chosen = template if kind != "any" else self.random.randrange(4)
            if kind == "requests":
                amounts = {"cpu": f"{100 + number}m", "memory": f"{64 + number}Mi"}
                self.templates[chosen] = {
                    **self.templates[chosen], "containers": [container(amounts)]
                }  # fmt: skip
            pods.append(self.pending(chosen))
        return [QueuedPodInfo(pod, 0.0) for pod in pods]


def outcome(decision: Decision) -> tuple[object, ...]:
    """All but the number of feasible nodes, which a look-ahead takes from when it began."""
    diagnosis = decision.diagnosis
    return (
        decision.queued.info.name,
        decision.node_name,
        decision.total,
        decision.evaluated,
        None if decision.error is None else decision.error.message,
        None if diagnosis is None else diagnosis.fit_error(),
        None if diagnosis is None else diagnosis.unschedulable_plugins,
    )


def decide(
    world: Decided,
    decider: tuple[ProfileRuntime, AcceleratedDecider],
    pods: list[QueuedPodInfo],
    keep: bool,
) -> list[tuple[object, ...]]:
    """All decisions for the pods, one after another; taken back at the end unless kept."""
    runtime, made = decider
    outcomes: list[tuple[object, ...]] = []
    with Trial(world.cache) as trial:
        while len(outcomes) < len(pods):
            decisions = made.decide(trial, runtime, pods[len(outcomes) :])
            outcomes += [outcome(decision) for decision in decisions]
        if keep:
            trial.commit()
    if keep:
        world.placed += [queued.info for queued in pods if queued.info.node_name]
    return outcomes


@pytest.mark.parametrize(
    ("percentage", "scoring"),
    [(None, True), (None, False), (40, True), (40, False)],
    ids=["all nodes", "all nodes unscored", "a share of the nodes", "the first node that fits"],
)
@pytest.mark.parametrize("without", [(), *((name,) for name in Accelerator)], ids=str)
def test_with_and_without_accelerators_the_decisions_are_those_of_the_reference(
    without: tuple[str, ...], percentage: int | None, scoring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise all nodes of so small a cluster would be scored.
    monkeypatch.setattr(sampling, "MIN_FEASIBLE_NODES", 3)
    for seed in range(share(16)):
        world = Decided(seed, percentage, scoring=scoring)
        plain, fast = world.decider(*REFERENCE), world.decider(*without)
        for _ in range(12):
            pods = world.batch()
            expected = decide(world, plain, pods, keep=False)
            assert decide(world, fast, pods, keep=True) == expected, seed
            for _ in range(world.random.randint(0, 3)):
                world.mutate()
        assert plain[1].rotation == fast[1].rotation


def failing_filter(real: Any) -> Any:
    """A Filter that fails on some nodes, for pods that tolerate nothing."""

    def fail_on_some(self: Any, state: Any, pod: PodInfo, nodes: Any, rows: Any) -> Verdicts:
        found: Verdicts = real(self, state, pod, nodes, rows)
        if pod.cls.spec.tolerations:
            return found
        base = rows if nodes.base is nodes else nodes.base_rows[rows]
        fails = np.array([nodes.base.names[row][-1] in "37" for row in base.tolist()], np.bool_)
        bits = np.where(fails, np.uint64(2), found.bits)
        reasons = (*found.reasons, *(Reason(Code.UNSCHEDULABLE, "none"),))[:1]
        return Verdicts(bits, (*reasons, Reason(Code.ERROR, "flaky")))

    return fail_on_some


def failing_score(real: Any) -> Any:
    """A Score that fails for pods that tolerate nothing."""

    def fail(self: Any, state: Any, pod: PodInfo, nodes: Any, rows: Any) -> Scores:
        if not pod.cls.spec.tolerations:
            raise RuntimeError("flaky")
        found: Scores = real(self, state, pod, nodes, rows)
        return found

    return fail


@pytest.mark.parametrize("percentage", [None, 40], ids=["all nodes", "a share of the nodes"])
@pytest.mark.parametrize("failing", [failing_filter, failing_score])
def test_if_a_plugin_fails_the_decisions_are_those_of_the_reference(
    failing: Any, percentage: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MIN_FEASIBLE_NODES", 3)
    method = failing.__name__.removeprefix("failing_")
    monkeypatch.setattr(TaintToleration, method, failing(getattr(TaintToleration, method)))
    failed = chosen = 0
    for seed in range(share(16)):
        world = Decided(seed, percentage)
        for number, template in enumerate(world.templates):
            template["tolerations"] = [{"operator": "Exists"}] * (number % 2)
        plain, fast = world.decider(*REFERENCE), world.decider()
        for _ in range(12):
            pods = world.batch()
            expected = decide(world, plain, pods, keep=False)
            assert decide(world, fast, pods, keep=True) == expected, seed
            assert plain[1].rotation == fast[1].rotation
            failed += sum("flaky" in str(error) for *_, error, _, _ in expected)
            chosen += sum(bool(node) for _, node, *_ in expected)
            world.mutate()
    assert failed and chosen


def test_an_accelerator_that_is_left_out_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Decided(1, None)
    runtime, reference = world.decider(*REFERENCE)
    asked: list[object] = []
    for one in (Incremental, VariantDecisions):
        monkeypatch.setattr(one, "try_", lambda *args, **more: asked.append(args))
    pods = world.batch()
    with Trial(world.cache) as trial:
        assert len(reference.decide(trial, runtime, pods)) >= 1
    assert asked == []


def test_what_is_decided_in_a_trial_leaves_evaluations_valid() -> None:
    """After a rollback only the rows that the trial touched are looked at again."""
    world = Decided(3, None)
    runtime, decider = world.decider()
    pods = [QueuedPodInfo(world.pending(0), 0.0) for _ in range(3)]
    first = decide(world, (runtime, decider), pods, keep=False)
    looked_at: list[int] = []
    named = next(named for named in runtime.filter if named.name == "NodeResourcesFit")
    plugin: Any = named.plugin
    ask = plugin.filter

    def counted(state: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        looked_at.append(len(rows))
        return ask(state, pod, nodes, rows)

    plugin.filter = counted
    again = decide(world, (runtime, decider), pods, keep=False)
    touched = {node for _, node, *_ in first if node}
    assert again == first
    assert looked_at and max(looked_at) <= len(touched), looked_at
