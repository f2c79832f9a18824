"""Which units are tried when a unit changes or is gone: not all, whatever its user does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podsched.api.objects import ClusterQueue
from podsched.queues.objects import Workload
from podsched.term.admission.turns import Turns
from support.queues import (
    GPU,
    QUEUE,
    big_node,
    bound,
    cluster_queue,
    flavor,
    gang,
    job,
    job_and_wait,
    local_queue,
    message,
    one_node,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

_NO_NODE = {"nodeSelector": {"x": "y"}}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the units that were tried, in order."""
    found: list[str] = []
    pop_heads = Turns.pop_heads

    def noted(turns: Turns) -> list[Workload]:
        heads = pop_heads(turns)
        found.extend(head.key for head in heads)
        return heads

    monkeypatch.setattr(Turns, "pop_heads", noted)
    return found


def _label(value: int) -> Callable[[Any], None]:
    return lambda pod: pod.metadata.labels.update({"example.com/value": str(value)})


def _world(**queue: Any) -> TermWorld:
    """Two queues of a cohort, one node."""
    world = TermWorld()
    big_node(world, "n")
    flavor(world)
    cluster_queue(world, "a", {"cpu": 4, GPU: 8}, cohort="all", **queue)
    cluster_queue(world, "b", {"cpu": 4, GPU: 0}, cohort="all")
    return world


async def _others_wait(world: TermWorld) -> None:
    """Units of twenty shapes wait for quota in both queues."""
    for index in range(10):
        for queue in "ab":
            job(world, f"{queue}{index}", queue, cpu=20 + index)
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    ("cpu", "spec", "expected"),
    [
        pytest.param(1, {}, [], id="it runs"),
        pytest.param(9, {}, ["default/pod:p"] * 3, id="it has too little quota"),
        pytest.param(2, _NO_NODE, ["default/pod:p"] * 3, id="it fits no nodes"),
    ],
)
async def test_a_pod_whose_labels_change_again_and_again_has_no_other_unit_tried(
    tried: list[str], cpu: int, spec: dict[str, Any], expected: list[str]
) -> None:
    async with _world().running() as world:
        job(world, "p", "a", cpu=cpu, spec=spec)
        await _others_wait(world)
        assert bound(world) == (["p"] if cpu == 1 else [])
        tried.clear()
        for value in range(3):
            world.change("p", _label(value))
            await asyncio.sleep(1)
        assert tried == expected
        world.check()


async def test_a_new_node_has_only_units_tried_that_it_may_help(tried: list[str]) -> None:
    async with _world().running() as world:
        for name in ("p", "q"):
            job(world, name, "a", cpu=2, spec=_NO_NODE)
        await _others_wait(world)
        tried.clear()
        big_node(world, "m", labels={"x": "y"})
        await asyncio.sleep(2)
        assert tried == ["default/pod:p", "default/pod:q"]
        assert bound(world) == ["p", "q"]


async def test_events_are_not_missed_once_the_unit_is_gone_that_waited_for_them() -> None:
    async with _world().running() as world:
        for name in ("p", "q"):
            await job_and_wait(world, name, "a", cpu=2, spec=_NO_NODE)
        await world.delete_and_wait("p")
        big_node(world, "m", labels={"x": "y"})
        await asyncio.sleep(1)
        assert bound(world) == ["q"]


async def test_once_the_head_of_a_strict_queue_is_gone_the_next_one_is_tried() -> None:
    async with _world(strategy="StrictFIFO").running() as world:
        await job_and_wait(world, "head", "a", cpu=20)
        await job_and_wait(world, "next", "a", cpu=1)
        assert bound(world) == []
        await world.delete_and_wait("head")
        assert bound(world) == ["next"]


async def test_a_strict_head_that_changes_keeps_its_quota_and_has_no_other_unit_tried(
    tried: list[str],
) -> None:
    async with _world(strategy="StrictFIFO").running() as world:
        await job_and_wait(world, "runs", "b", gpu=4)
        await job_and_wait(world, "head", "a", gpu=8)
        job(world, "borrows", "b", gpu=4)
        await _others_wait(world)
        tried.clear()
        for value in range(3):
            world.change("head", _label(value))
            await asyncio.sleep(1)
        assert tried == ["default/pod:head"] * 3
        assert bound(world) == ["runs"]
        await world.delete_and_wait("head")
        assert bound(world) == ["borrows", "runs"]


async def test_quota_of_a_strict_head_that_moves_to_another_queue_goes_to_others() -> None:
    world = _world(strategy="StrictFIFO")
    cluster_queue(world, "empty")
    async with world.running():
        await job_and_wait(world, "runs", "b", gpu=4)
        await job_and_wait(world, "head", "a", gpu=8)
        await job_and_wait(world, "borrows", "b", gpu=4)
        assert bound(world) == ["runs"]
        world.change("head", lambda pod: pod.metadata.labels.update({QUEUE: "empty"}))
        await asyncio.sleep(1)
        assert bound(world) == ["borrows", "runs"]


