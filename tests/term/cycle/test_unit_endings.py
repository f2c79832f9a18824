"""Units of queues that are evicted: their queue drains, or their pods are not ready in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.objects import ClusterQueue, LocalQueue, Pod, PodGroup
from podsched.serve.client.errors import Invalid, Unavailable
from podsched.term.admission.endings import Ending
from podsched.term.cycle.unit_endings import UnitEndings
from podsched.v1.api_pb2 import BatchResult, EvictRequest
from support.queues import (
    big_node,
    bound,
    cluster_queue,
    condition,
    flavor,
    gang,
    gang_and_wait,
    job,
    job_and_wait,
    one_node,
    usage,
)
from support.term_world import WALL, TermWorld

pytestmark = pytest.mark.looptime

TIMEOUT = {"waitForPodsReady": {"timeout": "5m"}}


def a_world(**queues: Any) -> TermWorld:
    world = TermWorld(queues=queues)
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8})
    return world


def stop(world: TermWorld, kind: str, policy: str) -> None:
    key = "team" if kind == "ClusterQueue" else "default/team"
    found = world.cluster.object(kind, key)
    assert isinstance(found, ClusterQueue | LocalQueue)
    found.spec.stop_policy = policy
    world.cluster.update(found)


def ready(world: TermWorld, *names: str) -> None:
    for name in names:
        world.change(name, lambda pod: pod.status.conditions.add(type="Ready", status="True"))


def controlled(world: TermWorld, name: str, kind: str = "Job") -> None:
    """Give a pod its controller."""
    owner = {"kind": kind, "name": "g", "uid": f"uid-of-{kind}", "controller": True}
    world.change(name, lambda pod: pod.metadata.owner_references.add(**owner))


def members(world: TermWorld, group: str, count: int) -> None:
    """What a job's controller does once pods are gone."""
    for index in range(count):
        spec = {"schedulingGroup": {"podGroupName": group}}
        job(world, f"{group}-again-{index}", "team", cpu=1, spec=spec)


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
async def test_a_queue_that_drains_evicts_what_runs_and_admits_it_when_it_goes_on(
    kind: str,
) -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 2, cpu=1)
        job(world, "alone", "team", cpu=1, spec={"terminationGracePeriodSeconds": 30})
        await world.pod_and_wait("outside")
        stop(world, kind, "HoldAndDrain")
        await asyncio.sleep(1)
        assert bound(world) == ["alone", "outside"]
        assert usage(world, "team") == {"default/cpu": 1000}
        said = "True", f"{kind}Stopped", f"The {kind} is stopped"
        assert condition(world, "g", "Evicted") == said
        assert condition(world, "g", "Requeued")[:2] == ("False", f"{kind}Stopped")
        assert condition(world, "g")[:2] == ("False", "PendingEvaluation")
        assert condition(world, "g", "Admitted")[:2] == ("False", "NoReservation")
        assert world.events("alone", f"EvictedDueTo{kind}Stopped") == [f"The {kind} is stopped"]
        members(world, "g", 2)
        await asyncio.sleep(1)
        assert condition(world, "g")[:2] == ("False", "Suspended")
        stop(world, kind, "None")
        await asyncio.sleep(1)
        assert bound(world) == ["alone", "g-again-0", "g-again-1", "outside"]
        assert condition(world, "g", "Requeued")[:2] == ("True", f"{kind}Restarted")
        assert condition(world, "g", "Evicted")[:2] == ("False", "QuotaReserved")
        assert condition(world, "g", "Admitted")[0] == "True"
        world.check()


