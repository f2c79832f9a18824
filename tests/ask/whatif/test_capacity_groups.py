"""Nodes by zone and by group."""

from __future__ import annotations

from typing import Any

from podsched.ask.whatif.capacity import Group, by_group, by_zone, grouping
from support.whatif_world import node


def labelled(name: str, **labels: Any) -> Any:
    return node(name, labels=labels["labels"])


def test_zones_have_the_sum_of_their_nodes() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [labelled("a", labels={zone: "x"}), labelled("b", labels={zone: "x"}), node("c")]
    assert by_zone(nodes, {"a": 2, "b": 1}) == [Group("<none>", 1, 0), Group("x", 2, 3)]


def test_groups_are_those_of_the_cloud_or_of_the_label_asked_for() -> None:
    nodes = [
        labelled("a", labels={"eks.amazonaws.com/nodegroup": "gpu", "team": "ml"}),
        labelled("b", labels={"node.kubernetes.io/instance-type": "m5.large"}),
    ]
    assert grouping(nodes) == {"a": "gpu", "b": "<none>"}
    assert grouping(nodes, "team") == {"a": "ml", "b": "<none>"}


def test_nodes_without_a_group_are_grouped_by_size() -> None:
    large = node("b", allocatable={"cpu": "1500m", "memory": "1Gi"})
    groups = grouping([node("a"), large])
    assert groups == {"a": "4 cpu, 8Gi", "b": "1.5 cpu, 1Gi"}
    assert by_group(groups, {"a": 1})[1] == Group("4 cpu, 8Gi", 1, 1)
