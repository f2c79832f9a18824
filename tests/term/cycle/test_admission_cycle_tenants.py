"""What users can write of their own pods and PodGroups gives them no more than their quota."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import PodGroup
from podsched.api.queue_labels import (
    FLAVORS_ANNOTATION,
    POD_SET_GROUP,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
)
from support.engine_world import pod
from support.queues import (
    QUEUE,
    big_node,
    bound,
    cluster_queue,
    flavor,
    gang,
    job,
    local_queue,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


def _world(cpu: int) -> TermWorld:
    """A world with room for twice the quota of its queue."""
    world = TermWorld()
    for index in range(2):
        big_node(world, f"n{index}")
    flavor(world)
    cluster_queue(world, "team", {"cpu": cpu})
    return world


def _labelled(world: TermWorld, name: str, group: str, count: int, queue: str) -> None:
    """A pod of 4 CPUs in a group by Kueue's label."""
    spec = {"annotations": {QUEUE_GROUP_COUNT: str(count)}}
    job(world, name, queue, cpu=4, labels={QUEUE_GROUP_NAME: group}, spec=spec)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_group_that_runs_counts_where_it_was_admitted_whatever_podgroup_comes_later(
    count: int,
) -> None:
    async with _world(4 * count).running() as world:
        for index in range(count):
            _labelled(world, f"g-{index}", "g", count, "team")
        await asyncio.sleep(1)
        made = PodGroup()
        made.metadata.name, made.metadata.namespace = "g", "default"
        made.metadata.labels[QUEUE] = "none"
        made.spec.scheduling_policy.gang.min_count = count
        world.cluster.create(made)
        await asyncio.sleep(1)
        assert usage(world, "team") == {"default/cpu": 4000 * count}
        local_queue(world, "another", "team")  # Everything is read again.
        await asyncio.sleep(1)
        assert usage(world, "team") == {"default/cpu": 4000 * count}
        world.cluster.delete("PodGroup", "default/g")
        job(world, "more", "team", cpu=4)
        await asyncio.sleep(1)
        assert bound(world) == [f"g-{index}" for index in range(count)]
        world.check()


async def test_a_group_whose_pods_name_two_queues_counts_where_it_was_admitted() -> None:
    async with _world(8).running() as world:
        _labelled(world, "a", "g", 2, "none")
        _labelled(world, "b", "g", 2, "team")
        await asyncio.sleep(1)
        assert bound(world) == ["a", "b"]
        assert usage(world, "team") == {"default/cpu": 8000}
        local_queue(world, "another", "team")
        await asyncio.sleep(1)
        assert usage(world, "team") == {"default/cpu": 8000}
        world.check()


async def test_pods_that_name_the_job_of_another_namespace_do_not_delay_it() -> None:
    world = TermWorld(queues={"waitForPodsReady": {"timeout": "60s"}})
    big_node(world, "n")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8, "memory": "8Gi"})
    local_queue(world, "team", "team", namespace="other")
    job_of_default = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-job"}
    labels, owners = {QUEUE: "team"}, [{**job_of_default, "controller": True}]
    spec = {"schedulerName": "default-scheduler"}
    async with world.running():
        late = pod("late", spec, namespace="other", labels=labels, ownerReferences=owners)
        world.cluster.create(late)
        await asyncio.sleep(70)  # It is not ready in time.
        world.cluster.create(pod("j-0", spec, labels=labels, ownerReferences=owners))
        await asyncio.sleep(1)
        assert bound(world) == ["j-0"]
        world.check()


async def test_flavors_that_no_message_can_contain_stop_no_other_unit() -> None:
    world, same = _world(8), {POD_SET_GROUP: "same"}
    # As a user of a Kubernetes cluster may write them.
    forged = {**same, FLAVORS_ANNOTATION: '{"cpu":"\\ud800"}'}
    gang(world, "g", "team", 1, cpu=1, spec={"annotations": forged, "on": "n0"})
    async with world.running():
        of_group = {"schedulingGroup": {"podGroupName": "g"}}
        job(world, "joins", "team", cpu=1, spec={"annotations": same, **of_group})
        await asyncio.sleep(1)
        job(world, "other", "team", cpu=1)
        await asyncio.sleep(1)
        assert "other" in bound(world)
        world.check()
