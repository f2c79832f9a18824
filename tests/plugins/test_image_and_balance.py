"""ImageLocality and NodeResourcesBalancedAllocation: their formulas on cases worked by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from podsched.api.objects import Node, Pod
from podsched.plugins.image_locality import ImageLocality
from podsched.plugins.node_resources.balanced_allocation import (
    NodeResourcesBalancedAllocation,
    new,
)
from support.engine_world import container, node, pod
from support.plugin_world import cluster, info, scored

MIB = 1024 * 1024


def running(*images: str) -> Pod:
    containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]
    return pod("p", {"containers": containers})


def test_an_image_counts_its_size_times_the_share_of_nodes_that_have_it() -> None:
    state = cluster(node("has", images=["app:1"]), node("has not"))
    spread = 300 * MIB // 2
    expected = 100 * (spread - 23 * MIB) // (977 * MIB)
    assert scored(ImageLocality(), running("app:1"), state) == {"has": expected, "has not": 0}


def test_a_name_without_a_tag_means_latest() -> None:
    state = cluster(node("n", images=["tiny:latest", "base:2"]))
    two = running("tiny", "base:2")
    expected = 100 * (905 * MIB - 23 * MIB) // (2 * 1000 * MIB - 23 * MIB)
    assert scored(ImageLocality(), two, state) == {"n": expected}


def test_the_number_of_nodes_is_among_the_inputs_when_an_image_is_somewhere() -> None:
    plugin, wanted = ImageLocality(), info(running("app:1"))
    state = cluster(node("a", images=["app:1"]))
    before = plugin.inputs(wanted, state)
    state.columns.add_node(node("b"))
    assert plugin.inputs(wanted, state) != before


def asking(name: str = "p", node_name: str = "", **requests: str) -> Pod:
    named = {key.replace("gpu", "example.com/gpu"): text for key, text in requests.items()}
    return pod(name, {"containers": [container(named)], "nodeName": node_name})


def giving(**allocatable: str) -> Node:
    named = {key.replace("gpu", "example.com/gpu"): text for key, text in allocatable.items()}
    return node("n", allocatable={"cpu": "1", "memory": "1000", "pods": "9", **named})


@pytest.mark.parametrize(
    ("used", "wanted", "score"),
    [
        ({}, {"cpu": "500m", "memory": "500"}, 75),
        ({}, {"cpu": "1", "memory": "0"}, 50 + (50 + 50 - 100) // 2),
        ({"cpu": "500m"}, {"memory": "500"}, 50 + (50 + 100 - 75) // 2),
        ({"cpu": "500m"}, {"cpu": "100m"}, 50 + (50 + 70 - 75) // 2),
        ({"cpu": "2"}, {"memory": "1000"}, 50 + (50 + 100 - 50) // 2),
    ],
)
def test_the_score_is_how_much_the_pod_evens_the_use(
    used: dict[str, str], wanted: dict[str, str], score: int
) -> None:
    there = [asking("there", "n", **used)] if used else []
    state = cluster(giving(), pods=there)
    assert scored(NodeResourcesBalancedAllocation(), asking(**wanted), state) == {"n": score}


def test_a_pod_that_asks_for_nothing_is_skipped() -> None:
    state = cluster(giving())
    assert scored(NodeResourcesBalancedAllocation(), asking(), state) is None
    assert scored(NodeResourcesBalancedAllocation(), asking(cpu="0"), state) is None


def test_more_than_two_resources_take_the_standard_deviation() -> None:
    names = ("cpu", "memory", "example.com/gpu")
    resources = [SimpleNamespace(name=name, weight=1) for name in names]
    plugin = new(SimpleNamespace(resources=resources))
    state = cluster(giving(gpu="2"))
    # Shares 0.5, 0 and 1: mean 0.5, deviation sqrt((0 + 0.25 + 0.25) / 3) = 0.408; before: 0.
    wanted = asking(cpu="500m", gpu="2")
    assert scored(plugin, wanted, state) == {"n": 50 + (50 + 59 - 100) // 2}


def test_a_resource_that_the_node_lacks_takes_no_part() -> None:
    resources = [SimpleNamespace(name=name, weight=1) for name in ("cpu", "example.com/gpu")]
    plugin = new(SimpleNamespace(resources=resources))
    assert scored(plugin, asking(cpu="500m", gpu="1"), cluster(giving())) == {"n": 75}
