"""NodeLabelPriority: the label is there, or it is not."""

from __future__ import annotations

import pytest

from podsched.legacy.node_priorities import NodeLabelPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, made, scored


@pytest.mark.parametrize(
    ("presence", "expected"), [(True, {"a": 100, "b": 0}), (False, {"a": 0, "b": 100})]
)
def test_ten_points_where_the_label_is_as_preferred(
    presence: bool, expected: dict[str, int]
) -> None:
    state = cluster(node("a", labels={"ssd": "no"}), node("b"))
    plugin = made(NodeLabelPriority, state, label="ssd", presence=presence)
    assert scored(plugin, pod("p"), state) == expected, "its value does not matter"
