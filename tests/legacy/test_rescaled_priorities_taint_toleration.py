"""TaintTolerationPriority on a case worked by hand: 10 - 10 * count / highest count."""

from __future__ import annotations

from podsched.api.objects import Node
from podsched.legacy.rescaled_priorities import TaintTolerationPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, scored


def test_the_most_taints_not_tolerated_are_worth_nothing() -> None:
    def tainted(name: str, *keys: str) -> Node:
        return node(name, taints=[{"key": key, "effect": "PreferNoSchedule"} for key in keys])

    state = cluster(tainted("three", "a", "b", "c"), tainted("one", "a"), tainted("none"))
    found = scored(TaintTolerationPriority(), pod("p"), state)
    assert found == {"three": 0, "one": 70, "none": 100}, "10 - 10 * 1 / 3 = 10 - 3"


def test_without_taints_all_nodes_have_ten_points() -> None:
    assert scored(TaintTolerationPriority(), pod("p"), cluster(node("n"))) == {"n": 100}
