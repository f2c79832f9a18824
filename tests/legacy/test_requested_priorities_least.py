"""LeastRequestedPriority on cases worked by hand: ((cap - req) * 10 / cap) over cpu and memory."""

from __future__ import annotations

import pytest

from podsched.legacy.requested_priorities import LeastRequestedPriority
from support.engine_world import container, node, pod
from support.plugin_world import cluster, scored


@pytest.mark.parametrize(
    ("asks", "points"),
    [
        ({"cpu": "1", "memory": "2Gi"}, 7),  # (7.5 -> 7 + 7.5 -> 7) / 2
        ({"cpu": "3", "memory": "5000Mi"}, 2),  # (2.5 -> 2 + 3.9 -> 3) / 2 = 2.5 -> 2
        ({}, 9),  # 100m of 4 and 200Mi of 8Gi: (9.75 -> 9 + 9.76 -> 9) / 2
        ({"cpu": "5", "memory": "0"}, 5),  # more cpu than there is: (0 + 10) / 2
    ],
)
def test_the_mean_of_what_is_left_is_cut_to_whole_points(asks: dict[str, str], points: int) -> None:
    state = cluster(node("n", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}))
    pending = pod("p", {"containers": [container(asks)]})
    assert scored(LeastRequestedPriority(), pending, state) == {"n": 10 * points}


def test_a_node_without_a_resource_has_no_points_for_it() -> None:
    state = cluster(node("n", allocatable={"cpu": "4", "pods": "9"}))
    pending = pod("p", {"containers": [container({"cpu": "2", "memory": "0"})]})
    assert scored(LeastRequestedPriority(), pending, state) == {"n": 20}, "(5 + 0) / 2"
