"""RequestedToCapacityRatioPriority on cases worked by hand: a line over the used share."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.legacy.requested_priorities import RequestedToCapacityRatioPriority
from support.engine_world import container, node, pod
from support.plugin_world import cluster, made, scored

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "9", "example.com/gpu": "4"}


def points(asks: dict[str, str], **args: Any) -> int:
    state = cluster(node("n", allocatable=ROOM))
    plugin = made(RequestedToCapacityRatioPriority, state, **args)
    found = scored(plugin, pod("p", {"containers": [container(asks)]}), state)
    assert found is not None
    return found["n"] // 10


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ({"cpu": "1", "memory": "2Gi"}, 8),  # at 25 % 10 - 10 * 25 / 100 = 7.5, cut towards 10
        ({"cpu": "2", "memory": "4Gi"}, 5),
        ({"cpu": "4", "memory": "4Gi"}, 5),  # 0 for cpu takes no part in the mean
        ({"cpu": "5", "memory": "9Gi"}, 0),  # does not fit: as if 100 % were used
    ],
)
def test_without_a_shape_an_empty_node_is_best(asks: dict[str, str], expected: int) -> None:
    assert points(asks) == expected


def test_a_rising_shape_prefers_full_nodes() -> None:
    shape = ({"utilization": 0, "score": 0}, {"utilization": 100, "score": 10})
    assert points({"cpu": "3", "memory": "6Gi"}, shape=shape) == 7, "7.5, cut"


def test_resources_count_by_their_weights_and_the_mean_is_rounded() -> None:
    shape = ({"utilization": 0, "score": 0}, {"utilization": 100, "score": 10})
    resources = ({"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 5})
    asks = {"cpu": "1", "example.com/gpu": "3"}
    assert points(asks, shape=shape, resources=resources) == 5, "(2 * 3 + 7 * 5) / 8 = 5.125"
    asks = {"cpu": "1", "example.com/gpu": "4"}
    resources = ({"name": "cpu"}, {"name": "example.com/gpu"})
    assert points(asks, shape=shape, resources=resources) == 6, "(2 + 10) / 2"


def test_outside_the_shape_its_ends_count() -> None:
    shape = ({"utilization": 40, "score": 3}, {"utilization": 60, "score": 9})
    assert points({"cpu": "400m", "memory": "800Mi"}, shape=shape) == 3
    assert points({"cpu": "4", "memory": "8Gi"}, shape=shape) == 9