async def test_units_that_are_being_evicted_are_looked_at_only_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue that drains may have thousands of them for long, while all else goes on."""
    looked_at: list[str] = []
    end = UnitEndings._end

    def seen(endings: UnitEndings, key: str, ending: Ending) -> None:
        looked_at.append(key)
        end(endings, key, ending)

    monkeypatch.setattr(UnitEndings, "_end", seen)
    async with a_world().running() as world:
        job(world, "alone", "team", cpu=1, spec={"terminationGracePeriodSeconds": 30})
        await asyncio.sleep(1)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(1)
        assert set(looked_at) == {"default/pod:alone"}
        looked_at.clear()
        for index in range(3):
            await job_and_wait(world, f"new-{index}", "team", cpu=1)
        assert not looked_at


async def test_where_both_queues_drain_the_local_queue_is_why() -> None:
    async with a_world().running() as world:
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        for kind in ("ClusterQueue", "LocalQueue"):
            stop(world, kind, "HoldAndDrain")
        await asyncio.sleep(1)
        assert condition(world, "g", "Evicted")[:2] == ("True", "LocalQueueStopped")


async def test_the_end_of_an_eviction_is_told_although_all_queues_are_read_again_then() -> None:
    async with a_world().running() as world:
        gang(world, "g", "team", 2, cpu=1, spec={"terminationGracePeriodSeconds": 30})
        await asyncio.sleep(1)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(1)
        assert condition(world, "g", "Evicted")[0] == "True"
        assert condition(world, "g", "Admitted")[0] == "True"
        cluster_queue(world, "another", {"cpu": 1})
        for index in range(2):
            world.cluster.delete("Pod", f"default/g-{index}")
        await asyncio.sleep(1)
        assert condition(world, "g", "Admitted")[0] == "False"


async def test_a_unit_that_is_gone_when_all_queues_are_read_again_has_no_limit_any_more() -> None:
    async with a_world(**TIMEOUT).running() as world:
        await job_and_wait(world, "alone", "team", cpu=1)
        endings = world.state.admission.endings
        assert endings.next_time() is not None
        cluster_queue(world, "another", {"cpu": 1})
        await world.delete_and_wait("alone")
        assert endings.next_time() is None


@pytest.mark.parametrize("again", [False, True])
async def test_the_flavors_of_a_pod_are_forgotten_once_it_is_gone(again: bool) -> None:
    """Also if all queues are read again then, or if it is made again at once."""
    async with a_world().running() as world:
        await job_and_wait(world, "alone", "team", cpu=1)
        admission = world.state.admission
        assert admission.pods.usage.assumed.keys() == {"uid-alone"}
        made = world.stored("alone")
        world.cluster.delete("Pod", "default/alone")
        if again:
            made.metadata.uid, made.spec.node_name = "another", ""
            made.spec.scheduling_gates.add(name="stays")
            world.cluster.create(made)
        else:
            cluster_queue(world, "another", {"cpu": 1})
        await asyncio.sleep(1)
        assert not admission.pods.usage.assumed


async def test_a_queue_on_hold_lets_what_runs_go_on() -> None:
    async with a_world().running() as world:
        await job_and_wait(world, "alone", "team", cpu=1)
        stop(world, "ClusterQueue", "Hold")
        job(world, "new", "team", cpu=1)
        await asyncio.sleep(5)
        assert bound(world) == ["alone"]


async def test_the_next_leader_drains_a_queue_whose_leader_died() -> None:
    async with a_world().running() as world:
        await job_and_wait(world, "alone", "team", cpu=1)
    stop(world, "ClusterQueue", "HoldAndDrain")
    async with TermWorld(cluster=world.cluster).running(seconds=1) as after:
        assert bound(after) == []


async def test_a_gang_whose_queue_goes_on_before_its_pods_are_evicted_is_said_to_run() -> None:
    """Its leader has died as soon as it had written the condition."""
    async with a_world().running() as world:
        await gang_and_wait(world, "g", "team", 1, cpu=1)
    group = world.cluster.object("PodGroup", "default/g")
    assert isinstance(group, PodGroup)
    said = group.status.conditions.add(type="Evicted", status="True", reason="ClusterQueueStopped")
    said.last_transition_time.seconds = int(WALL) + 10
    world.cluster.update(group)
    async with TermWorld(cluster=world.cluster).running(seconds=1) as after:
        assert bound(after) == ["g-0"]
        assert condition(after, "g", "Evicted")[:2] == ("False", "QuotaReserved")


async def test_an_eviction_that_fails_is_tried_again() -> None:
    world = a_world()
    evict_pods, failures = world.cluster.evict_pods, 0

    async def unwilling(requests: Any, *, fence: Any) -> Any:
        nonlocal failures
        results = list(await evict_pods(requests, fence=fence)) if failures else []
        failures += 1
        if results:
            return results

        raise Unavailable("not now")

    world.cluster.evict_pods = unwilling  # type: ignore[method-assign]
    async with world.running():
        await job_and_wait(world, "alone", "team", cpu=1)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(5)
        assert failures == 2
        assert bound(world) == []


async def test_a_pod_whose_end_is_seen_late_is_evicted_once() -> None:
    world = a_world()
    evict_pods, asked = world.cluster.evict_pods, list[str]()

    async def seen_late(requests: Any, *, fence: Any) -> Any:
        asked.extend(request.name for request in requests)

        async def later() -> None:
            await asyncio.sleep(1)
            await evict_pods(requests, fence=fence)

        evicting.append(asyncio.create_task(later()))
        return [BatchResult() for _ in requests]

    evicting = list[asyncio.Task[None]]()
    world.cluster.evict_pods = seen_late  # type: ignore[method-assign]
    async with world.running():
        await job_and_wait(world, "alone", "team", cpu=1)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(0.5)
        job(world, "another", "team", cpu=1)
        await asyncio.sleep(2)
        assert bound(world) == []
        assert asked == ["alone"]
        assert len(world.events("alone", "EvictedDueToClusterQueueStopped")) == 1


async def test_pods_that_were_evicted_are_forgotten_once_they_are_gone() -> None:
    async with a_world().running() as world:
        for name in ("first", "second"):
            stop(world, "ClusterQueue", "None")
            await job_and_wait(world, name, "team", cpu=1)
            stop(world, "ClusterQueue", "HoldAndDrain")
            await asyncio.sleep(1)
        assert world.term._admission_cycle._endings._requested == {"uid-second"}


async def test_a_gang_that_is_not_ready_in_time_is_evicted_and_waits_for_its_backoff() -> None:
    async with a_world(**TIMEOUT).running() as world:
        gang(world, "g", "team", 2, cpu=1)
        await asyncio.sleep(200)
        ready(world, "g-0")
        await asyncio.sleep(90)
        assert bound(world) == ["g-0", "g-1"]
        assert condition(world, "g", "PodsReady")[:2] == ("False", "WaitForStart")
        await asyncio.sleep(20)
        assert bound(world) == []
        message = "Exceeded the PodsReady timeout default/g"
        assert condition(world, "g", "Evicted") == ("True", "PodsReadyTimeout", message)
        members(world, "g", 2)
        await asyncio.sleep(40)
        assert bound(world) == []
        await asyncio.sleep(20)
        assert bound(world) == ["g-again-0", "g-again-1"]
        assert condition(world, "g", "Requeued")[:2] == ("True", "BackoffFinished")
        ready(world, "g-again-0", "g-again-1")
        await asyncio.sleep(1000)
        assert bound(world) == ["g-again-0", "g-again-1"]
        assert condition(world, "g", "PodsReady")[:2] == ("True", "Started")


async def test_a_gang_that_was_ready_has_to_be_ready_in_time_when_it_runs_again() -> None:
    async with a_world(**TIMEOUT).running() as world:
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(10)
        ready(world, "g-0")
        await asyncio.sleep(10)
        assert condition(world, "g", "PodsReady")[0] == "True"
        await world.delete_and_wait("g-0")
        members(world, "g", 1)
        await asyncio.sleep(290)
        assert bound(world) == ["g-again-0"]
        await asyncio.sleep(20)
        assert bound(world) == []


async def test_a_pod_group_that_is_made_again_has_no_backoff() -> None:
    async with a_world(**TIMEOUT).running() as world:
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(301)
        assert bound(world) == []
        world.cluster.delete("PodGroup", "default/g")
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        assert bound(world) == ["g-0"]


async def test_a_pod_that_was_ready_once_is_not_evicted_when_it_is_not_any_more() -> None:
    async with a_world(**TIMEOUT).running() as world:
        gang(world, "g", "team", 1, cpu=1)
        job(world, "alone", "team", cpu=1)
        await asyncio.sleep(10)
        ready(world, "g-0", "alone")
        await asyncio.sleep(10)

        def unready(pod: Pod) -> None:
            next(c for c in pod.status.conditions if c.type == "Ready").status = "False"

        world.change("g-0", unready)
        world.change("alone", unready)
        await asyncio.sleep(400)
        assert bound(world) == ["alone", "g-0"]
        world.cluster.delete("Pod", "default/alone")
    async with TermWorld(cluster=world.cluster, queues=TIMEOUT).running(seconds=400) as after:
        assert bound(after) == ["g-0"]


async def test_a_gang_that_was_ready_and_grows_is_not_evicted_by_the_next_leader() -> None:
    async with a_world(**TIMEOUT).running() as world:
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        ready(world, "g-0")
        await asyncio.sleep(1)
        members(world, "g", 1)
        await asyncio.sleep(400)
    async with TermWorld(cluster=world.cluster, queues=TIMEOUT).running(seconds=400) as after:
        assert bound(after) == ["g-0", "g-again-0"]


async def test_a_pod_that_was_ready_once_stays_also_after_all_queues_were_read_again() -> None:
    async with a_world(**TIMEOUT).running() as world:
        await job_and_wait(world, "alone", "team", cpu=1)
        ready(world, "alone")
        await asyncio.sleep(1)
        world.change("alone", lambda pod: pod.status.conditions.pop())
        cluster_queue(world, "another", {"cpu": 1})
        await asyncio.sleep(600)
        assert bound(world) == ["alone"]


async def test_the_time_to_get_ready_and_the_backoff_go_on_under_the_next_leader() -> None:
    async with a_world(**TIMEOUT).running() as world:
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(200)
    async with TermWorld(cluster=world.cluster, queues=TIMEOUT).running(seconds=110) as after:
        assert bound(after) == []
    members(world, "g", 1)
    async with TermWorld(cluster=world.cluster, queues=TIMEOUT).running(seconds=30) as last:
        assert bound(last) == []
        await asyncio.sleep(30)
        assert bound(last) == ["g-again-0"]


async def test_a_gang_that_is_late_too_often_is_deactivated_until_its_count_is_removed() -> None:
    strategy = {"backoffLimitCount": 1, "backoffBaseSeconds": 1}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    async with world.running():
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(12)
        members(world, "g", 1)
        await asyncio.sleep(15)
        assert bound(world) == []
        assert condition(world, "g", "Evicted") == (
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
        )
        spec = {"schedulingGroup": {"podGroupName": "g"}}
        job(world, "third", "team", cpu=1, spec=spec)
        await asyncio.sleep(20)
        assert bound(world) == []
        assert condition(world, "g")[1:] == (
            "Suspended",
            "The workload is deactivated: its pods were not ready in time too often. Remove the "
            "annotation podsched.io/requeue-count of its PodGroup to try again",
        )
        group = world.cluster.object("PodGroup", "default/g")
        assert isinstance(group, PodGroup)
        assert group.metadata.annotations.pop("podsched.io/requeue-count") == "2"
        world.cluster.update(group)
        await asyncio.sleep(5)
        assert bound(world) == ["third"]
        assert condition(world, "g", "Requeued")[:2] == ("True", "Reactivated")


async def test_a_deactivated_gang_says_so_also_if_its_queue_is_stopped() -> None:
    strategy = {"backoffLimitCount": 0}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    async with world.running():
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(12)
        stop(world, "ClusterQueue", "Hold")
        members(world, "g", 1)
        await asyncio.sleep(1)
        assert condition(world, "g")[2].startswith("The workload is deactivated")


async def test_a_group_without_a_pod_group_is_counted_until_it_is_deactivated() -> None:
    strategy = {"backoffLimitCount": 2, "backoffBaseSeconds": 60}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    labels = {f"kueue.x-k8s.io/pod-group-{name}": "1" for name in ("name", "total-count")}
    async with world.running():
        for name, pause in (("a", 0), ("b", 60), ("c", 120), ("d", 240)):
            job(world, name, "team", cpu=1, labels=labels)
            if pause:
                await asyncio.sleep(pause - 8)
                assert bound(world) == []
            await asyncio.sleep(6 if pause else 2)
            assert bound(world) == [name]
            await asyncio.sleep(12)
            assert bound(world) == []
        assert world.events("b", "EvictedDueToPodsReadyTimeout")
        assert world.events("c", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded")
        assert world.events("d", "EvictedDueToPodsReadyTimeout")


@pytest.mark.parametrize(("timestamp", "first"), [("Eviction", "later"), ("Creation", "g-again-0")])
async def test_an_eviction_puts_a_unit_behind_those_that_came_meanwhile(
    timestamp: str, first: str
) -> None:
    strategy = {"timestamp": timestamp, "backoffBaseSeconds": 1}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    async with world.running():
        await job_and_wait(world, "running", "team", cpu=7)
        ready(world, "running")
        gang(world, "g", "team", 1, cpu=1)
        await asyncio.sleep(5)
        await job_and_wait(world, "later", "team", cpu=8)
        stop(world, "ClusterQueue", "Hold")
        await asyncio.sleep(6)
        members(world, "g", 1)
        await asyncio.sleep(5)
        await world.delete_and_wait("running", seconds=5)
        stop(world, "ClusterQueue", "None")
        await asyncio.sleep(1)
        assert bound(world) == [first]


async def test_victims_of_a_preemption_say_so_and_say_later_that_they_run_again() -> None:
    async with one_node({"gpu": 8}, within="LowerPriority").running() as world:
        await gang_and_wait(world, "low", "team", 2, gpu=4)
        gang(world, "high", "team", 1, priority=10, gpu=8)
        await asyncio.sleep(15)
        assert bound(world) == ["high-0"]
        status, reason, message = condition(world, "low", "Preempted")
        assert (status, reason) == ("True", "InClusterQueue")
        assert message.endswith(
            "due to prioritization in the ClusterQueue; preemptor path: /team; "
            "preemptee path: /team"
        )
        assert condition(world, "low", "Evicted") == ("True", "Preempted", message)
        assert condition(world, "low")[0] == "False"
        assert condition(world, "low", "Admitted")[0] == "False"
        assert condition(world, "low", "Requeued") == ("True", "Preempted", message)
        spec = {"schedulingGroup": {"podGroupName": "low"}}
        for name in ("x", "y"):
            job(world, name, "team", gpu=4, spec=dict(spec))
        await world.delete_and_wait("high-0", seconds=15)
        assert bound(world) == ["x", "y"]
        said = "False", "QuotaReserved", f"Previously: {message}"
        assert condition(world, "low", "Evicted") == said
        assert condition(world, "low", "Preempted") == said
        # It could be admitted again from the end of its eviction on, 15 s before.
        waited = [text.rpartition(" was ")[2] for text in world.events("low", "QuotaReserved")]
        assert waited == ["0s", "15s"]


async def test_the_events_of_a_pod_group_tell_that_it_waits_runs_and_is_evicted() -> None:
    async with one_node({"gpu": 8}, within="LowerPriority").running() as world:
        await gang_and_wait(world, "low", "team", 2, gpu=4)
        await gang_and_wait(world, "other", "team", 1, gpu=4)
        job(world, "high", "team", 10, gpu=8)
        await asyncio.sleep(15)
        reserved = "Quota reserved in ClusterQueue team, wait time since queued was 0s"
        admitted = "Admitted by ClusterQueue team, wait time since reservation was 0s"
        assert world.events("low", "QuotaReserved") == [reserved]
        assert world.events("low", "Admitted") == [admitted]
        [short] = world.events("other", "WaitingForQuota")
        assert "insufficient unused quota" in short
        [evicted] = world.events("low", "EvictedDueToPreempted")
        assert evicted.startswith("Preempted to accommodate a workload")
        priorities = (
            "; preemptor effective priority: 10 (base: 10, boost: 0); "
            "preemptee effective priority: 0 (base: 0, boost: 0)"
        )
        assert world.events("low", "Preempted") == [f"{evicted}{priorities}"]
        group = world.cluster.object("PodGroup", "default/low")
        assert isinstance(group, PodGroup)
        victim = f"default/low (UID: {group.metadata.uid}) in ClusterQueue team"
        assert world.events("high", "PreemptedWorkload") == [
            f"Preempted workload {victim}{priorities}"
        ]
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(1)
        assert world.events("other", "Suspended") == ["ClusterQueue team is stopped"]


async def test_the_events_of_a_pod_group_tell_that_its_queue_drains() -> None:
    async with a_world().running() as world:
        await gang_and_wait(world, "g", "team", 1, cpu=1)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(1)
        assert world.events("g", "EvictedDueToClusterQueueStopped") == [
            "The ClusterQueue is stopped"
        ]


async def test_a_victim_that_leaves_when_its_pods_should_be_ready_is_not_late() -> None:
    world = TermWorld(queues={"waitForPodsReady": {"timeout": "20s"}})
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8}, within="LowerPriority")
    async with world.running():
        job(world, "low", "team", cpu=8, spec={"terminationGracePeriodSeconds": 60})
        controlled(world, "low")
        await asyncio.sleep(10)
        gang(world, "high", "team", 1, cpu=8, priority=10)
        await asyncio.sleep(20)
        await world.delete_and_wait("low", seconds=5)
        assert bound(world) == ["high-0"]
        world.cluster.delete("Pod", "default/high-0")
        job(world, "low-again", "team", cpu=8)
        controlled(world, "low-again")
        await asyncio.sleep(1)
        assert bound(world) == ["low-again"]


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_victim_that_stays_because_nobody_waits_for_it_any_more_is_not_evicted(
    at_once: bool,
) -> None:
    """It could not be evicted before that. Then its queue drains."""
    world = one_node({"gpu": 8}, within="LowerPriority")
    evict_pods, calls = world.cluster.evict_pods, 0

    async def unwilling(requests: Any, *, fence: Any) -> Any:
        nonlocal calls
        calls += 1
        raise Invalid("not now")

    world.cluster.evict_pods = unwilling  # type: ignore[method-assign]
    async with world.running():
        await gang_and_wait(world, "low", "team", 1, gpu=8)
        job(world, "high", "team", 10, gpu=8)
        await asyncio.sleep(2.5)
        assert calls > 1
        assert condition(world, "low", "Evicted")[:2] == ("True", "Preempted")
        assert len(world.events("low", "Preempted")) == 1
        world.cluster.delete("Pod", "default/high")
        if not at_once:
            await asyncio.sleep(1)
            assert condition(world, "low", "Evicted")[:2] == ("False", "QuotaReserved")
        world.cluster.evict_pods = evict_pods  # type: ignore[method-assign]
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(1)
        assert condition(world, "low", "Evicted")[:2] == ("True", "ClusterQueueStopped")
        status, reason, text = condition(world, "low", "Preempted")
        assert (status, reason) == ("False", "QuotaReserved")
        assert text.startswith("Previously: Preempted to accommodate a workload")
        assert bound(world) == []


async def test_a_victim_that_is_being_evicted_already_keeps_its_reason() -> None:
    world = TermWorld(queues=TIMEOUT)
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"gpu": 8}, within="LowerPriority")
    async with world.running():
        gang(world, "low", "team", 1, gpu=8, spec={"terminationGracePeriodSeconds": 30})
        await asyncio.sleep(302)
        gang(world, "high", "team", 1, priority=10, gpu=8)
        await asyncio.sleep(2)
        assert condition(world, "high")[1] == "WaitingForPreemptedWorkloads"
        await world.delete_and_wait("low-0", seconds=2)
        assert bound(world) == ["high-0"]
        assert condition(world, "low", "Evicted")[1] == "PodsReadyTimeout"
        assert world.events("low", "Preempted") == []


async def test_a_victim_that_others_have_evicted_is_not_said_to_be_preempted() -> None:
    async with one_node({"gpu": 8}, within="LowerPriority").running() as world:
        gang(world, "low", "team", 1, gpu=8, spec={"terminationGracePeriodSeconds": 30})
        await asyncio.sleep(1)
        request = EvictRequest(namespace="default", name="low-0")
        await world.cluster.evict_pods([request], fence=world.fence)
        gang(world, "high", "team", 1, priority=10, gpu=8)
        await asyncio.sleep(2)
        assert condition(world, "high")[1] == "WaitingForPreemptedWorkloads"
        assert world.events("low", "Preempted") == []


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize(
    ("evicted", "grace", "first"),
    [
        ("preempted", 30, ["again"]),
        ("drained", 30, ["again"]),
        ("late", 30, ["later"]),
        ("late", 0, ["later"]),
    ],
)
async def test_a_job_that_was_evicted_keeps_its_place_unless_it_was_not_ready_in_time(
    evicted: str, grace: int, first: list[str], grouped: bool
) -> None:
    world = TermWorld(queues=TIMEOUT)
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"gpu": 8}, within="LowerPriority")
    labels = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "1"}

    def of_job(name: str) -> None:
        job(
            world,
            name,
            "team",
            gpu=8,
            labels=labels if grouped else {},
            spec={"terminationGracePeriodSeconds": grace},
        )
        controlled(world, name)

    async with world.running():
        of_job("before")
        await asyncio.sleep(2)
        job(world, "later", "team", gpu=8)
        await asyncio.sleep(2)
        if evicted == "preempted":
            job(world, "high", "team", 10, gpu=8)
        else:
            stop(world, "ClusterQueue", "HoldAndDrain" if evicted == "drained" else "Hold")
        await asyncio.sleep(300 if evicted == "late" else 1)
        assert ("before" in bound(world)) == (grace > 0)
        of_job("again")
        await asyncio.sleep(1)
        if grace:
            world.cluster.delete("Pod", "default/before")
        await asyncio.sleep(90)
        if evicted == "preempted":
            assert bound(world) == ["high"]
            world.cluster.delete("Pod", "default/high")
        stop(world, "ClusterQueue", "None")
        await asyncio.sleep(1)
        assert bound(world) == first


@pytest.mark.parametrize("grouped", [False, True])
async def test_the_next_leader_knows_the_place_of_a_job_whose_pods_were_made_again(
    grouped: bool,
) -> None:
    world = a_world()
    group = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "1"}
    labels = group if grouped else {}
    async with world.running():
        job(world, "before", "team", cpu=8, labels=labels)
        controlled(world, "before")
        await asyncio.sleep(2)
        job(world, "later", "team", cpu=8)
        stop(world, "ClusterQueue", "HoldAndDrain")
        await asyncio.sleep(2)
        job(world, "again", "team", cpu=8, labels=labels)
        controlled(world, "again")
        await asyncio.sleep(1)
    stop(world, "ClusterQueue", "None")
    async with TermWorld(cluster=world.cluster).running(seconds=1) as after:
        assert bound(after) == ["again"]


async def test_the_next_leader_knows_how_often_a_job_was_not_ready_in_time() -> None:
    strategy = {"backoffLimitCount": 1, "backoffBaseSeconds": 60}
    settings = {"waitForPodsReady": {"timeout": "10s", "requeuingStrategy": strategy}}
    async with a_world(**settings).running() as world:
        job(world, "a", "team", cpu=1)
        controlled(world, "a")
        await asyncio.sleep(15)
        assert bound(world) == []
        job(world, "b", "team", cpu=1)
        controlled(world, "b")
        await asyncio.sleep(1)
    async with TermWorld(cluster=world.cluster, queues=settings).running(seconds=40) as after:
        assert bound(after) == []
        await asyncio.sleep(17)
        assert bound(after) == ["b"]
        await asyncio.sleep(15)
        assert after.events("b", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded")


async def test_a_pod_that_a_replica_set_makes_again_goes_to_the_end() -> None:
    async with a_world().running() as world:
        job(world, "before", "team", cpu=8)
        controlled(world, "before", "ReplicaSet")
        await asyncio.sleep(2)
        job(world, "later", "team", cpu=8)
        await asyncio.sleep(2)
        job(world, "again", "team", cpu=8)
        controlled(world, "again", "ReplicaSet")
        await world.delete_and_wait("before", seconds=2)
        assert bound(world) == ["later"]


async def test_pods_of_a_job_back_off_longer_each_time_and_are_deactivated_at_the_limit() -> None:
    strategy = {"backoffLimitCount": 2, "backoffBaseSeconds": 60}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    async with world.running():
        for name, pause in (("a", 0), ("b", 60), ("c", 120), ("d", 0)):
            job(world, name, "team", cpu=1)
            controlled(world, name)
            if pause:
                await asyncio.sleep(pause - 8)
                assert bound(world) == []
            await asyncio.sleep(6 if pause else 2)
            assert bound(world) == [name]
            await asyncio.sleep(12)
            assert bound(world) == []
        assert world.events("b", "EvictedDueToPodsReadyTimeout")
        assert world.events("c", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded")
        assert world.events("d", "EvictedDueToPodsReadyTimeout")


async def test_pods_of_a_job_that_are_late_together_are_late_once() -> None:
    strategy = {"backoffLimitCount": 1, "backoffBaseSeconds": 60}
    world = a_world(waitForPodsReady={"timeout": "10s", "requeuingStrategy": strategy})
    async with world.running():
        for name in "ab":
            job(world, name, "team", cpu=1)
            controlled(world, name)
            await asyncio.sleep(2)
        await asyncio.sleep(15)
        for name in "ab":
            assert world.events(name, "EvictedDueToPodsReadyTimeout")
        job(world, "c", "team", cpu=1)
        controlled(world, "c")
        await asyncio.sleep(60)
        assert bound(world) == ["c"]


async def test_a_pod_that_waits_keeps_its_place_when_another_of_its_job_is_late() -> None:
    async with a_world(waitForPodsReady={"timeout": "10s"}).running() as world:
        for name in ("late", "waits"):
            spec = {"terminationGracePeriodSeconds": 30 if name == "late" else 0}
            job(world, name, "team", cpu=8, spec=spec)
            controlled(world, name)
            await asyncio.sleep(1)
        job(world, "later", "team", cpu=8)
        await asyncio.sleep(12)
        assert world.events("late", "EvictedDueToPodsReadyTimeout")
        world.change("waits", lambda pod: pod.metadata.labels.update(read="again"))
        await asyncio.sleep(1)
        await world.delete_and_wait("late", seconds=2)
        assert bound(world) == ["waits"]