async def test_a_pod_that_is_made_again_in_another_queue_is_no_candidate_in_the_first_one() -> None:
    async with _world().running() as world:
        await job_and_wait(world, "p", "a", gpu=8)
        world.cluster.delete("Pod", "default/p")
        job(world, "p", "b", gpu=8)
        await asyncio.sleep(1)
        workloads = world.state.admission.snapshot.workloads
        assert {name: list(of) for name, of in workloads.items()} == {
            "a": [],
            "b": ["default/pod:p"],
        }


async def test_a_group_whose_pod_is_replaced_while_it_waits_starts_as_a_whole() -> None:
    """Its pod sets are then named in another order."""

    def leader(name: str) -> None:
        job(world, name, "a", cpu=2, spec={"schedulingGroup": {"podGroupName": "g"}})

    async with _world().running() as world:
        await job_and_wait(world, "runs", "b", cpu=4)
        leader("first")
        gang(world, "g", "a", 3, min_count=4, cpu=1)
        await asyncio.sleep(1)
        assert bound(world) == ["runs"]
        world.cluster.delete("Pod", "default/first")
        leader("second")
        await asyncio.sleep(1)
        await world.delete_and_wait("runs")
        assert bound(world) == ["g-0", "g-1", "g-2", "second"]


async def test_a_group_starts_once_its_pods_name_the_number_of_members_that_it_has() -> None:
    count, group = "kueue.x-k8s.io/pod-group-total-count", {"kueue.x-k8s.io/pod-group-name": "g"}
    async with _world().running() as world:
        for name in ("p", "q"):
            job(world, name, "a", cpu=1, labels=group, spec={"annotations": {count: "3"}})
        await asyncio.sleep(1)
        assert bound(world) == []
        for name in ("p", "q"):
            world.change(name, lambda pod: pod.metadata.annotations.update({count: "2"}))
        await asyncio.sleep(1)
        assert bound(world) == ["p", "q"]


async def test_a_pod_that_is_made_just_after_the_last_queue_is_gone_starts() -> None:
    world = one_node({"cpu": 8})
    async with world.running(seconds=1):
        world.cluster.delete("LocalQueue", "default/team")
        world.cluster.delete("ClusterQueue", "team")
        await job_and_wait(world, "p", "team", cpu=1)
        assert bound(world) == ["p"]


async def test_a_queue_that_is_being_deleted_admits_nothing() -> None:
    """A finalizer may keep it for long."""
    async with _world().running() as world:
        item = world.cluster.object("ClusterQueue", "a")
        assert isinstance(item, ClusterQueue)
        item.metadata.finalizers.append("example.com/kept")
        item.metadata.deletion_timestamp.seconds = 1
        world.cluster.update(item)
        await asyncio.sleep(1)
        job(world, "p", "a", cpu=1)
        await job_and_wait(world, "q", "b", cpu=1)
        assert bound(world) == ["q"]
        assert message(world, "p") == "ClusterQueue a is inactive"
        world.check()


async def test_quota_of_a_strict_head_goes_to_others_once_another_head_needs_too_much() -> None:
    async with _world(strategy="StrictFIFO").running() as world:
        await job_and_wait(world, "runs", "b", gpu=4)
        await job_and_wait(world, "head", "a", gpu=8)
        await job_and_wait(world, "borrows", "b", gpu=4)
        assert bound(world) == ["runs"]
        await job_and_wait(world, "huge", "a", 5, gpu=20)
        assert bound(world) == ["borrows", "runs"]


async def test_past_usage_that_has_changed_gives_a_strict_queue_another_head() -> None:
    world = TermWorld(queues={"admissionFairSharing": {"usageHalfLifeTime": "10m"}})
    big_node(world, "n")
    flavor(world)
    by_usage = {"strategy": "StrictFIFO", "mode": "UsageBasedAdmissionFairSharing"}
    cluster_queue(world, "x", {"cpu": 8}, **by_usage)
    local_queue(world, "y", "x")
    async with world.running():
        await job_and_wait(world, "past", "y", cpu=4)
        await asyncio.sleep(300)
        await job_and_wait(world, "runs", "x", cpu=4)
        await world.delete_and_wait("past")
        await job_and_wait(world, "big", "x", cpu=8)
        await job_and_wait(world, "small", "y", cpu=2)
        assert bound(world) == ["runs"]
        await asyncio.sleep(1200)
        assert bound(world) == ["runs", "small"]
