"""PreFilter runs again for the plugins whose inputs changed, and for no others."""

from __future__ import annotations

from podsched.engine.evaluation.plugin_inputs import PluginInputs
from podsched.framework.plugin import CycleState
from support.engine_world import World, node


def inputs_of(world: World) -> PluginInputs:
    return PluginInputs(world.runtime, world.cluster, CycleState())


def test_at_first_every_plugin_is_stale_and_afterwards_none() -> None:
    world = World(1)
    pending, inputs = world.pending(0), inputs_of(world)
    inputs.refresh(pending)
    assert inputs.stale == set(inputs.names)
    inputs.settle()
    inputs.refresh(pending)
    assert inputs.stale == set()


def test_a_plugin_whose_inputs_changed_stays_stale_until_that_is_settled() -> None:
    world = World(1, nodes=0)
    world.cache.add_node(node("a"))
    world.templates = [{"topologySpreadConstraints": [_spread()]}] * 4
    pending, inputs = world.pending(0), inputs_of(world)
    inputs.refresh(pending)
    inputs.settle()
    world.cache.add_node(node("b", labels={"zone": "a"}))
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


def _spread() -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
