"""Units of queues that reach their limit in time are ended by the leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.objects import ClusterQueue, PodGroup
from podsched.api.queue_labels import DEFAULT_EXEC_TIME, LONGEST_EXEC_TIME, MAX_EXEC_TIME
from support.queues import bound, condition, gang, job, one_node
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


def a_world(**annotations: str) -> TermWorld:
    world = one_node({"cpu": 8})
    queue = world.cluster.object("ClusterQueue", "team")
    assert isinstance(queue, ClusterQueue)
    queue.metadata.annotations.update(annotations)
    world.cluster.update(queue)
    return world


def for_seconds(seconds: int) -> dict[str, str]:
    return {MAX_EXEC_TIME: str(seconds)}


async def test_a_gang_that_runs_for_longer_than_its_limit_is_deactivated() -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 2, cpu=1, labels=for_seconds(60))
        await asyncio.sleep(58)
        assert bound(world) == ["g-0", "g-1"]
        await asyncio.sleep(5)
        assert bound(world) == []
        text = "The workload is deactivated due to exceeding the maximum execution time"
        reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
        assert condition(world, "g", "Evicted") == ("True", reason, text)
        assert world.events("g", f"EvictedDueTo{reason}") == [text]
        assert condition(world, "g", "Requeued")[:2] == ("False", "Deactivated")
        said = world.events("g", "MaximumExecutionTimeExceeded")
        assert said == ["The maximum execution time (60s) exceeded"]


async def test_the_next_leader_knows_why_a_gang_is_being_deactivated() -> None:
    async with a_world().running() as world:
        spec = {"terminationGracePeriodSeconds": 30}
        gang(world, "g", "team", 1, cpu=1, labels=for_seconds(10), spec=spec)
        await asyncio.sleep(12)
    async with TermWorld(cluster=world.cluster).running(seconds=2) as after:
        reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
        assert condition(after, "g", "Evicted")[:2] == ("True", reason)
        assert condition(after, "g", "Requeued")[:2] == ("False", "Deactivated")


async def test_a_gang_is_evicted_only_once_its_annotation_says_that_it_is_deactivated() -> None:
    world = a_world()
    patch_many, api_is_back = world.cluster.patch_many, asyncio.Event()

    async def slow(requests: Any, *, fence: Any) -> Any:
        await api_is_back.wait()
        return await patch_many(requests, fence=fence)

    async with world.running():
        gang(world, "g", "team", 1, cpu=1, labels=for_seconds(10))
        await asyncio.sleep(5)
        world.cluster.patch_many = slow  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert bound(world) == ["g-0"]
        api_is_back.set()
        await asyncio.sleep(1)
        assert bound(world) == []
        job(world, "g-1", "team", cpu=1, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(5)
        assert bound(world) == []


async def test_a_deactivated_gang_runs_again_once_its_annotation_is_removed() -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 1, cpu=1, labels=for_seconds(10))
        await asyncio.sleep(12)
    async with TermWorld(cluster=world.cluster).running() as after:
        spec = {"schedulingGroup": {"podGroupName": "g"}}
        job(after, "again", "team", cpu=1, spec=spec)
        await asyncio.sleep(5)
        assert bound(after) == []
        assert condition(after, "g")[1:] == (
            "Suspended",
            "The workload is deactivated: it ran for longer than its limit. Remove the annotation "
            "podsched.io/deactivated of its PodGroup to try again",
        )
        group = after.cluster.object("PodGroup", "default/g")
        assert isinstance(group, PodGroup)
        del group.metadata.annotations["podsched.io/deactivated"]
        after.cluster.update(group)
        await asyncio.sleep(1)
        assert bound(after) == ["again"]
        assert condition(after, "g", "Requeued")[:2] == ("True", "Reactivated")


async def test_the_limit_counts_from_the_start_also_for_the_next_leader() -> None:
    async with a_world().running() as world:
        job(world, "alone", "team", cpu=1, labels=for_seconds(60))
        await asyncio.sleep(40)
    async with TermWorld(cluster=world.cluster).running(seconds=15) as after:
        assert bound(after) == ["alone"]
        await asyncio.sleep(10)
        assert bound(after) == []
        reason = "EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded"
        assert len(after.events("alone", reason)) == 1


async def test_a_gang_that_starts_again_has_its_whole_limit_once_more() -> None:
    """Its new pod starts at once, so the condition ``Admitted`` may be True all the time."""
    async with a_world().running() as world:
        gang(world, "g", "team", 1, cpu=1, labels=for_seconds(60))
        await asyncio.sleep(40)
        world.cluster.delete("Pod", "default/g-0")
        spec = {"schedulingGroup": {"podGroupName": "g"}}
        job(world, "again", "team", cpu=1, spec=spec, labels=for_seconds(60))
        await asyncio.sleep(50)
        assert bound(world) == ["again"]
    async with TermWorld(cluster=world.cluster).running(seconds=5) as after:
        assert bound(after) == ["again"]
        await asyncio.sleep(10)
        assert bound(after) == []


async def test_pods_that_outlive_their_deadline_are_evicted_and_not_deactivated() -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 1, cpu=1, spec={"activeDeadlineSeconds": 30})
        await asyncio.sleep(29)
        assert bound(world) == ["g-0"]
        await asyncio.sleep(3)
        assert bound(world) == []
        assert condition(world, "g", "Evicted")[:2] == ("True", "DeadlineExceeded")
        job(world, "again", "team", cpu=1, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(1)
        assert bound(world) == ["again"]


async def test_a_unit_that_may_be_admitted_again_at_once_is_not_said_to_wait() -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 1, cpu=1, spec={"activeDeadlineSeconds": 30})
        await asyncio.sleep(32)
        group = world.cluster.object("PodGroup", "default/g")
        assert isinstance(group, PodGroup)
        assert {one.type: one.status for one in group.status.conditions} == {
            "PodGroupScheduled": "True",
            "QuotaReserved": "False",
            "Admitted": "False",
            "Evicted": "True",
        }


async def test_a_queue_may_have_a_default_and_a_longest_execution_time() -> None:
    async with a_world(**{DEFAULT_EXEC_TIME: "20", LONGEST_EXEC_TIME: "50"}).running() as world:
        job(world, "silent", "team", cpu=1)
        job(world, "short", "team", cpu=1, labels=for_seconds(35))
        job(world, "long", "team", cpu=1, labels=for_seconds(900))
        await asyncio.sleep(19)
        assert bound(world) == ["long", "short", "silent"]
        await asyncio.sleep(5)
        assert bound(world) == ["long", "short"]
        await asyncio.sleep(15)
        assert bound(world) == ["long"]
        await asyncio.sleep(15)
        assert bound(world) == []
