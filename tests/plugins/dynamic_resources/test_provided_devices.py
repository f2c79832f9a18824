"""How many devices of a class nodes have, and have in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsched.cache.cache import Cache
from podsched.plugins.dynamic_resources import provided_devices
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.model import Features
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader
from podsched.plugins.dynamic_resources.provided_devices import CountedDevices
from podsched.plugins.dynamic_resources.selectors import selector_compiler
from support.device_objects import device_class, devices, resource_claim
from support.engine_world import node


class World:
    """Nodes with devices of two models, and the counts of a class."""

    def __init__(self, *selectors: str) -> None:
        self.cache = Cache()
        known = KnownDevices()
        self.counts = CountedDevices(known, NeedsReader(known), selector_compiler(Features()))
        of_class = device_class()
        for expression in selectors:
            of_class.spec.selectors.add().cel.expression = expression
        self.put(of_class)
        for name in ("a", "b", "c"):
            self.cache.placed.add_node(node(name))
        self.put(devices("a", 3, attributes={"model": ["x", "x", "y"]}))
        self.put(devices("b", 1, attributes={"model": "y"}))

    def put(self, item: Any) -> None:
        kind, meta = type(item).__name__, item.metadata
        known = self.cache.cluster.get(kind, meta.namespace, meta.name)
        self.cache.apply(kind, known, item)

    def use(self, pool: str, device: str, **result: Any) -> None:
        claim = resource_claim(f"{pool}-{device}")
        claim.status.allocation.devices.results.add(
            request="gpus", driver="gpu.example.com", pool=pool, device=device, **result
        )
        self.put(claim)

    def found(self) -> dict[str, tuple[int, int]]:
        cluster = self.cache.cluster
        counts = self.counts.device_counts("deviceclass.resource.kubernetes.io/gpu", cluster)
        assert counts is not None
        rows = np.flatnonzero(cluster.nodes.alive).tolist()
        return {cluster.nodes.names[row]: tuple(counts[:, row].tolist()) for row in rows}


IS_X = 'device.attributes["gpu.example.com"].model == "x"'


def test_devices_that_match_the_class_are_counted_and_those_in_use() -> None:
    assert World().found() == {"a": (3, 0), "b": (1, 0), "c": (0, 0)}
    world = World(IS_X)
    assert world.found() == {"a": (2, 0), "b": (0, 0), "c": (0, 0)}
    world.use("a", "gpu-0")
    world.use("a", "gpu-2")
    world.use("b", "gpu-0")
    assert world.found() == {"a": (2, 1), "b": (0, 0), "c": (0, 0)}


def test_shared_devices_are_in_use_and_those_of_administrators_are_not() -> None:
    world = World()
    world.use("a", "gpu-0", share_id="s")
    world.use("a", "gpu-1", admin_access=True)
    assert world.found()["a"] == (3, 1)


def test_slices_and_nodes_that_change_are_counted_again() -> None:
    world = World()
    world.found()
    world.put(devices("a", 1))
    world.put(devices("c", 2))
    world.cache.placed.add_node(node("d"))
    world.put(devices("d", 1))
    assert world.found() == {"a": (1, 0), "b": (1, 0), "c": (2, 0), "d": (1, 0)}
    world.put(device_class())
    anywhere = devices("", 1)
    anywhere.metadata.name, anywhere.spec.pool.name = "anywhere", "anywhere"
    anywhere.spec.ClearField("node_name")
    anywhere.spec.all_nodes = True
    world.put(anywhere)
    assert world.found() == {"a": (2, 0), "b": (2, 0), "c": (3, 0), "d": (2, 0)}


def test_only_nodes_that_changed_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(IS_X)
    world.found()
    counted: list[str] = []
    count = CountedDevices._count_on

    def noted(self: Any, node: Any, of_class: Any, devices: Any) -> Any:
        counted.append(node.name)
        return count(self, node, of_class, devices)

    monkeypatch.setattr(CountedDevices, "_count_on", noted)
    world.use("a", "gpu-0")
    assert world.found()["a"] == (2, 1)
    assert counted == ["a"]


def test_devices_are_counted_in_steps_and_what_changes_meanwhile_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provided_devices, "_ROWS_PER_PAUSE", 1)
    world = World(IS_X)
    steps = world.counts._count("gpu", world.cache.cluster)
    next(steps)
    world.use("a", "gpu-0")
    assert len(list(steps)) == 2
    assert world.found() == {"a": (2, 1), "b": (0, 0), "c": (0, 0)}
    monkeypatch.setattr(CountedDevices, "_count_on", AssertionError)
    assert world.found()["a"] == (2, 1)


def test_a_node_may_go_while_devices_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provided_devices, "_ROWS_PER_PAUSE", 1)
    world = World(IS_X)
    steps = world.counts._count("gpu", world.cache.cluster)
    next(steps)
    world.cache.placed.remove_node("c")
    list(steps)
    assert world.found() == {"a": (2, 0), "b": (0, 0)}


def test_a_selector_that_fails_counts_as_no_devices() -> None:
    assert World('device.attributes["gpu.example.com"].absent == "x"').found()["a"] == (0, 0)


def test_devices_with_nodes_of_their_own_count_there() -> None:
    world = World()
    some = devices("", 2)
    some.metadata.name, some.spec.pool.name = "some", "some"
    some.spec.ClearField("node_name")
    some.spec.per_device_node_selection = True
    some.spec.devices[0].node_name = "c"
    some.spec.devices[1].all_nodes = True
    world.put(some)
    assert world.found() == {"a": (4, 0), "b": (2, 0), "c": (2, 0)}
