"""Which pools a node reaches, where slices disagree or name other nodes."""

from __future__ import annotations

from typing import Any

from podsched.plugins.dynamic_resources.model import Features, Node
from podsched.plugins.dynamic_resources.pools import Pool, gather_pools
from support.device_world import read_slice

NODE = Node(name="node-1")


def pools_of(*specs: dict[str, Any]) -> list[Pool]:
    """The pools of slices of one pool, given in this order."""
    slices = []
    for number, spec in enumerate(specs):
        pool = {"name": "p", "generation": 1, "resourceSliceCount": spec.pop("count", 2)}
        document = {
            "metadata": {"name": f"slice-{number}"},
            "spec": {"driver": "gpu.example.com", "pool": pool, **spec},
        }
        slices.append(read_slice(document))
    return gather_pools(slices, NODE, Features())


def test_of_slices_that_disagree_on_their_number_that_of_the_node_decides() -> None:
    devices = {"nodeName": "node-1", "devices": [{"name": "gpu-0"}], "count": 1}
    (pool,) = pools_of({"allNodes": True, "devices": [{"name": "gpu-1"}]}, devices)
    assert pool.incomplete


def test_devices_may_consume_counters_of_a_slice_that_names_another_node() -> None:
    counters = {"name": "memory", "counters": {"slices": {"value": "2"}}}
    consumed = {"counterSet": "memory", "counters": {"slices": {"value": "1"}}}
    (pool,) = pools_of(
        {"nodeName": "node-2", "sharedCounters": [counters]},
        {"nodeName": "node-1", "devices": [{"name": "gpu-0", "consumesCounters": [consumed]}]},
    )
    assert [device.name for _, device in pool.devices()] == ["gpu-0"]
    assert not pool.invalid
