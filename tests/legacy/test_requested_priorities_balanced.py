"""BalancedResourceAllocation on cases worked by hand: 10 * (1 - |cpu share - memory share|)."""

from __future__ import annotations

import pytest

from podsched.legacy.requested_priorities import BalancedResourceAllocation
from support.engine_world import container, node, pod
from support.plugin_world import cluster, scored


@pytest.mark.parametrize(
    ("asks", "points"),
    [
        ({"cpu": "2", "memory": "4Gi"}, 10),  # 1/2 and 1/2
        ({"cpu": "3", "memory": "2Gi"}, 5),  # 10 * (1 - (3/4 - 1/4))
        ({"cpu": "1", "memory": "7Gi"}, 3),  # 10 * (1 - 5/8) = 3.75
        ({"cpu": "4", "memory": "4Gi"}, 0),  # a share of 1
    ],
)
def test_equal_shares_have_the_most_points(asks: dict[str, str], points: int) -> None:
    state = cluster(node("n", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}))
    pending = pod("p", {"containers": [container(asks)]})
    assert scored(BalancedResourceAllocation(), pending, state) == {"n": 10 * points}


def test_a_node_without_a_resource_has_no_points() -> None:
    state = cluster(node("n", allocatable={"cpu": "4", "pods": "9"}))
    assert scored(BalancedResourceAllocation(), pod("p"), state) == {"n": 0}
