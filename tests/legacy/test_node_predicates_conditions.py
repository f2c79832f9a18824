"""CheckNodeCondition and the pressure predicates."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.framework.status import Code
from podsched.legacy.node_predicates import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
)
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, rejections


def reporting(unschedulable: bool = False, **statuses: str) -> v1.Node:
    made = node("n", unschedulable=unschedulable)
    for kind, status in statuses.items():
        made.status.conditions.add(type=kind, status=status)
    return made


@pytest.mark.parametrize(
    ("statuses", "reasons"),
    [
        ({}, ()),
        ({"Ready": "True", "NetworkUnavailable": "False"}, ()),
        ({"Ready": "False"}, ("node(s) were not ready",)),
        ({"Ready": "Unknown"}, ("node(s) were not ready",)),
        ({"NetworkUnavailable": "Unknown"}, ("node(s) had unavailable network",)),
        (
            {"Ready": "False", "NetworkUnavailable": "True", "unschedulable": True},
            (
                "node(s) were not ready",
                "node(s) had unavailable network",
                "node(s) were unschedulable",
            ),
        ),
    ],
)
def test_a_node_must_be_ready_with_its_network_and_not_cordoned(
    statuses: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    state = cluster(reporting(**statuses))
    found = rejections(CheckNodeCondition(), pod("p"), state)
    assert found == ({"n": reasons} if reasons else {})


@pytest.mark.parametrize(
    ("plugin", "condition", "reason"),
    [
        (CheckNodeDiskPressure(), "DiskPressure", "node(s) had disk pressure"),
        (CheckNodePIDPressure(), "PIDPressure", "node(s) had pid pressure"),
    ],
)
def test_pressure_rejects_unresolvably(plugin: Any, condition: str, reason: str) -> None:
    status = filtered(plugin, pod("p"), cluster(reporting(**{condition: "True"})))["n"]
    assert (status.reasons, status.code) == ((reason,), Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert filtered(plugin, pod("p"), cluster(reporting(**{condition: "Unknown"})))["n"].ok


def test_memory_pressure_rejects_best_effort_pods_alone() -> None:
    state = cluster(reporting(MemoryPressure="True"))
    best_effort = pod("p", {"containers": [{"name": "c", "image": "i"}]})
    found = rejections(CheckNodeMemoryPressure(), best_effort, state)
    assert found == {"n": ("node(s) had memory pressure",)}
    assert rejections(CheckNodeMemoryPressure(), pod("p"), state) == {}


def test_a_node_that_changes_a_condition_is_filtered_anew() -> None:
    state = cluster(reporting(Ready="True"))
    before = state.columns.position
    beat = reporting(Ready="True")
    beat.status.conditions[0].last_heartbeat_time.seconds = 9
    assert not state.columns.update_node(beat), "a heartbeat"
    assert state.columns.update_node(reporting(Ready="False"))
    assert state.columns.position != before
