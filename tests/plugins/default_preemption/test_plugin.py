"""Who is preempted where, by tables of cases and against a plain reading of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import PodDisruptionBudget
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import load_config
from podsched.decide.decision import Decision
from podsched.decide.evaluation.filtering import ProfileFilters
from podsched.framework.plugin import PostFilterResult, Victims
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code
from podsched.plugins.default_preemption.dry_run import Budgets, DryRun, dry_run
from podsched.plugins.default_preemption.plugin import DefaultPreemption
from podsched.registry import factories
from podsched.term.state import build_state
from podsched.v1 import objects_pb2 as v1
from support.deciding import decide
from support.engine_world import node, pod
from support.examples import examples
from support.plain_preemption import (
    PlainBudget,
    PlainNode,
    PlainPod,
    PlainVictims,
    pick,
    select_victims,
)

DELETED = "2026-01-01T00:00:00Z"
#: What DynamicResources, whose PostFilter comes first, says about pods without claims.
CLAIMS = "no new claims to deallocate, "


def manifest(plain: PlainPod, node_name: str = "", **metadata: Any) -> v1.Pod:
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "priority": plain.priority,
        "containers": [
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{plain.cpu}"}}}
        ],
    }
    if node_name:
        spec["nodeName"] = node_name
    made = pod(plain.name, spec, labels=dict.fromkeys(plain.labels, "yes"), **metadata)
    if plain.start:
        made.status.start_time.FromNanoseconds(int(plain.start * 1e9))
    return made


class World:
    """Nodes with pods, and a pod that nothing fits."""

    def __init__(
        self,
        nodes: Sequence[PlainNode] = (),
        budgets: Sequence[PlainBudget] = (),
        args: dict[str, Any] | None = None,
    ) -> None:
        plugin_config = [{"name": "DefaultPreemption", "args": args}] if args else []
        config = load_config({"profiles": [{"pluginConfig": plugin_config}]})
        self.state = build_state(config, factories(), seed=1)
        self.cache = self.state.cache
        self.runtime = self.state.profiles["default-scheduler"]
        self.decider = self.state.decider()
        for plain in nodes:
            self.node(plain)
        for number, budget in enumerate(budgets):
            self.budget(f"budget-{number}", budget)

    def node(self, plain: PlainNode, **parts: Any) -> None:
        room = {"cpu": f"{plain.cpu}", "memory": "64Gi", "pods": f"{plain.most_pods}"}
        self.cache.apply("Node", None, node(plain.name, allocatable=room, **parts))
        for there in plain.pods:
            self.cache.apply("Pod", None, manifest(there, plain.name))

    def budget(self, name: str, plain: PlainBudget) -> None:
        item = PodDisruptionBudget()
        item.metadata.name, item.metadata.namespace = name, "default"
        if plain.label:
            item.spec.selector.match_labels[plain.label] = "yes"
        item.status.disruptions_allowed = plain.allowed
        for disrupted in plain.disrupted:
            item.status.disrupted_pods[disrupted].GetCurrentTime()
        self.cache.apply("PodDisruptionBudget", None, item)

    def decide(self, message: v1.Pod) -> Decision:
        self.cache.apply("Pod", None, message)
        info = make_pod_info(message, self.cache.classes)
        [decision] = decide(
            self.state.cache, self.decider, self.runtime, [QueuedPodInfo(info, timestamp=0.0)]
        )
        return decision

    def preempt(self, plain: PlainPod, **changes: Any) -> PostFilterResult:
        message = manifest(plain)
        if policy := changes.get("policy"):
            message.spec.preemption_policy = policy
        message.status.nominated_node_name = changes.get("nominated", "")
        decision = self.decide(message)
        assert decision.diagnosis is not None
        result = self.decider.post_filter(self.runtime, decision)
        assert result is not None
        return result

    def runner(self, decision: Decision) -> ProfileFilters:
        """The filters as PostFilter plugins get them."""
        assert decision.diagnosis is not None
        assert decision.diagnosis.outcome is not None
        return ProfileFilters(self.runtime, self.cache.cluster, decision.diagnosis.outcome)

    def dry_run(self, plain: PlainPod) -> DryRun:
        """All nodes tried."""
        decision = self.decide(manifest(plain))
        cluster, runner = self.cache.cluster, self.runner(decision)
        rows = np.flatnonzero(self.cache.columns.alive)
        budgets = Budgets(cluster.list("PodDisruptionBudget"))
        info = decision.queued.info
        return dry_run(decision.state, info, cluster.nodes, rows, runner, budgets)


def names(result: PostFilterResult) -> list[str]:
    assert result.victims is not None
    return [victim.name for victim in result.victims.pods]


HIGH = PlainPod("high", 3, 10)


def one(name: str, *pods: PlainPod, cpu: int = 4, most_pods: int = 10) -> PlainNode:
    return PlainNode(name, cpu, most_pods, pods)


# ---------------------------------------------------------------------- eligibility


def test_a_pod_with_policy_never_is_not_eligible_and_keeps_its_nomination() -> None:
    result = World([one("n1", PlainPod("low", 3, 0))]).preempt(HIGH, policy="Never")
    assert result.status.message == CLAIMS + (
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert result.nominated_node_name is None
    assert result.victims is None


TERMINATING_CASES = {
    # what terminates on the nominated node: priority, whether by preemption, eligible?
    "a lower pod that was preempted": (0, True, False),
    "a lower pod that somebody deleted": (0, False, True),
    "a higher pod that was preempted": (50, True, True),
}


@pytest.mark.parametrize("case", TERMINATING_CASES)
def test_while_its_victim_terminates_on_the_nominated_node_a_pod_is_not_eligible(case: str) -> None:
    priority, preempted, eligible = TERMINATING_CASES[case]
    world = World([one("n1"), one("n2", PlainPod("low-2", 3, 0))])
    victim = manifest(PlainPod("victim", 3, priority), "n1", deletionTimestamp=DELETED)
    if preempted:
        victim.status.conditions.add(
            type="DisruptionTarget", status="True", reason="PreemptionByScheduler"
        )
    world.cache.apply("Pod", None, victim)
    result = world.preempt(HIGH, nominated="n1")
    if eligible:
        assert result.status.ok
    else:
        assert result.status.message == CLAIMS + (
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        assert result.victims is None


def test_a_nominated_node_that_cannot_be_helped_does_not_keep_a_pod_from_preempting() -> None:
    world = World([one("n2", PlainPod("low-2", 3, 0))])
    world.node(one("n1"), unschedulable=True)
    victim = manifest(PlainPod("victim", 3, 0), "n1", deletionTimestamp=DELETED)
    victim.status.conditions.add(
        type="DisruptionTarget", status="True", reason="PreemptionByScheduler"
    )
    world.cache.apply("Pod", None, victim)
    assert names(world.preempt(HIGH, nominated="n1")) == ["low-2"]


def test_nodes_that_cannot_be_helped_are_not_tried_and_the_text_counts_them() -> None:
    world = World()
    world.node(one("n1", PlainPod("low", 3, 0)), unschedulable=True)
    world.node(one("n2", cpu=2))
    result = world.preempt(HIGH)
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.status.message == CLAIMS + (
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert result.nominated_node_name == ""


def test_a_node_without_lower_pods_has_no_victims() -> None:
    result = World([one("n1", PlainPod("equal", 3, 10))]).preempt(HIGH)
    assert result.status.message == CLAIMS + (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_node_too_small_for_the_lower_pods_room_says_what_is_missing() -> None:
    low, equal = PlainPod("low", 1, 0), PlainPod("equal", 2, 10)
    result = World([one("n1", low, equal)]).preempt(HIGH)
    assert result.status.message == CLAIMS + (
        "preemption: 0/1 nodes are available: 1 Insufficient cpu."
    )


# ---------------------------------------------------------------------- victims

VICTIMS: dict[str, tuple[list[PlainPod], list[PlainBudget], list[str], int]] = {
    "only as many as needed": (
        [PlainPod("a", 2, 0), PlainPod("b", 2, 0)], [], ["b"], 0
    ),
    "the lowest priority goes first": (
        [PlainPod("a", 2, 1), PlainPod("b", 2, 5)], [], ["a"], 0
    ),
    "of equal priority the one that started last goes": (
        [PlainPod("old", 2, 0, start=100), PlainPod("new", 2, 0, start=200)], [], ["new"], 0
    ),
    "a pod that has not started goes before one that has": (
        [PlainPod("waiting", 2, 0), PlainPod("running", 2, 0, start=200)], [], ["waiting"], 0
    ),
    "a pod under a spent budget is spared where another will do": (
        [PlainPod("a", 2, 0, 100, frozenset("x")), PlainPod("b", 2, 5, 100)],
        [PlainBudget("x", 0)], ["b"], 0,
    ),
    "a budget that allows it protects no pod": (
        [PlainPod("a", 2, 0, 100, frozenset("x")), PlainPod("b", 2, 5, 100)],
        [PlainBudget("x", 1)], ["a"], 0,
    ),
    "a pod that its budget counts as disrupted violates nothing": (
        [PlainPod("a", 2, 0, 100, frozenset("x")), PlainPod("b", 2, 5, 100)],
        [PlainBudget("x", 0, frozenset("a"))], ["a"], 0,
    ),
    "a budget without a selector protects no pod": (
        [PlainPod("a", 2, 0, 100, frozenset("x")), PlainPod("b", 2, 5, 100)],
        [PlainBudget("", 0)], ["a"], 0,
    ),
    "pods that are both needed are named the more important first": (
        [PlainPod("a", 1, 0, 1, frozenset("x")), PlainPod("b", 3, 5)],
        [PlainBudget("x", 0)], ["b", "a"], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VICTIMS)
def test_victims_on_a_node(case: str) -> None:
    pods, budgets, expected, violations = VICTIMS[case]
    result = World([one("n1", *pods)], budgets).preempt(PlainPod("high", 2 * len(expected), 10))
    assert names(result) == expected
    assert result.victims is not None
    assert result.victims.num_pdb_violations == violations


# ---------------------------------------------------------------------- the choice

CHOICES: dict[str, tuple[list[PlainNode], str]] = {
    "fewest budget violations": (
        [
            one("n1", PlainPod("a", 3, 0, 1, frozenset("x"))),
            one("n2", PlainPod("b", 3, 9)),
        ],
        "n2",
    ),
    "lowest highest priority": (
        [one("n1", PlainPod("a", 3, 5)), one("n2", PlainPod("b", 3, 4))], "n2"
    ),
    "lowest sum of priorities": (
        [
            one("n1", PlainPod("a", 2, 5), PlainPod("b", 2, 3)),
            one("n2", PlainPod("c", 2, 5), PlainPod("d", 2, 2)),
        ],
        "n2",
    ),
    "a sum that each victim adds to, whatever its priority": (
        [
            one("n1", PlainPod("a", 2, 5), PlainPod("b", 2, -3)),
            one("n2", PlainPod("c", 4, 5)),
        ],
        "n2",
    ),
    "fewest victims": (
        [
            one("n1", PlainPod("a", 2, 5), PlainPod("b", 2, 5)),
            one("n2", PlainPod("c", 4, 5)),
        ],
        "n2",
    ),
    "latest start of the most important victim": (
        [
            one("n1", PlainPod("a", 3, 5, start=100)),
            one("n2", PlainPod("b", 3, 5, start=200)),
            one("n3", PlainPod("c", 3, 5, start=150)),
        ],
        "n2",
    ),
    "latest start, whenever less important victims started": (
        [
            one("n1", PlainPod("a", 2, 5, start=200), PlainPod("b", 2, 1, start=250)),
            one("n2", PlainPod("c", 2, 5, start=300), PlainPod("d", 2, 1, start=50)),
        ],
        "n2",
    ),
    "the earliest start among victims of the highest priority counts": (
        [
            one("n1", PlainPod("a", 2, 5, start=100), PlainPod("b", 2, 5, start=900)),
            one("n2", PlainPod("c", 2, 5, start=200), PlainPod("d", 2, 5, start=300)),
        ],
        "n2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOICES)
def test_the_node_is_chosen_by(case: str) -> None:
    nodes, expected = CHOICES[case]
    world = World(nodes, [PlainBudget("x", 0)])
    assert world.preempt(HIGH).nominated_node_name == expected
    # The order of the nodes does not matter.
    world = World(nodes[::-1], [PlainBudget("x", 0)])
    assert world.preempt(HIGH).nominated_node_name == expected


# ---------------------------------------------------------------------- how many are tried


@pytest.mark.parametrize(
    ("args", "tried"),
    [
        ({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}, 2),
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 5}, 5),
        (None, 20),
    ],
)
def test_as_many_candidates_are_looked_for_as_configured(
    args: dict[str, Any] | None, tried: int
) -> None:
    world = World([one(f"n{i}", PlainPod(f"low-{i}", 3, 0)) for i in range(20)], args=args)
    decision = world.decide(manifest(HIGH))
    plugin = world.runtime.plugins["DefaultPreemption"]
    assert isinstance(plugin, DefaultPreemption)
    runner = world.runner(decision)
    cluster, info = world.cache.cluster, decision.queued.info
    found = plugin.find_candidates(decision.state, info, cluster, runner)
    assert isinstance(found, dict) and len(found) == tried


def test_candidates_that_all_violate_budgets_do_not_end_the_search() -> None:
    pods = [PlainPod(f"low-{i}", 3, 0, 1, frozenset("x")) for i in range(19)]
    nodes = [one(f"n{i}", pod) for i, pod in enumerate(pods)]
    nodes.append(one("free", PlainPod("low-19", 3, 9)))
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
    result = World(nodes, [PlainBudget("x", 0)], args).preempt(HIGH)
    assert result.nominated_node_name == "free"


def test_while_evictions_are_under_way_the_preemptor_stays_out_of_the_queue() -> None:
    world = World([one("n1", PlainPod("low", 3, 0))])
    plugin = world.runtime.plugins["DefaultPreemption"]
    assert isinstance(plugin, DefaultPreemption)
    info = make_pod_info(manifest(HIGH), world.cache.classes)
    assert plugin.pre_enqueue(info).ok
    plugin.evictions_started([info], Victims(()))
    status = plugin.pre_enqueue(info)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for the preemption for this pod to be finished"
    plugin.preemptors_released([info])
    assert plugin.pre_enqueue(info).ok


# ---------------------------------------------------------------------- against the plain rules

LABELS = st.frozensets(st.sampled_from("xyz"), max_size=2)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[PlainNode], list[PlainBudget], PlainPod]:
    serial = 0
    nodes = []
    for index in range(draw(st.integers(1, 5))):
        pods = []
        for _ in range(draw(st.integers(0, 6))):
            serial += 1
            # Starts all differ, so that the order of importance is whole.
            start = draw(st.sampled_from([0.0, 1000.0])) and 1000.0 + serial
            pods.append(
                PlainPod(
                    f"p{serial}", draw(st.integers(1, 4)), draw(st.integers(0, 6)),
                    start or 5000.0 + serial, draw(LABELS),
                )
            )  # fmt: skip
        used = sum(p.cpu for p in pods)
        cpu = used + draw(st.integers(0, 3))
        most = len(pods) + draw(st.integers(0, 1))
        nodes.append(PlainNode(f"n{index}", cpu, most, tuple(pods)))
    budgets = [
        PlainBudget(
            label,
            draw(st.integers(0, 2)),
            draw(st.frozensets(st.sampled_from(["p1", "p2", "p3", "p4"]), max_size=2)),
        )
        for label in draw(st.lists(st.sampled_from("xyz"), max_size=3))
    ]
    return nodes, budgets, PlainPod("high", draw(st.integers(1, 8)), draw(st.integers(1, 6)))


@examples(120)
@given(clusters())
def test_victims_equal_a_plain_reading_of_the_rules_on_every_node(
    cluster: tuple[list[PlainNode], list[PlainBudget], PlainPod],
) -> None:
    nodes, budgets, preemptor = cluster
    expected: dict[str, PlainVictims] = {}
    for plain in nodes:
        found = select_victims(plain, preemptor, budgets)
        if found is not None:
            expected[plain.name] = found
    world = World(nodes, budgets)
    decision = world.decide(manifest(preemptor))
    if decision.diagnosis is None:
        return  # it fits somewhere: there is nothing to preempt
    tried = World(nodes, budgets).dry_run(preemptor)
    rows = world.cache.columns
    actual = {
        rows.names[row]: ([p.name for p in victims.pods], victims.num_pdb_violations)
        for row, victims in tried.candidates.items()
    }
    assert actual == {name: (v.names, v.violations) for name, v in expected.items()}
    result = world.decider.post_filter(world.runtime, decision)
    assert result is not None
    if expected:
        assert result.nominated_node_name in pick(expected)
    else:
        assert not result.status.ok
