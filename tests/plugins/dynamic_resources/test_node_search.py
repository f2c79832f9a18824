"""The search for devices on many nodes, whose outcomes are remembered."""

from __future__ import annotations

import numpy as np

from podsched.api.objects import DeviceClass, ResourceSlice
from podsched.cache.columns import Columns
from podsched.cache.objects import ClusterState
from podsched.lab.bench.shapes import node as make_node
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.node_search import Budget, NodeSearch, PodNeeds
from support.device_world import DRIVER, AttributeSelector, read_claim


def publish(cluster: ClusterState, node: str, *devices: str) -> None:
    """Store the pool of a node: a slice for each device."""
    for number, device in enumerate(devices):
        piece = ResourceSlice()
        piece.metadata.name = f"{node}-{number}"
        piece.spec.driver, piece.spec.node_name = DRIVER, node
        piece.spec.pool.name, piece.spec.pool.resource_slice_count = node, len(devices)
        piece.spec.devices.add(name=device)
        cluster.put("ResourceSlice", piece)


def test_nodes_after_one_with_an_invalid_pool_are_searched_in_advance() -> None:
    cluster, columns = ClusterState(), Columns()
    of_class = DeviceClass()
    of_class.metadata.name = "any"
    cluster.put("DeviceClass", of_class)
    rows = [columns.add_node(make_node(name)) for name in ("a", "b")]
    publish(cluster, "a", "twice", "twice")
    publish(cluster, "b", "d0")
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "r", "exactly": exactly}]
    claim = read_claim({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    needs = PodNeeds((), (claim,), (b"",), (), KnownDevices().of(cluster))
    search = NodeSearch(AttributeSelector, most_pauses=100)
    list(search.prepare(needs, columns, np.array(rows), 100))
    assert search.find(columns.node(rows[1]).metadata, needs, Budget(0)) == 0
