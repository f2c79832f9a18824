"""Predicates and priorities of Policy files say what a plain reading of their rules says."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podsched.cache.objects import ClusterState
from podsched.framework.plugin import ProjectingPlugin
from podsched.legacy.registry import LEGACY
from podsched.v1 import objects_pb2 as v1
from support import plain_legacy as plain
from support.examples import examples
from support.legacy_world import RACK, RETIRING, LegacyWorld
from support.plugin_world import filtered, info, made, scored

Points = Callable[[plain.Plain, v1.Pod], dict[str, int]]
Reasons = Callable[[plain.Plain, v1.Pod], dict[str, set[str]]]

SHAPE = [(10, 2), (70, 9), (90, 1)]
RATIO = {
    "shape": tuple({"utilization": u, "score": s} for u, s in SHAPE),
    "resources": ({"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 2}),
}

PRIORITIES: list[tuple[str, dict[str, Any], Points]] = [
    ("LeastRequestedPriority", {}, plain.least_requested),
    ("MostRequestedPriority", {}, plain.most_requested),
    ("BalancedResourceAllocation", {}, plain.balanced),
    (
        "RequestedToCapacityRatioPriority",
        RATIO,
        plain.requested_to_capacity(SHAPE, {"cpu": 3, "example.com/gpu": 2}),
    ),
    ("ResourceLimitsPriority", {}, plain.resource_limits),
    ("SelectorSpreadPriority", {}, plain.spread(controllers=True)),
    ("ServiceSpreadingPriority", {}, plain.spread(controllers=False)),
    ("ServiceAntiAffinity", {"label": RACK}, plain.anti_affinity(RACK)),
    ("EvenPodsSpreadPriority", {}, plain.even_spread),
    ("TaintTolerationPriority", {}, plain.taint_toleration),
    ("NodeAffinityPriority", {}, plain.node_affinity),
    ("InterPodAffinityPriority", {}, plain.pod_affinity),
    ("ImageLocalityPriority", {}, plain.image_locality),
    ("NodePreferAvoidPodsPriority", {}, plain.prefer_avoid_pods),
    ("NodeLabelPriority", {"label": RACK, "presence": True}, plain.node_label(RACK, True)),
    ("NodeLabelPriority", {"label": RETIRING}, plain.node_label(RETIRING, False)),
]
MEMORY, DISK = "node(s) had memory pressure", "node(s) had disk pressure"
PREDICATES: list[tuple[str, dict[str, Any], Reasons]] = [
    ("CheckNodeCondition", {}, plain.node_condition),
    (
        "CheckNodeMemoryPressure",
        {},
        plain.pressure("MemoryPressure", MEMORY, best_effort_only=True),
    ),
    ("CheckNodeDiskPressure", {}, plain.pressure("DiskPressure", DISK)),
    (
        "CheckNodeLabelPresence",
        {"labels": (RACK, RETIRING), "presence": True},
        plain.label_presence((RACK, RETIRING), True),
    ),
    ("CheckNodeLabelPresence", {"labels": (RETIRING,)}, plain.label_presence((RETIRING,), False)),
    (
        "CheckServiceAffinity",
        {"labels": (RACK, plain.ZONE)},
        plain.service_affinity((RACK, plain.ZONE)),
    ),
    ("PodToleratesNodeNoExecuteTaints", {}, plain.no_execute),
    ("NoDiskConflict", {}, plain.disk_conflict),
    ("MaxEBSVolumeCount", {}, plain.ebs_count(0)),
    ("MaxEBSVolumeCount", {"max_volumes": 2}, plain.ebs_count(2)),
]
#: Arguments that the plugins cannot do without.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "CheckNodeLabelPresence": {"labels": (RACK,)},
    "CheckServiceAffinity": {"labels": (RACK, plain.ZONE)},
    "ServiceAntiAffinity": {"label": RACK},
    "NodeLabelPriority": {"label": RACK},
    "RequestedToCapacityRatioPriority": RATIO,
}


@pytest.mark.parametrize(("name", "args", "points"), PRIORITIES)
@examples(25)
@example(496)  # regions without zones
@given(st.integers(0, 10**6))
def test_a_priority_gives_every_node_the_points_of_its_rule(
    name: str, args: dict[str, Any], points: Points, seed: int
) -> None:
    world = LegacyWorld(seed)
    pending = world.pod("pending")
    found = scored(made(LEGACY[name], world.state, **args), pending, world.state)
    expected = points(world.plain, pending)
    if found is None:
        assert len(set(expected.values())) == 1, "where Score is skipped, all nodes are equal"
    else:
        assert found == {node: 10 * value for node, value in expected.items()}


@pytest.mark.parametrize(("name", "args", "reasons"), PREDICATES)
@examples(25)
@given(st.integers(0, 10**6))
def test_a_predicate_rejects_every_node_for_the_reasons_of_its_rule(
    name: str, args: dict[str, Any], reasons: Reasons, seed: int
) -> None:
    world = LegacyWorld(seed)
    pending = world.pod("pending")
    found = filtered(made(LEGACY[name], world.state, **args), pending, world.state)
    expected = reasons(world.plain, pending)
    if found:
        assert {node: set(status.reasons) for node, status in found.items()} == expected
    else:
        assert not any(expected.values()), "where Filter is skipped, all nodes pass"


@pytest.mark.parametrize("name", [name for name in LEGACY if name != "AlwaysCheckAllPredicates"])
@examples(15)
@given(st.integers(0, 10**6))
def test_pods_of_equal_projections_get_equal_answers(name: str, seed: int) -> None:
    world = LegacyWorld(seed)
    plugin = made(LEGACY[name], world.state, **ARGUMENTS.get(name, {}))
    assert isinstance(plugin, ProjectingPlugin)
    answers: dict[Hashable, Any] = {}
    for number in range(12):
        pending = info(world.pod(f"pending-{number}"))
        key = (pending.cls.nonzero, frozenset(pending.cls.requests.items()))
        projection = plugin.projection(pending, world.state)
        answer = ask(plugin, pending.pod, world.state)
        assert answers.setdefault((key, projection), answer) == answer


def ask(plugin: Any, pending: v1.Pod, state: ClusterState) -> Any:
    if hasattr(plugin, "score"):
        return scored(plugin, pending, state)
    return filtered(plugin, pending, state)
