"""Pods get devices for extended resources that a DeviceClass provides, in a term of leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podsched.framework.plugin import PreBindPlan
from podsched.framework.status import SUCCESS, error
from podsched.serve.client.errors import Unavailable
from podsched.v1 import objects_pb2 as v1
from support.device_cluster import Cluster, a_cluster

pytestmark = pytest.mark.looptime

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


def containers(*amounts: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": f"c{n}", "image": "x", "resources": {"requests": {"cpu": "1", **amount}}}
        for n, amount in enumerate(amounts)
    ]


def ask(world: Cluster, name: str, amount: str = "1", resource: str = GPU, **spec: Any) -> None:
    world.pod(name, **{"containers": containers({resource: amount}), **spec})


def provide(world: Cluster, resource: str = GPU) -> None:
    """Let the class provide an extended resource."""
    found = world.cluster.object("DeviceClass", "gpu")
    assert isinstance(found, v1.DeviceClass)
    found.spec.extended_resource_name = resource
    world.cluster.update(found)


async def providing(**nodes: list[str]) -> Cluster:
    world = await a_cluster(**nodes)
    provide(world)
    return world


def claims(world: Cluster) -> list[v1.ResourceClaim]:
    found = world.cluster.objects("ResourceClaim")
    return [claim for claim in found if isinstance(claim, v1.ResourceClaim)]


def given(world: Cluster) -> list[str]:
    """All devices that are allocated."""
    return sorted(
        f"{result.pool}/{result.device}"
        for claim in claims(world)
        for result in claim.status.allocation.devices.results
    )


async def test_a_pod_gets_a_claim_of_its_own_with_a_device() -> None:
    world = await providing(n1=["d0", "d1"])
    ask(world, "p")
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    (claim,) = claims(world)
    meta, status = claim.metadata, claim.status
    assert meta.name.startswith("p-extended-resources-")
    assert dict(meta.annotations) == {ANNOTATION: "true"}
    assert [(of.kind, of.uid, of.controller) for of in meta.owner_references] == [
        ("Pod", "uid-p", True)
    ]
    assert list(meta.finalizers) == ["resource.kubernetes.io/delete-protection"]
    assert [(of.request, of.device) for of in status.allocation.devices.results] == [
        ("container-0-request-1", "d0")
    ]
    assert status.allocation.HasField("allocation_timestamp")
    assert [(of.resource, of.name, of.uid) for of in status.reserved_for] == [
        ("pods", "p", "uid-p")
    ]
    told = world.stored("p").status.extended_resource_claim_status
    assert told.resource_claim_name == meta.name
    assert [
        (of.container_name, of.resource_name, of.request_name) for of in told.request_mappings
    ] == [("c0", GPU, "container-0-request-1")]
    assert world.events("p", "BindingConditionsPending") == []
    world.check()


async def test_the_class_can_be_asked_for_by_its_own_name() -> None:
    world = await a_cluster(n1=["d0"])
    ask(world, "p", resource=IMPLICIT)
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    assert given(world) == ["n1/d0"]


async def test_a_node_with_a_device_plugin_gives_its_own_devices() -> None:
    world = await providing(n1=[])
    node = world.cluster.object("Node", "n1")
    assert isinstance(node, v1.Node)
    node.status.allocatable[GPU] = "2"
    world.cluster.update(node)
    for name in "abc":
        ask(world, name)
    await world.run_for(5)
    assert sorted(world.nodes_of("a", "b", "c")) == ["", "n1", "n1"]
    assert claims(world) == []
    waiting = next(name for name in "abc" if not world.nodes_of(name)[0])
    assert f"Insufficient {GPU}" in world.scheduled(waiting).message


async def test_pods_use_device_plugins_and_claims_on_different_nodes() -> None:
    world = await providing(n1=["d0"])
    world.node("n2", cpu="16")
    node = world.cluster.object("Node", "n2")
    assert isinstance(node, v1.Node)
    node.status.allocatable[GPU] = "1"
    world.cluster.update(node)
    for name in "abc":
        ask(world, name)
    await world.run_for(5)
    assert sorted(world.nodes_of("a", "b", "c")) == ["", "n1", "n2"]
    assert given(world) == ["n1/d0"]


async def test_a_device_plugin_that_comes_later_serves_the_pods_that_come_later() -> None:
    world = await providing(n1=["d0"])
    async with world.running():
        ask(world, "a")
        await asyncio.sleep(1)
        ask(world, "b")
        await asyncio.sleep(1)
        assert world.nodes_of("a", "b") == ["n1", ""]
        node = world.cluster.object("Node", "n1")
        assert isinstance(node, v1.Node)
        node.status.allocatable[GPU] = "2"  # The first pod counts there as well, as in Kubernetes.
        world.cluster.update(node)
        await asyncio.sleep(15)
    assert world.nodes_of("b") == ["n1"]
    assert given(world) == ["n1/d0"]
    assert len(claims(world)) == 1


async def test_no_device_is_given_twice_and_what_lacks_is_told() -> None:
    world = await providing(n1=["d0", "d1"], n2=["d0"])
    for number in range(5):
        ask(world, f"p{number}")
    await world.run_for(5)
    assert given(world) == ["n1/d0", "n1/d1", "n2/d0"]
    waiting = [f"p{number}" for number in range(5) if not world.nodes_of(f"p{number}")[0]]
    assert len(waiting) == 2
    for name in waiting:
        assert "2 cannot allocate all claims" in world.scheduled(name).message
    world.check()


async def test_a_pod_waits_for_a_class_that_provides_the_resource() -> None:
    world = await a_cluster(n1=["d0"])
    ask(world, "p")
    async with world.running(seconds=1):
        assert f"Insufficient {GPU}" in world.scheduled("p").message
        provide(world)
        await asyncio.sleep(15)
    assert world.nodes_of("p") == ["n1"]
    assert given(world) == ["n1/d0"]


async def test_a_class_that_goes_leaves_its_resource_to_another() -> None:
    world = await providing(n1=["d0"])
    nothing = [{"cel": {"expression": "false"}}]
    world.make("DeviceClass", "empty", {"extendedResourceName": GPU, "selectors": nothing})
    ask(world, "p")
    async with world.running(seconds=1):
        assert world.nodes_of("p") == [""]
        world.cluster.delete("DeviceClass", "empty")
        await asyncio.sleep(15)
    assert world.nodes_of("p") == ["n1"]


async def test_devices_of_a_pod_that_is_gone_go_to_a_waiting_pod() -> None:
    world = await providing(n1=["d0"])
    ask(world, "a")
    async with world.running(seconds=1):
        ask(world, "b")
        await asyncio.sleep(1)
        assert world.nodes_of("a", "b") == ["n1", ""]
        world.cluster.delete("Pod", "default/a")
        (claim,) = claims(world)
        world.cluster.delete("ResourceClaim", f"default/{claim.metadata.name}")
        await asyncio.sleep(15)
    assert world.nodes_of("b") == ["n1"]


async def test_a_pod_with_a_claim_and_an_extended_resource_gets_both() -> None:
    world = await providing(n1=["d0"], n2=["d0", "d1"])
    world.claim("c")
    world.user("p", "c", containers=containers({GPU: "1"}))
    await world.run_for(5)
    assert world.nodes_of("p") == ["n2"]
    assert given(world) == ["n2/d0", "n2/d1"]
    assert world.devices_of("c") == ["n2/d0"]


async def test_a_pod_with_a_claim_needs_no_other_on_a_node_with_the_resource() -> None:
    world = await providing(n1=["d0"])
    node = world.cluster.object("Node", "n1")
    assert isinstance(node, v1.Node)
    node.status.allocatable[GPU] = "1"
    world.cluster.update(node)
    world.claim("c")
    world.user("p", "c", containers=containers({GPU: "1"}))
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    assert [claim.metadata.name for claim in claims(world)] == ["c"]


async def test_a_claim_of_an_earlier_term_is_replaced() -> None:
    """The leader ended after it had written the claim and before it bound the pod."""
    world = await providing(n1=["d0"])
    ask(world, "p")
    world.make(
        "ResourceClaim",
        "p-extended-resources-abcde",
        {"devices": {"requests": []}},
        metadata={
            "annotations": {ANNOTATION: "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
            ],
        },
        status={
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
                    ]
                }
            }
        },
    )
    await world.run_for(15)
    assert world.nodes_of("p") == ["n1"]
    (claim,) = claims(world)
    assert claim.metadata.name != "p-extended-resources-abcde"
    assert given(world) == ["n1/d0"]


async def test_a_claim_of_an_earlier_term_is_replaced_although_other_devices_are_free() -> None:
    world = await providing(n1=["d0", "d1"])
    ask(world, "p")
    world.make(
        "ResourceClaim",
        "p-extended-resources-abcde",
        {"devices": {"requests": []}},
        metadata={
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
            ],
        },
    )
    async with world.running(seconds=0.5):
        assert any(
            "cannot schedule extended resource claim" in text
            for text in world.events("p", "FailedScheduling")
        )
        await asyncio.sleep(15)
    assert world.nodes_of("p") == ["n1"]
    (claim,) = claims(world)
    assert claim.metadata.name != "p-extended-resources-abcde"


async def test_a_pod_that_is_not_bound_deletes_its_claim() -> None:
    world = await providing(n1=["d0"])
    answers = [error("no"), error("no"), SUCCESS]
    world.script.on_pre_bind = lambda pod: PreBindPlan(answers.pop(0))
    ask(world, "p")
    async with world.running(seconds=0.3):
        await asyncio.sleep(120)
    assert answers == []
    assert world.nodes_of("p") == ["n1"]
    assert len(claims(world)) == 1
    assert given(world) == ["n1/d0"]


async def test_a_pod_that_is_not_reserved_makes_no_claim() -> None:
    world = await providing(n1=["d0"])
    answers = [error("not now")]
    world.script.on_reserve = lambda pod: answers.pop() if answers else SUCCESS
    ask(world, "p")
    ask(world, "q")
    async with world.running(seconds=0.1):
        assert len(claims(world)) <= 1
        await asyncio.sleep(60)
    assert sorted(world.nodes_of("p", "q")) == ["", "n1"]
    assert given(world) == ["n1/d0"]


async def test_a_claim_whose_creation_had_no_answer_is_made_again() -> None:
    world = await providing(n1=["d0"])
    create_many = world.cluster.create_many
    lost: list[Any] = []

    async def lose(items: Sequence[Any], *, fence: Any) -> Any:
        if lost:
            return await create_many(items, fence=fence)
        lost.extend(items)
        raise Unavailable("gone")

    world.cluster.create_many = lose  # type: ignore[method-assign]
    ask(world, "p")
    async with world.running(seconds=0.5):
        assert world.nodes_of("p") == [""]
        await create_many(lost, fence=world.fence)  # it arrives late
        await asyncio.sleep(60)
    assert world.nodes_of("p") == ["n1"]
    assert given(world) == ["n1/d0"]
    assert len(claims(world)) == 1


async def test_an_allocation_without_an_answer_keeps_its_device_until_the_claim_is_deleted() -> (
    None
):
    world = await providing(n1=["d0"])
    patch_many = world.cluster.patch_many
    lost: list[Any] = []

    async def lose(patches: Sequence[Any], *, fence: Any) -> Any:
        if lost or not any(b"allocation" in patch.merge_patch for patch in patches):
            return await patch_many(patches, fence=fence)
        lost.extend(patches)
        raise Unavailable("gone")

    world.cluster.patch_many = lose  # type: ignore[method-assign]
    delete_many, now = world.cluster.delete_many, asyncio.get_running_loop().time

    async def delete_late(deletions: Sequence[Any], *, fence: Any) -> Any:
        await asyncio.sleep(max(0.0, 20 - now()))
        return await delete_many(deletions, fence=fence)

    world.cluster.delete_many = delete_late  # type: ignore[method-assign]
    ask(world, "p")
    async with world.running(seconds=1):
        ask(world, "other", priority=5)
        await asyncio.sleep(2)
        assert world.nodes_of("p", "other") == ["", ""]
        await patch_many(lost, fence=world.fence)  # it arrives late
        await asyncio.sleep(1)
        assert given(world) == ["n1/d0"]
        await asyncio.sleep(60)
    assert sorted(world.nodes_of("p", "other")) == ["", "n1"]
    assert given(world) == ["n1/d0"]
