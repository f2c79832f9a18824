"""What drivers and users can do wrong: no pod gets a device in vain, and other pods go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.device_cluster import Cluster, a_cluster

pytestmark = pytest.mark.looptime

BAD_TERM = {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}


def publish(world: Cluster, name: str, **spec: Any) -> None:
    """Make a slice of pool n1, which lacks nothing if ``spec`` takes nothing away."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    whole = {"driver": "gpu.example.com", "nodeName": "n1", "devices": [{"name": "d0"}], **spec}
    world.make("ResourceSlice", name, {k: v for k, v in {**whole, "pool": pool}.items() if v})


async def waiting_text(world: Cluster) -> str:
    """Return why the pod with a claim waits, once a pod without claims is bound."""
    world.claim("c")
    world.user("p", "c")
    world.pod("other")
    await world.run_for(5)
    assert world.nodes_of("p", "other") == ["", "n1"]
    assert world.devices_of("c") == []
    world.check()
    return str(world.scheduled("p").message)


async def test_a_pool_with_a_device_twice_is_invalid() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    publish(world, "s1", pool={"resourceSliceCount": 2})
    publish(world, "s2", pool={"resourceSliceCount": 2})
    assert "invalid resource pools were encountered" in await waiting_text(world)


async def test_a_pool_that_is_half_published_offers_nothing() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    publish(world, "s1", pool={"resourceSliceCount": 2})
    assert "cannot allocate all claims" in await waiting_text(world)


async def test_a_slice_for_nodes_that_cannot_be_matched_offers_nothing() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    publish(world, "s1", nodeName="", nodeSelector={"nodeSelectorTerms": [BAD_TERM]})
    assert "cannot allocate all claims" in await waiting_text(world)


async def test_pools_of_one_name_of_two_drivers_are_two_pools() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    for driver in ("a.example.com", "b.example.com"):
        publish(world, driver, driver=driver)
    for name in "ab":
        world.claim(name)
        world.user(f"p{name}", name)
    await world.run_for(5)
    results = [
        of for name in "ab" for of in world.stored_claim(name).status.allocation.devices.results
    ]
    assert [of.driver for of in results] == ["a.example.com", "b.example.com"]


async def test_a_device_whose_slice_is_withdrawn_stays_with_its_claim() -> None:
    world = await a_cluster(n1=["d0"])
    for name in "ab":
        world.claim(name)
    world.user("pa", "a")
    async with world.running(seconds=1):
        world.cluster.delete("ResourceSlice", "slice-n1")
        world.user("again", "a")
        await asyncio.sleep(1)
        assert world.nodes_of("pa", "again") == ["n1", "n1"]
        publish(world, "slice-n1")
        world.user("pb", "b")
        await asyncio.sleep(15)
    assert world.nodes_of("pb") == [""]
    assert world.devices_of("a") == ["n1/d0"]
    assert world.devices_of("b") == []


async def test_a_class_that_is_deleted_in_use_takes_nothing_from_its_claims() -> None:
    world = await a_cluster(n1=["d0", "d1"])
    for name in "ab":
        world.claim(name)
    world.user("pa", "a")
    async with world.running(seconds=1):
        world.cluster.delete("DeviceClass", "gpu")
        world.user("again", "a")
        world.user("pb", "b")
        await asyncio.sleep(5)
    assert world.nodes_of("pa", "again", "pb") == ["n1", "n1", ""]
    assert world.devices_of("a") == ["n1/d0"]
    assert "device class gpu does not exist" in world.scheduled("pb").message
