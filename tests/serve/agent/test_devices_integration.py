"""The devices of hollow nodes, on an API server: they come and leave with their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podsched.api.hollow_nodes import DEVICES_ANNOTATION
from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, DeviceClass, Node, ResourceSlice
from podsched.serve.agent import timers
from podsched.serve.client.errors import Forbidden, as_result
from podsched.v1.api_pb2 import BatchResult
from support.agent_world import AgentWorld
from support.eventually import eventually

pytestmark = pytest.mark.integration


async def slices(world: AgentWorld) -> dict[str, ResourceSlice]:
    found = await world.client.list("ResourceSlice")
    return {piece.metadata.name: piece for piece in found.items if isinstance(piece, ResourceSlice)}


async def test_nodes_publish_their_devices_and_a_class_for_them(world: AgentWorld) -> None:
    await world.play(nodes=2, node_devices=("8xh100.example.com", "2xnic.example.com:nic"))
    await eventually("4 slices", lambda: _count(world), 4)
    for name, piece in (await slices(world)).items():
        assert name == f"{piece.spec.node_name}-{piece.spec.driver}-0"
        node = await world.client.get("Node", piece.spec.node_name)
        assert piece.metadata.owner_references[0].uid == node.metadata.uid
    await eventually("the class", lambda: _has_class(world, "h100.example.com"))
    await eventually("the class", lambda: _has_class(world, "nic.example.com"))


async def test_devices_leave_with_their_node_and_come_again_with_it(world: AgentWorld) -> None:
    await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("1 slices", lambda: _count(world), 1)
    first = (await slices(world))["node-0000-a.example-0"].metadata.uid
    node = await world.client.get("Node", "node-0000")
    await world.client.delete("Node", "node-0000")
    await eventually("0 slices", lambda: _count(world), 0)
    again = Node()
    again.metadata.name = "node-0000"
    again.metadata.annotations.update(dict(node.metadata.annotations))
    await world.client.create(again)
    await eventually("1 slices", lambda: _count(world), 1)
    assert (await slices(world))["node-0000-a.example-0"].metadata.uid != first


async def test_another_annotation_replaces_the_devices(world: AgentWorld) -> None:
    await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("1 slices", lambda: _count(world), 1)

    async def annotate(value: str | None) -> None:
        patch = {"metadata": {"annotations": {DEVICES_ANNOTATION: value}}}
        await world.client.patch("Node", "node-0000", patch)

    await annotate("3xa.example,1xb.example")
    await eventually("2 slices", lambda: _count(world), 2)
    await eventually("its devices", lambda: _has_devices(world, "node-0000-a.example-0", 3))
    await annotate("nonsense")  # logged, and left alone
    await annotate(None)
    await eventually("0 slices", lambda: _count(world), 0)


async def test_a_slice_that_is_deleted_is_published_again(world: AgentWorld) -> None:
    await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("1 slices", lambda: _count(world), 1)
    await world.client.delete("ResourceSlice", "node-0000-a.example-0")
    await eventually("1 slices", lambda: _count(world), 1)


async def test_slices_of_others_are_left_alone(world: AgentWorld) -> None:
    spec = {"driver": "b.example", "nodeName": "node-0000", "devices": [{"name": "x"}]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    foreign = from_manifest(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "node-0000-a.example-0"},
            "spec": {**spec, "pool": pool},
        }
    ).message
    await world.client.create(foreign)
    await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("the class", lambda: _has_class(world, "a.example"))
    found = await slices(world)
    assert [piece.spec.driver for piece in found.values()] == ["b.example"]
    await world.client.delete("Node", "node-0000")
    assert len(await slices(world)) == 1


async def test_an_agent_that_starts_again_keeps_the_slices(world: AgentWorld) -> None:
    agent = await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("1 slices", lambda: _count(world), 1)
    before = await slices(world)
    await agent.stop()
    await world.play(nodes=1, node_devices=("2xa.example",))
    assert await slices(world) == before


async def test_devices_and_classes_that_were_refused_are_created_later(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "_RETRY_ERROR", 0.1)
    create_many, refused = world.client.create_many, list[AnyObject]()

    async def refuse_once(items: Sequence[AnyObject]) -> Sequence[BatchResult]:
        if refused or not any(isinstance(item, DeviceClass) for item in items):
            return await create_many(items)
        refused.extend(items)
        return [as_result(Forbidden("not yet"))] * len(items)

    monkeypatch.setattr(world.client, "create_many", refuse_once)
    await world.play(nodes=1, node_devices=("2xa.example",))
    await eventually("the class", lambda: _has_class(world, "a.example"))
    await eventually("1 slices", lambda: _count(world), 1)
    assert {type(item) for item in refused} == {DeviceClass, ResourceSlice}


async def _count(world: AgentWorld) -> int:
    return len(await slices(world))


async def _has_devices(world: AgentWorld, name: str, count: int) -> bool:
    piece = (await slices(world)).get(name)
    return piece is not None and len(piece.spec.devices) == count


async def _has_class(world: AgentWorld, name: str) -> bool:
    classes = await world.client.list("DeviceClass")
    return name in [of.metadata.name for of in classes.items]
