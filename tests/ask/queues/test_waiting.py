"""Why units wait in their queues, asked of a leader's admission."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.queue_labels import BACKFILL, MAX_EXEC_TIME
from podsched.ask.queues.tree import queue_trees
from podsched.ask.queues.waiting import explain_admission, preempted_pods
from podsched.v1.scheduling_pb2 import QueueAdmission
from support.queues import (
    big_node,
    cluster_queue,
    flavor,
    gang,
    gang_and_wait,
    job,
    job_and_wait,
    message,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


def two_nodes() -> TermWorld:
    """Two nodes with 8 CPUs each, and a flavor of all of them."""
    made = TermWorld()
    for name in ("n1", "n2"):
        big_node(made, name)
    flavor(made)
    return made


async def why(world: TermWorld, unit: str) -> QueueAdmission:
    await asyncio.sleep(2)
    found = explain_admission(world.state.admission, f"default/{unit}")
    assert found is not None
    return found


async def test_a_shortage_says_how_much_is_missing_and_which_queue_borrows_it() -> None:
    world = two_nodes()
    cluster_queue(world, "lender", {"cpu": 4}, cohort="all")
    cluster_queue(world, "borrower", {"cpu": 2}, cohort="all")
    async with world.running():
        await job_and_wait(world, "big", "borrower", cpu=5)
        job(world, "late", "lender", cpu=3)
        found = await why(world, "pod:late")
        assert found.sentence == (
            "It needs more quota: of cpu 2 in flavor default (asks for 3, 1 available; borrower "
            "borrows 3)."
        )
        assert list(found.changes) == ["nominalQuota of ClusterQueue lender: default/cpu=6 (+2)"]


async def test_the_quota_that_is_told_lets_the_unit_start() -> None:
    world = two_nodes()
    queue = cluster_queue(world, "team", {"cpu": 4})
    async with world.running():
        await job_and_wait(world, "a", "team", cpu=3)
        job(world, "b", "team", cpu=3)
        found = await why(world, "pod:b")
        assert list(found.changes) == ["nominalQuota of ClusterQueue team: default/cpu=6 (+2)"]
        queue.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "6"
        world.cluster.update(queue)
        found = await why(world, "pod:b")
        assert found.sentence == "It is admitted to ClusterQueue team."


async def test_the_priority_that_is_told_is_the_lowest_that_finds_victims() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4}, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "a", "team", cpu=3, priority=5)
        job(world, "b", "team", cpu=3, priority=2)
        found = await why(world, "pod:b")
        assert list(found.changes)[1:] == ["priority 6: it would then preempt others"]


async def test_where_newer_units_may_go_the_priority_that_is_told_is_theirs() -> None:
    world = two_nodes()
    queue = cluster_queue(world, "team", {"cpu": 2}, within="LowerOrNewerEqualPriority")
    async with world.running():
        job(world, "old", "team", cpu=3, priority=2)
        await asyncio.sleep(2)
        await job_and_wait(world, "new", "team", cpu=2, priority=5)
        queue.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "3"
        world.cluster.update(queue)
        found = await why(world, "pod:old")
        assert list(found.changes)[1:] == ["priority 5: it would then preempt others"]


@pytest.mark.parametrize(
    ("cpu", "sentence"),
    [
        (2, "It waits until 1 preempted unit is gone: default/pod:b."),
        (4, "It waits until 2 preempted units are gone: default/pod:a, default/pod:b."),
    ],
)
async def test_a_unit_whose_victims_are_ending_says_how_many_and_which(
    cpu: int, sentence: str
) -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4}, within="LowerPriority")
    async with world.running():
        for name in ("a", "b"):
            slow = {"terminationGracePeriodSeconds": 300}
            job(world, name, "team", cpu=2, spec=slow)
            await asyncio.sleep(2)
        job(world, "high", "team", cpu=cpu, priority=5)
        assert (await why(world, "pod:high")).sentence == sentence


async def test_a_gang_that_grows_is_not_told_to_preempt_itself() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 2}, within="LowerPriority")
    async with world.running():
        await gang_and_wait(world, "train", "team", 2, cpu=1)
        job(world, "late", "team", cpu=1, spec={"schedulingGroup": {"podGroupName": "train"}})
        found = await why(world, "train")
        assert list(found.changes) == ["nominalQuota of ClusterQueue team: default/cpu=3 (+1)"]


async def test_a_gang_is_told_how_many_of_its_pods_have_quota() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4})
    async with world.running():
        gang(world, "train", "team", 6, cpu=1)
        found = await why(world, "train")
        assert list(found.changes)[-1] == "4 of its 6 pods: so many have quota now"
        assert [(one.resource, one.missing) for one in found.shortages] == [("cpu", "2")]
        assert found.shortages[0].beyond_maximum


async def test_in_a_strict_queue_all_that_are_ahead_would_be_admitted_first() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4}, strategy="StrictFIFO")
    async with world.running():
        job(world, "big", "team", cpu=6)
        await asyncio.sleep(1.5)
        job(world, "small", "team", cpu=1)
        found = await why(world, "pod:small")
        assert (found.ahead, found.ahead_admissible) == (1, 1)
        assert found.sentence == (
            "Its quota suffices now, but default/pod:big would be admitted first."
        )


async def test_elsewhere_units_ahead_without_quota_are_not_in_the_way() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4})
    async with world.running():
        job(world, "big", "team", cpu=6)
        job(world, "run", "team", cpu=3)
        await asyncio.sleep(1.5)
        job(world, "small", "team", cpu=2)
        found = await why(world, "pod:small")
        assert (found.ahead, found.ahead_admissible, list(found.first)) == (1, 0, [])


async def test_a_unit_with_quota_and_without_nodes_waits_for_nodes() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 40})
    async with world.running():
        job(world, "wide", "team", cpu=9)
        found = await why(world, "pod:wide")
        assert found.sentence == "Its quota suffices, so it waits for nodes."


async def test_a_unit_without_nodes_waits_for_nodes_though_one_ahead_has_quota_too() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 40})
    async with world.running():
        await job_and_wait(world, "wide", "team", cpu=9)
        job(world, "wider", "team", cpu=10)
        found = await why(world, "pod:wider")
        assert found.sentence == "Its quota suffices, so it waits for nodes."


async def test_a_stopped_queue_is_the_reason() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4}, stop="Hold")
    async with world.running():
        job(world, "a", "team", cpu=1)
        found = await why(world, "pod:a")
        assert found.sentence == "It is kept out of its queue: ClusterQueue team is stopped."


async def test_a_pod_that_has_to_be_in_a_queue_is_told_of_none() -> None:
    world = TermWorld(queues={"requireQueue": ["default"]})
    big_node(world, "n1")
    async with world.running():
        world.pod("free")
        found = await why(world, "pod:free")
        assert "have to be in a queue" in found.sentence
        assert (found.local_queue, found.cluster_queue) == ("", "")


async def test_a_unit_with_a_reserved_start_is_told_when_and_where() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 16}, annotations={BACKFILL: "EASY"})
    async with world.running():
        for name in ("a", "b"):
            job(world, name, "team", cpu=8, labels={MAX_EXEC_TIME: "60"})
        await asyncio.sleep(1)
        gang(world, "wide", "team", 2, cpu=8)
        found = await why(world, "wide")
        assert found.sentence == (
            "It needs more quota: of cpu 16 in flavor default (asks for 16, 0 available); it "
            "starts at 2027-01-15T08:01:05Z at the latest, reserved on nodes n1, n2."
        )


async def test_a_unit_that_would_delay_a_promised_start_is_told_so() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 16}, annotations={BACKFILL: "EASY"})
    async with world.running():
        await job_and_wait(world, "a", "team", cpu=8, labels={MAX_EXEC_TIME: "60"})
        await gang_and_wait(world, "wide", "team", 2, cpu=8)
        job(world, "endless", "team", cpu=8)
        found = await why(world, "pod:endless")
        assert found.sentence == (
            "Its quota suffices now, but it would delay default/wide, which starts at "
            "2027-01-15T08:01:05Z at the latest, by its use of cpu in flavor default."
        )


async def test_a_unit_is_told_for_whom_a_node_is_kept_that_has_room() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 99}, annotations={BACKFILL: "EASY"})
    async with world.running():
        await job_and_wait(world, "a", "team", cpu=8, labels={MAX_EXEC_TIME: "60"})
        await gang_and_wait(world, "wide", "team", 2, cpu=8)
        job(world, "endless", "team", cpu=8)
        found = await why(world, "pod:endless")
        where = (
            "node n2 is kept for default/wide, which starts at 2027-01-15T08:01:05Z at the latest"
        )
        assert found.sentence == f"Its quota suffices now, but {where}."
        assert where in message(world, "endless")


async def test_the_number_of_pods_counts_where_the_queue_has_a_quota_of_it() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 3, "pods": 2})
    async with world.running():
        gang(world, "train", "team", 4, cpu=1)
        found = await why(world, "train")
        assert [(one.resource, one.missing) for one in found.shortages] == [
            ("cpu", "1"),
            ("pods", "2"),
        ]
        assert list(found.changes) == [
            "nominalQuota of ClusterQueue team: default/cpu=4 (+1), default/pods=4 (+2)",
            "2 of its 4 pods: so many have quota now",
        ]


async def test_a_unit_that_waits_for_its_victims_would_preempt_these_and_no_others() -> None:
    world = two_nodes()
    cluster_queue(world, "team", {"cpu": 4}, within="LowerPriority")
    async with world.running():
        slow = {"terminationGracePeriodSeconds": 300}
        for priority, name in enumerate(("a", "b")):
            await job_and_wait(world, name, "team", priority, cpu=2, spec=dict(slow))
        await job_and_wait(world, "high", "team", 5, cpu=2)
        assert preempted_pods(world.state.admission, "default/pod:high") == ["default/a"]


async def test_a_unit_is_told_for_which_head_of_another_queue_quota_is_kept() -> None:
    world = two_nodes()
    cluster_queue(world, "a", {"cpu": 8}, cohort="all", strategy="StrictFIFO")
    cluster_queue(world, "b", {"cpu": 0}, cohort="all")
    async with world.running():
        for name, queue, cpu in (("runs", "b", 4), ("head", "a", 8)):
            await job_and_wait(world, name, queue, cpu=cpu)
        job(world, "late", "b", cpu=4)
        found = await why(world, "pod:late")
        assert found.sentence == "Its quota suffices now, but it is kept for default/pod:head."


async def test_a_unit_that_backs_off_is_told_until_when() -> None:
    late = {"timeout": "10s", "requeuingStrategy": {"backoffBaseSeconds": 60}}
    world = TermWorld(queues={"waitForPodsReady": late})
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8})
    async with world.running():
        gang(world, "train", "team", 1, cpu=4)
        await asyncio.sleep(12)
        job(world, "again", "team", cpu=4, spec={"schedulingGroup": {"podGroupName": "train"}})
        found = await why(world, "train")
        assert found.sentence == (
            "Its quota suffices now, but it backs off until 2027-01-15T08:01:10Z."
        )


async def test_a_queue_that_is_being_deleted_says_so_in_the_tree() -> None:
    world = two_nodes()
    queue = cluster_queue(world, "team", {"cpu": 4})
    queue.metadata.finalizers.append("example.com/kept")
    queue.metadata.deletion_timestamp.seconds = 1
    world.cluster.update(queue)
    async with world.running(seconds=1):
        [tree] = queue_trees(world.state.admission)
        assert tree["problem"] == "terminating"
