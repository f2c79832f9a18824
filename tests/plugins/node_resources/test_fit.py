"""NodeResourcesFit: what fits, why not, what it scores, what wakes a pod."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from podsched.api.objects import Node, Pod
from podsched.cache.objects import ClusterState
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.plugin import FIXED_INPUTS, CycleState
from podsched.framework.pod_groups import Placement, PodGroup, TriedPlacement
from podsched.framework.status import Code
from podsched.plugins.node_resources import fit
from podsched.plugins.node_resources.fit import NodeResourcesFit
from podsched.plugins.node_resources.resource_amounts import ResourceColumn
from podsched.plugins.node_resources.scoring_strategies import requested_to_capacity_ratio
from podsched.v1 import objects_pb2 as v1
from support.engine_world import container, node, pod
from support.plugin_world import cluster, filtered, hinted, info, made, rejections, scored

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
NODE_ADD = (Resource.NODE, ActionType.ADD)
NODE_UPDATE = (Resource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE)
POD_DELETE = (Resource.ASSIGNED_POD, ActionType.DELETE)
POD_SCALE_DOWN = (Resource.ASSIGNED_POD, ActionType.UPDATE_POD_SCALE_DOWN)


def asking(name: str = "pending", node_name: str = "", **requests: str) -> Pod:
    named = {key.replace("gpu", "example.com/gpu"): text for key, text in requests.items()}
    return pod(name, {"containers": [container(named)], "nodeName": node_name})


def giving(name: str = "n", **allocatable: str) -> Node:
    named = {key.replace("gpu", "example.com/gpu"): text for key, text in allocatable.items()}
    return node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "10", **named})


@pytest.mark.parametrize(
    ("used", "wanted", "given", "code", "reasons"),
    [
        ({}, {"cpu": "1"}, {}, Code.SUCCESS, ()),
        ({"cpu": "1m"}, {"cpu": "1"}, {}, Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        ({}, {"cpu": "1001m"}, {}, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient cpu",)),
        (
            {"memory": "1Gi"},
            {"cpu": "2", "memory": "1"},
            {},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            ("Insufficient cpu", "Insufficient memory"),
        ),
        ({"cpu": "1"}, {}, {}, Code.SUCCESS, ()),
        ({"cpu": "1"}, {"cpu": "0"}, {}, Code.SUCCESS, ()),
        ({}, {}, {"pods": "1"}, Code.UNSCHEDULABLE, ("Too many pods",)),
        ({}, {}, {"pods": "0"}, Code.UNSCHEDULABLE, ("Too many pods",)),
        (
            {"gpu": "1"},
            {"gpu": "1"},
            {"gpu": "1"},
            Code.UNSCHEDULABLE,
            ("Insufficient example.com/gpu",),
        ),
    ],
)
def test_a_pod_fits_where_every_request_is_left(
    used: dict[str, str],
    wanted: dict[str, str],
    given: dict[str, str],
    code: Code,
    reasons: tuple[str, ...],
) -> None:
    state = cluster(giving(**given), pods=[asking("there", "n", **used)])
    status = filtered(made(NodeResourcesFit), asking(**wanted), state)["n"]
    assert (status.code, status.reasons) == (code, reasons)


@pytest.mark.parametrize(
    "args",
    [{"ignored_resources": ("example.com/gpu",)}, {"ignored_resource_groups": ("example.com",)}],
)
def test_ignored_extended_resources_are_not_compared(args: dict[str, Any]) -> None:
    state = cluster(giving())
    assert rejections(made(NodeResourcesFit), asking(gpu="1"), state)
    ignoring = made(NodeResourcesFit, state, **args)
    assert not rejections(ignoring, asking(gpu="1"), state)
    without = giving()
    assert hinted(ignoring, asking(gpu="1"), NODE_ADD, None, without) is QUEUE


@pytest.mark.parametrize("nodes", [1, 6])
def test_what_is_left_wraps_around_as_in_go_for_few_nodes_and_many(nodes: int) -> None:
    """What ten pods of 10^18 use has wrapped around, and so does what is free then."""
    names = [f"n{i}" for i in range(nodes)]
    there = [asking(f"{name}-{i}", name, memory=str(10**18)) for name in names for i in range(10)]
    given = [giving(name, memory=str(9 * 10**18), pods="20") for name in names]
    found = filtered(made(NodeResourcesFit), asking(memory="1"), cluster(*given, pods=there))
    assert {status.reasons for status in found.values()} == {("Insufficient memory",)}


def strategy(kind: str, *resources: tuple[str, int]) -> NodeResourcesFit:
    listed = [{"name": name, "weight": weight} for name, weight in resources]
    return made(NodeResourcesFit, scoring_strategy={"type": kind, "resources": listed})


@pytest.mark.parametrize(
    ("plugin", "used", "wanted", "score"),
    [
        (strategy("LeastAllocated"), {}, {"cpu": "500m", "memory": "256Mi"}, 62),
        (strategy("LeastAllocated"), {"cpu": "900m"}, {"cpu": "200m", "memory": "0"}, 50),
        (strategy("LeastAllocated"), {}, {}, (90 + 80) // 2),
        (strategy("MostAllocated"), {}, {"cpu": "500m", "memory": "256Mi"}, 37),
        (strategy("MostAllocated", ("cpu", 3), ("memory", 1)), {}, {"cpu": "1", "memory": "0"}, 75),
        (strategy("LeastAllocated", ("example.com/gpu", 1)), {}, {"gpu": "1"}, 50),
        (strategy("LeastAllocated", ("example.com/gpu", 1)), {}, {"cpu": "1"}, 0),
        (strategy("LeastAllocated", ("nonsense", 1)), {}, {"cpu": "1"}, 0),
    ],
)
def test_the_score_is_that_of_the_strategy(
    plugin: NodeResourcesFit, used: dict[str, str], wanted: dict[str, str], score: int
) -> None:
    there = [asking("there", "n", **{"memory": "0", "cpu": "0", **used})] if used else []
    state = cluster(giving(gpu="2"), pods=there)
    assert scored(plugin, asking(**wanted), state) == {"n": score}


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize("huge", [10**17, 15 * 10**16, 10**18, 2**63 - 1])
def test_a_node_that_reports_too_much_gets_a_score_in_range(kind: str, huge: int) -> None:
    """(huge - 1) * 100 wraps around in Go; a score out of range fails the attempts of all pods."""
    there = [asking(name, "n", memory=str(huge)) for name in ("a", "b", "c")]
    for pods in ([], there):
        state = cluster(giving(memory=str(huge)), pods=pods)
        score = scored(strategy(kind, ("memory", 1)), asking(memory="1"), state)
        assert score is not None
        assert 0 <= score["n"] <= 100


@pytest.mark.parametrize(
    ("percent", "score"), [(0, 0), (25, 50), (50, 100), (60, 80), (75, 50), (100, 0)]
)
def test_the_ratio_follows_the_broken_line(percent: int, score: int) -> None:
    shape = [{"utilization": u, "score": s} for u, s in ((0, 0), (50, 10), (100, 0))]
    scoring = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "example.com/gpu", "weight": 1}],
        "requestedToCapacityRatio": {"shape": shape},
    }
    plugin = made(NodeResourcesFit, scoring_strategy=scoring)
    state = cluster(giving(gpu="100"), pods=[asking("there", "n", gpu=str(max(percent - 1, 0)))])
    wanted = asking(gpu="1") if percent else asking()
    assert scored(plugin, wanted, state) == {"n": score}


def test_a_falling_line_rounds_towards_zero_as_in_go() -> None:
    strategy_of_shape = requested_to_capacity_ratio([(0, 10), (3, 0)])
    one = np.array([1], dtype=np.int64)
    column = ResourceColumn(1, one, one, one * 100)
    assert strategy_of_shape([column]).tolist() == [100 - 33]


@pytest.mark.parametrize(
    ("event", "old", "new_object", "hint"),
    [
        (NODE_ADD, None, giving(cpu="500m"), QUEUE),
        (NODE_ADD, None, giving(cpu="499m"), SKIP),
        (NODE_ADD, None, giving(pods="0"), SKIP),
        (NODE_UPDATE, giving(cpu="500m"), giving(cpu="600m"), QUEUE),
        (NODE_UPDATE, giving(cpu="600m"), giving(cpu="500m"), SKIP),
        (NODE_UPDATE, giving(memory="1Gi"), giving(memory="2Gi"), SKIP),
        (NODE_UPDATE, giving(pods="1"), giving(pods="2"), QUEUE),
        (POD_DELETE, asking("other", "n", cpu="1"), None, QUEUE),
        (POD_DELETE, asking("other", cpu="1"), None, SKIP),
        (POD_SCALE_DOWN, asking("o", "n", cpu="2"), asking("o", "n", cpu="1"), QUEUE),
        (POD_SCALE_DOWN, asking("o", "n", memory="2"), asking("o", "n", memory="1"), SKIP),
        (POD_SCALE_DOWN, asking("o", cpu="2"), asking("o", cpu="1"), SKIP),
        (POD_SCALE_DOWN, asking(cpu="2"), asking(cpu="1"), QUEUE),
    ],
)
def test_events_wake_a_pod_that_asks_500m_when_they_can_help(
    event: tuple[Resource, ActionType], old: Any, new_object: Any, hint: QueueingHint
) -> None:
    plugin = made(NodeResourcesFit, cluster(giving()))
    assert hinted(plugin, asking(cpu="500m"), event, old, new_object) is hint


def test_the_index_of_node_events_names_the_pods_that_the_hint_wakes() -> None:
    registered = made(NodeResourcesFit).events_to_register()[2]
    assert registered.index is not None
    index = registered.index()
    index.add("small", info(asking("a", cpu="500m")))
    index.add("large", info(asking("b", cpu="2")))
    assert list(index.candidates(None, giving(cpu="1")) or ()) == ["small"]


class Provides:
    """A plugin that allocates devices for one resource."""

    def resource_classes(self, cluster: Any) -> dict[str, str]:
        return {"example.com/gpu": "gpu"}

    def count_ahead(self, resources: Collection[str]) -> None:
        self.ahead = set(resources)


def leaving(state: ClusterState) -> NodeResourcesFit:
    plugin = made(NodeResourcesFit, state)
    plugin.leave_to(Provides())
    return plugin


@pytest.mark.parametrize("filler", [0, 20])
def test_a_resource_that_devices_provide_is_compared_where_nodes_have_it(filler: int) -> None:
    nodes = [
        giving("has", gpu="2"),
        giving("full", gpu="1"),
        giving("lacks"),
        giving("zero", gpu="0"),
    ]
    nodes += [giving(f"filler-{number}") for number in range(filler)]
    used = asking("used", "full", gpu="1")
    state = cluster(*nodes, pods=[used])
    plugin, waiting = leaving(state), asking(gpu="1")
    assert rejections(plugin, waiting, state) == {"full": ("Insufficient example.com/gpu",)}
    verdicts = whole(plugin, waiting, state)
    assert {name for name, is_ok in verdicts.items() if not is_ok} == {"full"}
    assert plugin.compared_requests(info(waiting)) == {}
    # Without such a plugin it is compared everywhere.
    assert len(rejections(made(NodeResourcesFit, state), waiting, state)) == 3 + filler


def whole(plugin: NodeResourcesFit, waiting: Pod, state: ClusterState) -> dict[str, bool]:
    """The nodes that fit, as filter_all finds out."""
    cycle, pending, nodes = CycleState(), info(waiting), state.nodes
    plugin.pre_filter(cycle, pending, state)
    verdicts = plugin.filter_all(cycle, pending, nodes)
    rows = np.flatnonzero(nodes.alive).tolist()
    return {nodes.names[row]: verdicts.status(row).ok for row in rows}


def test_what_devices_provide_is_read_again_when_classes_change() -> None:
    state = cluster(giving())
    plugin = leaving(state)
    assert plugin.inputs(info(asking(cpu="1")), state) == FIXED_INPUTS
    assert plugin.inputs(info(asking(gpu="1")), state) != FIXED_INPUTS
    cycle, pending = CycleState(), info(asking(gpu="1"))
    plugin.pre_filter(cycle, pending, state)
    assert plugin.devices_key in cycle.data
    plugin.leave_to(NoDevices())
    plugin.pre_filter(cycle, pending, state)
    assert plugin.devices_key not in cycle.data


class NoDevices(Provides):
    def resource_classes(self, cluster: Any) -> dict[str, str]:
        return {}


def test_a_node_without_the_resource_wakes_a_pod_that_may_get_devices_there() -> None:
    state = cluster(giving())
    plugin, waiting = leaving(state), asking(gpu="1")
    assert hinted(plugin, waiting, NODE_ADD, None, giving()) is QUEUE
    assert hinted(made(NodeResourcesFit, state), waiting, NODE_ADD, None, giving()) is SKIP
    before, after = giving(gpu="1"), giving(gpu="2")
    assert hinted(plugin, waiting, NODE_UPDATE, before, after) is QUEUE
    assert hinted(plugin, waiting, NODE_UPDATE, after, before) is SKIP
    assert hinted(plugin, waiting, NODE_UPDATE, after, giving()) is QUEUE


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, ("gpu", "example.com/gpu"), QUEUE),
        (None, ("gpu", "example.com/other"), SKIP),
        (("gpu", "example.com/gpu"), ("gpu", "example.com/gpu"), SKIP),
        (("gpu", ""), ("gpu", "example.com/gpu"), QUEUE),
        (("gpu", "example.com/gpu"), ("gpu", ""), SKIP),
        (None, ("own", ""), QUEUE),
        (("own", ""), ("own", "example.com/other"), SKIP),
    ],
)
def test_a_class_that_provides_a_requested_resource_wakes_the_pod(
    old: tuple[str, str] | None, new: tuple[str, str], hint: QueueingHint
) -> None:
    def device_class(of: tuple[str, str] | None) -> v1.DeviceClass | None:
        if of is None:
            return None
        found = v1.DeviceClass(metadata=v1.ObjectMeta(name=of[0]))
        found.spec.extended_resource_name = of[1]
        return found

    requests = {"example.com/gpu": "1", "deviceclass.resource.kubernetes.io/own": "1"}
    waiting = pod("p", {"containers": [container(requests)]})
    event = (Resource.DEVICE_CLASS, ActionType.UPDATE if old else ActionType.ADD)
    plugin = made(NodeResourcesFit, cluster(giving()))
    assert hinted(plugin, waiting, event, device_class(old), device_class(new)) is hint


class Counts(Provides):
    """Also has devices, of which some are in use."""

    def __init__(self, *counts: tuple[int, int]) -> None:
        self.counts = np.array(counts, dtype=np.int64).T

    def device_counts(self, resource: str, cluster: Any) -> Any:
        return self.counts

    def devices_version(self, cluster: Any) -> int:
        return int(self.counts.sum())


GPU_ALONE = {"type": "LeastAllocated", "resources": [{"name": "example.com/gpu", "weight": 1}]}


def test_devices_count_in_scores_on_nodes_without_the_resource() -> None:
    nodes = [giving("plugin", gpu="4"), giving("devices"), giving("none")]
    state = cluster(*nodes, pods=[asking("used", "plugin", gpu="1")])
    plugin = made(NodeResourcesFit, state, scoring_strategy=GPU_ALONE)
    plugin.leave_to(Counts((9, 9), (4, 0), (0, 0)))
    assert scored(plugin, asking(gpu="1"), state) == {"plugin": 50, "devices": 75, "none": 0}
    assert scored(plugin, asking(cpu="1"), state) == {"plugin": 0, "devices": 0, "none": 0}
    before = plugin.inputs(info(asking(gpu="1")), state)
    plugin.leave_to(Counts((9, 9), (4, 2), (0, 0)))
    assert plugin.inputs(info(asking(gpu="1")), state) != before
    assert scored(plugin, asking(gpu="1"), state) == {"plugin": 50, "devices": 25, "none": 0}


def test_of_a_placement_the_nodes_that_have_a_resource_count_if_members_request_it() -> None:
    nodes = [giving("full", gpu="2"), giving("free", gpu="2"), giving("without")]
    there = [asking("a", "full", gpu="2"), asking("b", "without", gpu="4")]
    state, plugin = cluster(*nodes, pods=there), strategy("LeastAllocated", ("example.com/gpu", 1))

    def scores(member: Pod) -> list[float]:
        tried = [
            TriedPlacement(Placement("", frozenset(names)), 1, [(info(member), names[0])])
            for names in (["full"], ["free", "without"])
        ]
        return list(plugin.score_placements(PodGroup("default/g"), tried, state))

    assert scores(asking(gpu="1")) == [100, 50]
    assert scores(asking(cpu="1")) == [0, 0]


def test_resources_that_pods_only_name_take_no_memory_for_ever() -> None:
    plugin, state = made(NodeResourcesFit), cluster(giving())
    for number in range(1100):
        asked = pod("p", {"containers": [container({f"example.com/{number}": "1"})]})
        assert rejections(plugin, asked, state)
    assert fit._insufficient.cache_info().currsize <= 1024
