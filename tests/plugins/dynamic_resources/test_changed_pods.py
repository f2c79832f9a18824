"""Preemption for devices, which the argument ``preemptForDevices`` allows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.device_cluster import Cluster, a_cluster

pytestmark = pytest.mark.looptime


def a_world(*, preempts: bool = True) -> Cluster:
    args = {"preemptForDevices": True} if preempts else {}
    return Cluster([{"pluginConfig": [{"name": "DynamicResources", "args": args}]}])


def give_back(world: Cluster, name: str) -> None:
    """Takes a claim's devices back, as the controller does for users that are gone."""
    claim = world.stored_claim(name)
    claim.ClearField("status")
    world.cluster.update(claim)


def names(world: Cluster) -> list[str]:
    return sorted(pod.metadata.name for pod in world.cluster.objects("Pod"))


async def holding(world: Cluster, *pods: tuple[str, int], **spec: Any) -> None:
    """Pods get a device each: name and priority."""
    for name, priority in pods:
        world.claim(f"{name}-claim")
        world.user(name, f"{name}-claim", priority=priority, **spec)
        await asyncio.sleep(5)
        assert world.nodes_of(name) != [""]


async def test_the_pod_that_holds_the_device_goes_and_the_preemptor_gets_it_when_it_is_free() -> (
    None
):
    world = await a_cluster(a_world(), n1=["d0"])
    world.node("n0", cpu="16")
    async with world.running():
        world.pod("other", on="n1")
        await holding(world, ("low", 0))
        world.claim("mine")
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
        assert names(world) == ["high", "other"], "who holds no device stays"
        assert world.nodes_of("high") == [""], "its claim keeps the device until it is released"
        assert world.devices_of("mine") == []
        assert world.stored("high").status.nominated_node_name == "n1"
        give_back(world, "low-claim")
        await asyncio.sleep(15)
    assert world.nodes_of("high") == ["n1"]
    assert world.devices_of("mine") == ["n1/d0"]
    world.check()


async def test_by_default_no_pod_is_evicted_for_a_device() -> None:
    world = await a_cluster(a_world(preempts=False), n1=["d0"])
    async with world.running():
        await holding(world, ("low", 0))
        world.claim("mine")
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
    assert names(world) == ["high", "low"]
    assert "Preemption is not helpful for scheduling" in world.scheduled("high").message


async def test_no_pod_is_evicted_where_that_would_not_free_enough_devices() -> None:
    world = await a_cluster(a_world(), n1=["d0", "d1"])
    async with world.running():
        await holding(world, ("low", 0), ("peer", 10))
        world.claim("mine", 2)
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
    assert names(world) == ["high", "low", "peer"]
    assert "cannot allocate all claims" in world.scheduled("high").message


async def test_a_device_of_a_claim_that_others_use_too_is_not_free_when_one_of_them_goes() -> None:
    world = await a_cluster(a_world(), n1=["d0"])
    async with world.running():
        world.claim("shared")
        world.user("low", "shared", priority=0)
        world.user("peer", "shared", priority=10)
        world.claim("mine")
        await asyncio.sleep(5)
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
    assert names(world) == ["high", "low", "peer"]


async def test_the_node_is_chosen_by_the_six_criteria_of_preemption() -> None:
    world = await a_cluster(a_world(), n1=["d0"], n2=["d0"])
    async with world.running():
        await holding(world, ("first", 5), ("second", 1))
        world.claim("mine")
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
    assert names(world) == ["first", "high"], "the victim of lower priority"


async def test_only_the_least_important_holder_goes_if_one_device_is_enough() -> None:
    world = await a_cluster(a_world(), n1=["d0", "d1", "d2"])
    async with world.running():
        await holding(world, ("a", 5), ("b", 1), ("c", 3))
        world.claim("mine")
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
    assert names(world) == ["a", "c", "high"]


async def test_nothing_more_is_evicted_while_a_device_is_being_given_back() -> None:
    world = await a_cluster(a_world(), n1=["d0"], n2=["d0"])
    async with world.running():
        await holding(world, ("first", 5), ("second", 1))
        world.claim("mine")
        world.user("high", "mine", priority=10)
        for number in range(5):
            await asyncio.sleep(5)
            world.node(f"empty-{number}")  # Lets the pod be tried again.
        assert names(world) == ["first", "high"]
        assert "waiting for devices of pods that are gone" in world.scheduled("high").message
        give_back(world, "second-claim")
        await asyncio.sleep(15)
        assert world.nodes_of("high") != [""]


async def test_a_nominated_pod_whose_class_is_gone_fails_no_attempt_of_another() -> None:
    world = await a_cluster(a_world(), n1=["d0", "d1"])
    world.make("DeviceClass", "special", {})
    async with world.running():
        await holding(world, ("low", 0), ("peer", 20))
        exactly = {"deviceClassName": "special", "allocationMode": "ExactCount", "count": 1}
        requests = [{"name": "r", "exactly": exactly}]
        world.make("ResourceClaim", "mine", {"devices": {"requests": requests}})
        world.user("high", "mine", priority=10)
        await asyncio.sleep(5)
        assert world.stored("high").status.nominated_node_name == "n1"
        world.cluster.delete("DeviceClass", "special")
        world.claim("of-middle")
        world.user("middle", "of-middle", priority=5)
        await asyncio.sleep(5)
    assert "cannot allocate all claims" in world.scheduled("middle").message


async def test_a_pod_of_lower_priority_does_not_take_the_device_that_was_freed_for_another() -> (
    None
):
    world = await a_cluster(a_world(), n1=["d0"])
    async with world.running():
        await holding(world, ("low", 0))
        for name, priority in (("high", 10), ("middle", 5)):
            world.claim(f"of-{name}")
            world.user(name, f"of-{name}", priority=priority)
            if name == "high":
                await asyncio.sleep(0.3)
                assert names(world) == ["high"]
                give_back(world, "low-claim")  # It is in backoff now, and the other is not.
        await asyncio.sleep(15)
    assert world.nodes_of("high", "middle") == ["n1", ""]
    assert world.devices_of("of-high") == ["n1/d0"]
