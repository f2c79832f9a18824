"""PreFilter runs again for the plugins whose inputs changed, and for no others."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from podsched.api.manifest import from_manifest
from podsched.decide.accelerators.plugin_inputs import PluginInputs
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.plugins.node_name import NodeName
from podsched.plugins.node_ports import NodePorts
from support.engine_world import World, node

LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default", "uid": "data"},
    "spec": {"volumeName": "", "accessModes": ["ReadWriteOnce"], "storageClassName": "late"},
}


def inputs_of(world: World) -> PluginInputs:
    return PluginInputs(world.runtime, world.cluster, CycleState())


def test_at_first_every_plugin_is_stale_and_afterwards_none() -> None:
    world = World(1)
    pending, inputs = world.pending(0), inputs_of(world)
    inputs.refresh(pending)
    assert inputs.stale == set(inputs.names)
    inputs.mark_current()
    inputs.refresh(pending)
    assert inputs.stale == set()


def test_a_plugin_whose_inputs_changed_stays_stale_until_that_is_settled() -> None:
    world = World(1, nodes=0)
    world.cache.placed.add_node(node("a"))
    world.templates = [{"topologySpreadConstraints": [_spread()]}] * 4
    pending, inputs = world.pending(0), inputs_of(world)
    inputs.refresh(pending)
    inputs.mark_current()
    world.cache.placed.add_node(node("b", labels={"zone": "a"}))
    assert inputs.now(pending) != inputs.last
    for _ in range(2):
        inputs.refresh(pending)
        assert "PodTopologySpread" in inputs.stale
    assert inputs.now(pending) == inputs.last


def test_a_plugin_that_rejects_the_pod_is_named_with_its_reason() -> None:
    world = World(1)
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
    world.templates = [{"volumes": [claim]}] * 4
    inputs = inputs_of(world)
    inputs.refresh(world.pending(0))
    status = inputs.pre_filtered.status
    assert status.message == 'persistentvolumeclaim "missing" not found'
    assert status.plugin
    assert len(inputs.last) <= len(inputs.names)


def test_inputs_stay_in_order_when_a_class_continues_from_another() -> None:
    world = World(1)
    pending, first = world.pending(0), inputs_of(world)
    first.refresh(pending)
    for name in world.runtime.inputs_without_pre_filter:
        inputs = inputs_of(world)
        inputs.continue_from(first, {name})
        inputs.refresh(pending)
        assert inputs.last == inputs.now(pending)


def _spread() -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }


def test_plugins_with_fixed_inputs_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noting(of: type[NodePorts | NodeName]) -> None:
        read = of.inputs

        def inputs(self: NodePorts | NodeName, pod: PodInfo, cluster: ClusterView) -> Hashable:
            asked.append(self.name)
            return read(self, pod, cluster)  # type: ignore[arg-type]

        monkeypatch.setattr(of, "inputs", inputs)

    noting(NodePorts)
    noting(NodeName)
    world = World(1)
    pending, inputs = world.pending(0), inputs_of(world)
    for _ in range(3):
        inputs.refresh(pending)
        inputs.mark_current()
    assert asked.count("NodePorts") == 1
    assert asked.count("NodeName") == 3


def test_what_prefilter_says_is_merged_again_when_a_plugin_says_something_else() -> None:
    world = World(1)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    world.templates = [{"volumes": [volume]}] * 4
    claim = from_manifest(CLAIM).message
    world.cache.apply("StorageClass", None, from_manifest(LATE).message)
    world.cache.apply("PersistentVolumeClaim", None, claim)
    pending, inputs = world.pending(0), inputs_of(world)
    inputs.refresh(pending)
    assert inputs.pre_filtered.status.ok
    world.cache.apply("PersistentVolumeClaim", claim, None)
    inputs.refresh(pending)
    assert inputs.pre_filtered.status.message == 'persistentvolumeclaim "data" not found'
    world.cache.apply("PersistentVolumeClaim", None, claim)
    inputs.refresh(pending)
    assert inputs.pre_filtered.status.ok
