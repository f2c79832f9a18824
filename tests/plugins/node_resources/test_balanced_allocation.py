"""NodeResourcesBalancedAllocation: its formula on cases worked by hand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from podsched.api.objects import Node, Pod
from podsched.config.plugin_args import ResourceSpec
from podsched.framework.plugin import FIXED_INPUTS
from podsched.plugins.node_resources.balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from support.engine_world import container, node, pod
from support.plugin_world import cluster, info, made, scored


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
    assert scored(made(NodeResourcesBalancedAllocation), asking(**wanted), state) == {"n": score}


def test_a_sum_that_wrapped_around_gets_a_score_in_range() -> None:
    """A score out of range fails the attempts of all pods."""
    used = [2**62, 2**62, 2**62, 2**62 - 3000]
    there = [asking(f"p{at}", "n", memory=str(amount)) for at, amount in enumerate(used)]
    state = cluster(giving(), pods=there)
    score = scored(made(NodeResourcesBalancedAllocation), asking(memory="5000"), state)
    assert score == {"n": 100}  # 125 from a sum of -3000


def test_a_pod_that_asks_for_nothing_is_skipped() -> None:
    state = cluster(giving())
    assert scored(made(NodeResourcesBalancedAllocation), asking(), state) is None
    assert scored(made(NodeResourcesBalancedAllocation), asking(cpu="0"), state) is None


def test_more_than_two_resources_take_the_standard_deviation() -> None:
    names = ("cpu", "memory", "example.com/gpu")
    resources = [ResourceSpec(name=name) for name in names]
    plugin = made(NodeResourcesBalancedAllocation, resources=resources)
    state = cluster(giving(gpu="2"))
    # Shares 0.5, 0 and 1: mean 0.5, deviation sqrt((0 + 0.25 + 0.25) / 3) = 0.408; before: 0.
    wanted = asking(cpu="500m", gpu="2")
    assert scored(plugin, wanted, state) == {"n": 50 + (50 + 59 - 100) // 2}


def test_a_resource_that_the_node_lacks_takes_no_part() -> None:
    resources = [ResourceSpec(name=name) for name in ("cpu", "example.com/gpu")]
    plugin = made(NodeResourcesBalancedAllocation, resources=resources)
    assert scored(plugin, asking(cpu="500m", gpu="1"), cluster(giving())) == {"n": 75}


class Devices:
    """Devices of one resource, of which some are in use."""

    def __init__(self, *counts: tuple[int, int]) -> None:
        self.counts = np.array(counts, dtype=np.int64).T

    def resource_classes(self, cluster: Any) -> dict[str, str]:
        return {"example.com/gpu": "gpu"}

    def count_ahead(self, resources: Collection[str]) -> None:
        self.ahead = set(resources)

    def device_counts(self, resource: str, cluster: Any) -> Any:
        return self.counts

    def devices_version(self, cluster: Any) -> int:
        return int(self.counts.sum())


def test_devices_count_on_nodes_without_the_resource() -> None:
    nodes = [node(name, allocatable={"cpu": "4", "pods": "10"}) for name in ("free", "used")]
    state = cluster(*nodes)
    resources = [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]
    plugin = made(NodeResourcesBalancedAllocation, state, resources=resources)
    waiting = pod("p", {"containers": [container({"cpu": "1", "example.com/gpu": "1"})]})
    assert plugin.inputs(info(waiting), state) == FIXED_INPUTS
    counts = Devices((4, 0), (4, 2))
    plugin.leave_to(counts)
    assert counts.ahead == {"example.com/gpu"}
    assert plugin.inputs(info(waiting), state) != FIXED_INPUTS
    assert plugin.inputs(info(pod("q")), state) == FIXED_INPUTS
    # On both nodes a quarter of each is added; on the second, half of the devices are in use.
    assert scored(plugin, waiting, state) == {"free": 75, "used": 75}
    plugin.leave_to(Devices((4, 0), (2, 0)))
    assert scored(plugin, waiting, state) == {"free": 75, "used": 68}
