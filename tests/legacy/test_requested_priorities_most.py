"""MostRequestedPriority on cases worked by hand: (req * 10 / cap) over cpu and memory."""

from __future__ import annotations

import pytest

from podsched.legacy.requested_priorities import MostRequestedPriority
from support.engine_world import container, node, pod
from support.plugin_world import cluster, scored


@pytest.mark.parametrize(
    ("asks", "points"),
    [
        ({"cpu": "1", "memory": "2Gi"}, 2),  # (2.5 -> 2 + 2.5 -> 2) / 2
        ({"cpu": "4", "memory": "8Gi"}, 10),
        ({"cpu": "3", "memory": "0"}, 3),  # (7.5 -> 7 + 0) / 2 = 3.5 -> 3
        ({"cpu": "5", "memory": "8Gi"}, 5),  # more cpu than there is counts nothing
    ],
)
def test_the_mean_of_what_is_used_is_cut_to_whole_points(asks: dict[str, str], points: int) -> None:
    state = cluster(node("n", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}))
    pending = pod("p", {"containers": [container(asks)]})
    assert scored(MostRequestedPriority(), pending, state) == {"n": 10 * points}
