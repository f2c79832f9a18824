"""EqualPriority."""

from __future__ import annotations

from podsched.legacy.node_priorities import EqualPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, scored


def test_every_node_has_one_point() -> None:
    state = cluster(node("a"), node("b"))
    assert scored(EqualPriority(), pod("p"), state) == {"a": 10, "b": 10}
