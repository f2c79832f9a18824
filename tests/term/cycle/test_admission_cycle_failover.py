"""Admission to queues over terms: what the next leader finds, completes and takes back."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import ClusterQueue, Node
from podsched.api.queue_labels import BACKFILL, MAX_EXEC_TIME
from podsched.term.cycle.scheduling_loop import SchedulingLoop
from support.dying_binder import DyingBinder
from support.queues import (
    big_node,
    bound,
    cluster_queue,
    condition,
    flavor,
    gang,
    job,
    one_node,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def partly_bound(count: int, **quotas: int) -> TermWorld:
    """A cluster on which a leader died while it bound a gang of four in the queue ``team``."""
    world = one_node()
    cluster_queue(world, "team", quotas or {"cpu": 8}, strategy="StrictFIFO")
    binder = DyingBinder(world)
    binder.dies_after = count
    async with world.running():
        gang(world, "g", "team", 4, cpu=1)
        await asyncio.sleep(1)
    assert len(bound(world)) == count
    return world


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_the_next_leader_completes_a_partly_bound_gang_of_a_queue(count: int) -> None:
    first = await partly_bound(count)
    job(first, "important", "team", 100, cpu=5)
    async with TermWorld(cluster=first.cluster).running(seconds=1) as world:
        assert bound(world) == ["g-0", "g-1", "g-2", "g-3"]
        assert condition(world, "g")[:2] == ("True", "QuotaReserved")
        assert usage(world, "team") == {"default/cpu": 4000}
        world.check()


async def test_the_next_leader_takes_a_gang_back_for_which_quota_has_become_short() -> None:
    first = await partly_bound(2)
    found = first.cluster.object("ClusterQueue", "team")
    assert isinstance(found, ClusterQueue)
    found.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "3"
    first.cluster.update(found)
    async with TermWorld(cluster=first.cluster).running(seconds=1) as world:
        assert bound(world) == []
        assert usage(world, "team") == {}
        job(world, "small", "team", 100, cpu=3)
        await asyncio.sleep(1)
        assert bound(world) == ["small"]
        world.check()


@pytest.mark.parametrize("count", [0, 1])
async def test_the_next_leader_completes_no_gang_at_the_cost_of_a_promised_start(
    count: int,
) -> None:
    """The node that the last leader chose is unschedulable; ``wide`` is promised the other."""
    first = TermWorld()
    for name in ("n1", "n2"):
        big_node(first, name)
    flavor(first)
    cluster_queue(first, "team", {"cpu": 16}, annotations={BACKFILL: "EASY"})
    binder = DyingBinder(first)
    async with first.running():
        job(first, "short", "team", cpu=6, labels={MAX_EXEC_TIME: "50"})
        await asyncio.sleep(1)
        job(first, "endless", "team", cpu=4)
        await asyncio.sleep(1)
        job(first, "wide", "team", cpu=8, labels={MAX_EXEC_TIME: "50"})
        await asyncio.sleep(1)
        binder.dies_after = count
        gang(first, "g", "team", 2, cpu=1)
        await asyncio.sleep(1)
    [taken] = first.nodes_of("endless")
    node = first.cluster.object("Node", taken)
    assert isinstance(node, Node)
    node.spec.unschedulable = True
    first.cluster.update(node)
    async with TermWorld(cluster=first.cluster).running(seconds=30) as world:
        assert bound(world) == ["endless", "short"]
        await asyncio.sleep(30)
        assert "wide" in bound(world)
        world.check()


async def test_the_next_leader_finishes_the_eviction_of_a_gang() -> None:
    """The first of its pods leaves enough room for ``high``."""
    first = TermWorld()
    big_node(first, "n1")
    flavor(first)
    cluster_queue(first, "team", {"cpu": 8}, within="LowerPriority")
    binder = DyingBinder(first)
    async with first.running():
        gang(first, "low", "team", 2, cpu=4)
        await asyncio.sleep(5)
        binder.dies_after_evictions = 1
        job(first, "high", "team", 100, cpu=4)
        await asyncio.sleep(1)
    assert bound(first) == ["low-1"]
    async with TermWorld(cluster=first.cluster).running(seconds=5) as world:
        assert bound(world) == ["high"]
        assert condition(world, "low", "Evicted")[:2] == ("True", "Preempted")
        world.check()


async def test_a_pod_starts_that_a_standby_gated_for_a_queue_that_is_gone() -> None:
    world = one_node({"cpu": 8})
    standby = asyncio.create_task(world.informer.run(world.handle))
    await world.informer.synced.wait()
    job(world, "p", "team", cpu=1)
    await asyncio.sleep(1)
    world.cluster.delete("LocalQueue", "default/team")
    world.cluster.delete("ClusterQueue", "team")
    await asyncio.sleep(1)
    standby.cancel()
    await asyncio.gather(standby, return_exceptions=True)
    world.term = SchedulingLoop(world.parts())
    async with world.running(seconds=1):
        assert bound(world) == ["p"]


async def test_a_gang_that_is_taken_back_is_not_admitted_any_more() -> None:
    """Its node goes while it is bound, and too few members are left to try it again."""
    world = TermWorld()
    for name in ("n1", "n2"):
        big_node(world, name)
    flavor(world)
    cluster_queue(world, "team", {"gpu": 16})
    binder = DyingBinder(world)
    binder.before = lambda: world.cluster.delete("Node", "n2") if not binder.calls else None
    async with world.running():
        gang(world, "g", "team", 4, gpu=4)
        await asyncio.sleep(2)
        assert bound(world) == []
        assert len(world.cluster.objects("Pod")) == 2
        assert condition(world, "g")[:2] == ("False", "PendingEvaluation")
        assert condition(world, "g", "Admitted")[0] == "False"


async def test_a_gang_of_a_queue_whose_binding_failed_once_is_completed() -> None:
    world = one_node({"cpu": 8})
    binder = DyingBinder(world)
    binder.refused = {"g-1"}
    binder.before = lambda: binder.refused.clear() if binder.calls else None
    async with world.running():
        gang(world, "g", "team", 3, cpu=1)
        await asyncio.sleep(2)
        assert bound(world) == ["g-0", "g-1", "g-2"]
        assert usage(world, "team") == {"default/cpu": 3000}
        world.check()
