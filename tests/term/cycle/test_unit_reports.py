"""Why the units of queues wait, as it is reported."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.api.queue_labels import QUEUE_GROUP_NAME
from podsched.queues.assignment import Waiting
from podsched.term.cycle.unit_reports import quota_message
from support.queues import condition, gang_and_wait, job, job_and_wait, message, one_node


@pytest.mark.looptime
async def test_a_unit_that_is_made_again_is_told_why_it_waits() -> None:
    async with one_node({"cpu": 2}).running() as world:
        job(world, "runs", "team", cpu=2)
        await job_and_wait(world, "waits", "team", cpu=1)
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        told, group_told = message(world, "waits"), condition(world, "g")
        again = world.stored("waits")
        again.metadata.uid = "another"
        again.status.Clear()
        world.cluster.delete("PodGroup", "default/g")
        for name in ("g-0", "waits"):
            await world.delete_and_wait(name)
        world.cluster.create(again)
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        assert message(world, "waits") == told
        assert condition(world, "g") == group_told


@pytest.mark.looptime
async def test_each_member_that_comes_later_is_told_that_its_queue_is_stopped() -> None:
    async with one_node({"cpu": 8}, stop="Hold").running() as world:
        for name in ("first", "later"):
            await job_and_wait(world, name, "team", cpu=1, labels={QUEUE_GROUP_NAME: "g"})
        stopped = "ClusterQueue team is stopped"
        assert [message(world, name) for name in ("first", "later")] == [stopped] * 2
        assert world.events("first", "FailedScheduling") == [stopped]


@pytest.mark.looptime
async def test_a_gang_that_has_lost_its_pods_is_told_why_it_waits_although_writes_are_late() -> (
    None
):
    """It changes again before the write is seen that it has lost them."""
    world, is_reachable = one_node({"cpu": 8}), asyncio.Event()
    patch_many = world.cluster.patch_many

    async def late(requests: Any, *, fence: Any) -> Any:
        await is_reachable.wait()
        return await patch_many(requests, fence=fence)

    async with world.running():
        await gang_and_wait(world, "g", "team", 1, cpu=4)
        world.cluster.patch_many = late  # type: ignore[method-assign]
        world.cluster.delete("Pod", "default/g-0")
        await job_and_wait(world, "other", "team", 10, cpu=8)
        again = {"schedulingGroup": {"podGroupName": "g"}}
        await job_and_wait(world, "again", "team", cpu=4, spec=again)
        world.change("again", lambda pod: pod.metadata.annotations.update({"a": "b"}))
        await asyncio.sleep(1)
        is_reachable.set()
        await asyncio.sleep(1)
        assert condition(world, "g")[:2] == ("False", "WaitingForQuota")


class Unlisted(dict[str, Any]):
    """Queues that can only be read one by one."""

    def items(self) -> Any:
        raise AssertionError


def test_pods_that_leave_are_counted_without_reading_all_queues() -> None:
    """Each of a thousand queues may have a head that waits, in every cycle."""
    names = {"a": "one tree", "b": "one tree", "c": "another tree"}
    queues = Unlisted({name: SimpleNamespace(root=tree) for name, tree in names.items()})
    admission: Any = SimpleNamespace(
        pods=SimpleNamespace(leaving=Counter(a=0, b=2, c=5)),
        snapshot=SimpleNamespace(
            forest=SimpleNamespace(queues=queues), node=lambda name: queues[name]
        ),
    )
    entry: Any = SimpleNamespace(
        waiting=Waiting.QUOTA, message="8 more needed", queue=SimpleNamespace(name="a")
    )
    assert quota_message(admission, entry) == (
        "8 more needed; 2 terminating pod(s) still use quota"
    )
