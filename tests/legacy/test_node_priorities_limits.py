"""ResourceLimitsPriority: one point where a limit is within the node's allocatable."""

from __future__ import annotations

import pytest

from podsched.legacy.node_priorities import ResourceLimitsPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, scored


@pytest.mark.parametrize(
    ("limits", "init", "points"),
    [
        ([{"cpu": "4"}], {}, 1),
        ([{"cpu": "5"}], {}, 0),
        ([{"cpu": "5", "memory": "8Gi"}], {}, 1),  # one of the two is enough
        ([{"cpu": "3"}, {"cpu": "3"}], {}, 0),  # 6 together
        ([{"cpu": "1"}], {"cpu": "5"}, 0),  # the init container's limit is higher
        ([{}], {}, 0),
    ],
)
def test_a_limit_within_what_the_node_has_is_worth_a_point(
    limits: list[dict[str, str]], init: dict[str, str], points: int
) -> None:
    containers = [
        {"name": f"c{i}", "image": "i", "resources": {"limits": some}}
        for i, some in enumerate(limits)
    ]
    first = [{"name": "i", "image": "i", "resources": {"limits": init}}] if init else []
    pending = pod("p", {"containers": containers, "initContainers": first})
    state = cluster(node("n", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}))
    assert scored(ResourceLimitsPriority(), pending, state) == {"n": 10 * points}
