"""A term of leadership: pods are bound once, and every failure undoes what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import PersistentVolume, Pod
from podsched.decide.decision import Decision
from podsched.framework.plugin import ObjectPatch, PermitResult, PreBindPlan
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error, unschedulable
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND, Turn
from podsched.queue import timeouts
from podsched.serve.client.errors import FenceLost, Unavailable
from podsched.term.faulty_pods import PodFault
from podsched.v1 import api_pb2
from support.device_objects import device_class, devices, resource_claim, user
from support.term_world import LOCK, TermWorld, world_of_nodes
from support.volume_world import claim, storage_class, volume

pytestmark = pytest.mark.looptime


async def test_pods_are_bound_once_and_told_of() -> None:
    async with world_of_nodes(n1="4").running() as world:
        for name in "abc":
            world.pod(name)
        await asyncio.sleep(1)
        assert world.nodes_of("a", "b", "c") == ["n1"] * 3
        assert world.events("a", "Scheduled") == ["Successfully assigned default/a to n1"]
        assert world.scheduled("a").status == "True"
        world.check()


async def test_what_was_there_before_the_term_is_scheduled_too() -> None:
    world = world_of_nodes(n1="2")
    world.pod("old", on="n1")
    for name in "ab":
        world.pod(name)
    async with world.running(seconds=1):
        assert sorted(world.nodes_of("a", "b")) == ["", "n1"]
        world.check()


async def test_a_pod_that_nothing_fits_gets_event_and_condition_and_waits() -> None:
    async with world_of_nodes(n1="2").running() as world:
        await world.pod_and_wait("big", cpu="3")
        text = (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        assert world.events("big", "FailedScheduling") == [text]
        condition = world.scheduled("big")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == text
        assert world.place("big") == "unschedulable"


async def test_a_pod_rejected_before_all_plugins_were_asked_says_as_kube_scheduler_not_found() -> (
    None
):
    async with world_of_nodes(n1="4").running() as world:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        # What PreFilter found for it is used again for the next pod.
        await world.pod_and_wait("big", cpu="3")
        await world.pod_and_wait("a", volumes=volumes)
        assert world.scheduled("a").message == (
            '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
        )


async def test_without_any_node_the_text_says_so() -> None:
    async with TermWorld().running() as world:
        await world.pod_and_wait("a")
        assert world.events("a", "FailedScheduling") == ["no nodes available to schedule pods"]
        assert world.scheduled("a").message == "no nodes available to schedule pods"


async def test_without_any_node_no_plugin_has_rejected_a_pod_so_it_backs_off() -> None:
    async with TermWorld().running() as world:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await world.pod_and_wait("a", volumes=volumes, seconds=0.5)
        assert world.scheduled("a").message == "no nodes available to schedule pods"
        assert world.place("a") == "backoff"


async def test_without_post_filter_plugins_a_pod_that_fits_nowhere_loses_its_nomination() -> None:
    world = TermWorld(({"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}},))
    world.node("n1")
    world.pod("a", cpu="5")
    world.change("a", lambda pod: setattr(pod.status, "nominated_node_name", "n1"))
    async with world.running(seconds=1):
        assert world.scheduled("a").message == "0/1 nodes are available: 1 Insufficient cpu."
        assert world.stored("a").status.nominated_node_name == ""


async def test_a_waiting_pod_is_bound_when_a_node_comes_that_it_fits() -> None:
    async with world_of_nodes(full="0").running() as world:
        world.pod("a")
        await asyncio.sleep(20)
        world.node("n1")
        await asyncio.sleep(0.1)
        assert world.nodes_of("a") == ["n1"]


async def test_of_many_pods_that_an_event_wakes_the_most_important_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 1)
    async with world_of_nodes(n1="1").running() as world:
        for name, priority in (("a", 0), ("b", 0), ("urgent", 10)):
            await world.pod_and_wait(name, cpu="2", priority=priority, seconds=5)
        world.node("n2", cpu="2")
        await asyncio.sleep(5)
        assert world.nodes_of("a", "b", "urgent") == ["", "", "n2"]
        world.check()


async def test_so_it_does_if_the_event_comes_while_the_queues_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "AT_ONCE", 1)
    world = world_of_nodes(n1="1")
    _read_queues_slowly(world)
    async with world.running():
        for name, priority in (("a", 0), ("b", 0), ("urgent", 10)):
            never = {"preemptionPolicy": "Never"}
            await world.pod_and_wait(name, cpu="2", priority=priority, seconds=5, **never)
        # The loop reads the queues for this pod.
        await world.pod_and_wait("big", cpu="5", priority=-1, seconds=0.2)
        world.node("n2", cpu="2")
        await asyncio.sleep(5)
        assert world.nodes_of("a", "b", "urgent") == ["", "", "n2"]
        world.check()


def _read_queues_slowly(world: TermWorld) -> None:
    """Have the loop take 0.4 s for its look at the queues."""
    cycle = world.term._admission_cycle
    refresh = cycle.refresh

    async def slow(now: float) -> None:
        await refresh(now)
        await asyncio.sleep(0.4)

    cycle.refresh = slow  # type: ignore[method-assign]


async def test_a_deleting_pod_is_skipped_with_an_event() -> None:
    world = world_of_nodes(n1="4")
    world.pod("going")
    world.change("going", lambda pod: pod.metadata.deletion_timestamp.FromSeconds(1))
    async with world.running(seconds=1):
        text = "skip schedule deleting pod: default/going"
        assert world.events("going", "FailedScheduling") == [text]
        assert world.place("going") == ""
        assert not world.cluster.bound


async def test_pods_of_another_scheduler_are_left_alone() -> None:
    async with world_of_nodes(n1="4").running() as world:
        await world.pod_and_wait("theirs", schedulerName="theirs")
        assert world.nodes_of("theirs") == [""]
        assert world.place("theirs") == ""


async def test_each_profile_schedules_its_own_pods_by_its_own_plugins() -> None:
    off = {"disabled": [{"name": "TaintToleration"}]}
    world = TermWorld(
        [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "careless", "plugins": {"filter": off}},
        ]
    )
    world.node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    async with world.running():
        world.pod("careful")
        await world.pod_and_wait("bold", schedulerName="careless")
        assert world.nodes_of("careful", "bold") == ["", "n1"]


# ---------------------------------------------------------------------- Reserve and Permit


async def test_a_reserve_that_fails_undoes_all_in_reverse_order_and_frees_the_node() -> None:
    world = world_of_nodes(n1="4")
    world.second.on_reserve = lambda pod: (
        unschedulable("books are full") if pod.name == "a" else SUCCESS
    )
    async with world.running():
        await world.pod_and_wait("a", cpu="4", seconds=0.5)
        assert world.log == [
            "Script.reserve a",
            "SecondScript.reserve a",
            "SecondScript.unreserve a",
            "Script.unreserve a",
        ]
        assert len(world.state.cache.assumed) == 0
        await world.pod_and_wait("b", cpu="4", seconds=0.5)
        assert world.nodes_of("a", "b") == ["", "n1"]
        world.check()


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_a_refusal_is_told_as_the_fit_error_of_the_one_node(point: str) -> None:
    world = world_of_nodes(n1="4", n2="4")
    if point == "reserve":
        world.script.on_reserve = lambda pod: unschedulable("not today")
    else:
        world.script.on_permit = lambda pod: PermitResult(unschedulable("not today"))
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        text = "0/1 nodes are available: 1 not today."
        assert world.events("a", "FailedScheduling") == [text]
        assert (world.scheduled("a").reason, world.scheduled("a").message) == (
            "Unschedulable",
            text,
        )
        assert world.place("a") == "unschedulable"
        assert not world.cluster.bound


@pytest.mark.parametrize("point", ["reserve", "permit", "postFilter"])
async def test_a_plugin_that_raises_fails_its_pod_and_not_the_scheduler(point: str) -> None:
    world = world_of_nodes(n1="4")

    def broken(pod: PodInfo) -> Status:
        if pod.name == "a":
            raise KeyError("a bug")
        return SUCCESS

    if point == "reserve":
        world.script.on_reserve = broken
    elif point == "permit":
        world.script.on_permit = lambda pod: PermitResult(broken(pod))
    else:
        runtime = world.state.profiles["default-scheduler"]
        for named in runtime.post_filter:
            named.plugin.post_filter = lambda *_: broken_post_filter()  # type: ignore[method-assign]
    async with world.running():
        await world.pod_and_wait("a", cpu="9" if point == "postFilter" else "1", seconds=0.5)
        await world.pod_and_wait("b", seconds=0.5)
        assert world.nodes_of("a", "b") == ["", "n1"]
        assert "a bug" in world.scheduled("a").message
        assert world.ended is not None
        assert not world.ended.done()
        world.check()


def broken_post_filter() -> None:
    raise KeyError("a bug")


async def test_an_error_is_told_as_one_and_tried_again_after_a_backoff() -> None:
    world = world_of_nodes(n1="4")
    tried: list[float] = []

    def flaky(pod: PodInfo) -> Status:
        tried.append(world.clock())
        return error("books are locked") if len(tried) < 3 else SUCCESS

    world.script.on_reserve = flaky
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        condition = world.scheduled("a")
        assert condition.reason == "SchedulerError"
        assert condition.message == 'running Reserve plugin "Script": books are locked'
        assert world.place("a") == "backoff"
        await asyncio.sleep(10)
        assert world.nodes_of("a") == ["n1"]
        first, second = (b - a for a, b in pairwise(tried))
        assert 0 < first <= 2 < second + 0.01 <= 3.01


async def test_a_loop_that_read_the_queues_slowly_does_not_oversleep_the_end_of_a_backoff() -> None:
    world = world_of_nodes(n1="4")
    tried: list[float] = []

    def flaky(pod: PodInfo) -> Status:
        tried.append(world.clock())
        return error("books are locked") if len(tried) == 1 else SUCCESS

    world.script.on_reserve = flaky
    _read_queues_slowly(world)
    async with world.running():
        world.pod("a")
        await asyncio.sleep(0.9)
        ends = world.state.queue.timeouts.next_wakeup(world.clock())
        assert ends is not None
        await asyncio.sleep(3)
        assert ends <= tried[1] < ends + 0.5


async def test_a_pod_that_must_wait_is_bound_once_every_plugin_has_allowed_it() -> None:
    world = world_of_nodes(n1="4")
    for script in (world.script, world.second):
        script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=60)
    async with world.running():
        await world.pod_and_wait("a")
        [waiting] = world.state.waiting
        assert waiting.node_name == "n1"
        waiting.allow("Script")
        await asyncio.sleep(1)
        assert not world.cluster.bound
        waiting.allow("SecondScript")
        await asyncio.sleep(1)
        assert world.nodes_of("a") == ["n1"]
        assert len(world.state.waiting) == 0
        assert not world.term.binding.under_way
        world.check()


async def test_a_pod_preempted_just_as_it_is_allowed_waits_no_longer_and_is_tried_again() -> None:
    world = world_of_nodes(n1="4")
    waits = [True]
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if waits and waits.pop() else SUCCESS, timeout=600
    )
    async with world.running():
        await world.pod_and_wait("a")
        [waiting] = world.state.waiting
        waiting.allow("Script")
        assert world.term.binding.waiting.preempt(waiting.pod, "DefaultPreemption")
        await asyncio.sleep(0.1)
        assert len(world.state.waiting) == 0
        assert world.log.count("Script.unreserve a") == 1
        assert not world.term.binding.under_way
        world.check()


async def test_a_pod_deleted_just_as_it_is_allowed_gets_no_pre_bind() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=600)
    world.script.on_pre_bind = lambda pod: PreBindPlan()
    async with world.running():
        await world.pod_and_wait("a")
        [waiting] = world.state.waiting
        waiting.allow("Script")
        world.term.binding.waiting.deleted(waiting.pod)
        await world.delete_and_wait("a")
        assert "Script.preBind a" not in world.log
        assert world.log.count("Script.unreserve a") == 1
        world.check()


async def test_a_waiting_pods_node_is_published_as_its_nomination() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=60)
    async with world.running():
        await world.pod_and_wait("a")
        assert world.stored("a").status.nominated_node_name == "n1"
        assert world.nodes_of("a") == [""]


async def test_a_pod_rejected_before_its_nomination_is_seen_keeps_none() -> None:
    """Though its status says already why: it was rejected for the same reason before."""
    world = world_of_nodes(n1="4")

    def wait_briefly(pod: PodInfo) -> PermitResult:
        asyncio.get_running_loop().call_soon(reject)
        return PermitResult(Status(Code.WAIT), timeout=60)

    def reject() -> None:
        [waiting] = world.state.waiting
        waiting.reject("Script", "not today")

    world.script.on_permit = wait_briefly
    async with world.running():
        await world.pod_and_wait("a")
        world.node("n2")
        await asyncio.sleep(10)
        assert world.log.count("Script.unreserve a") == 2
        assert world.stored("a").status.nominated_node_name == ""
        assert not world.state.cache.nominator.node_of("uid-a")


async def test_waiting_too_long_gives_the_place_back_and_wakes_who_was_in_the_way() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if pod.name == "slow" else SUCCESS, timeout=5
    )
    async with world.running():
        await world.pod_and_wait("slow", cpu="4")
        await world.pod_and_wait("next", cpu="4")
        assert world.place("next") == "unschedulable"
        await asyncio.sleep(4)
        assert world.nodes_of("slow", "next") == ["", "n1"]
        assert world.events("slow", "FailedScheduling")[0] == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin Script."
        )
        assert "Script.unreserve slow" in world.log
        assert world.stored("slow").status.nominated_node_name == ""
        world.check()


async def test_a_pod_deleted_while_it_waits_gives_its_place_back() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if pod.name == "gone" else SUCCESS, timeout=600
    )
    async with world.running():
        await world.pod_and_wait("gone", cpu="4")
        await world.delete_and_wait("gone", seconds=0.1)
        assert len(world.state.cache.assumed) == 0
        assert len(world.state.waiting) == 0
        await world.pod_and_wait("next", cpu="4", seconds=0.5)
        assert world.nodes_of("next") == ["n1"]
        assert not world.events("gone", "FailedScheduling")
        world.check()


async def test_a_pod_deleted_while_it_waits_gives_its_volume_to_another() -> None:
    world = world_of_nodes(n="4")
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if pod.name == "first" else SUCCESS, timeout=600
    )
    for one in (storage_class("local"), volume("v"), claim("c"), claim("d")):
        world.cluster.create(from_manifest(one).message)
    async with world.running():
        for name, mounted in (("first", "c"), ("second", "d")):
            source = {"persistentVolumeClaim": {"claimName": mounted}}
            await world.pod_and_wait(name, volumes=[{"name": "x", **source}])
        assert world.place("second") == "unschedulable"
        await world.delete_and_wait("first", seconds=20)
        taken = world.cluster.object("PersistentVolume", "v")
        assert isinstance(taken, PersistentVolume)
        assert taken.spec.claim_ref.name == "d"


@pytest.mark.parametrize("asked_by", ["claim", "resource", "resource, tried before"])
async def test_a_pod_deleted_while_it_waits_gives_its_device_to_another(asked_by: str) -> None:
    world, resource = world_of_nodes(n="4"), "example.com/gpu"
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if pod.name == "first" else SUCCESS, timeout=600
    )
    for one in (device_class(resource=resource), devices("n", 1)):
        world.cluster.create(one)
    async with world.running():
        for name in ("first", "second"):
            if asked_by == "claim":
                world.cluster.create(resource_claim(f"of-{name}"))
                world.cluster.create(user(name, claim=f"of-{name}"))
            else:
                requests = {"requests": {resource: "1"}}
                made = world.pod(
                    name, containers=[{"name": "c", "image": "x", "resources": requests}]
                )
                if "before" in asked_by:
                    made.status.extended_resource_claim_status.resource_claim_name = "is-gone"
                    world.cluster.update(made)
            await asyncio.sleep(1)
        assert world.place("second") == "unschedulable"
        await world.delete_and_wait("first", seconds=20)
        assert world.nodes_of("second") == ["n"]


async def test_a_change_of_a_pod_that_waits_counts_when_it_is_tried_again() -> None:
    world = TermWorld()
    world.node("n1", labels={"zone": "a"})
    seen: list[dict[str, str]] = []

    def permit(pod: PodInfo) -> PermitResult:
        seen.append(dict(pod.cls.labels))
        return PermitResult(Status(Code.WAIT), timeout=5)

    world.script.on_permit = permit
    async with world.running():
        await world.pod_and_wait("a")
        world.change("a", lambda pod: pod.metadata.labels.update({"version": "2"}))
        await asyncio.sleep(9)
        assert seen[:2] == [{}, {"version": "2"}]
        world.check()


# ---------------------------------------------------------------------- PreBind


def annotate(name: str, value: str) -> ObjectPatch:
    patch = {"metadata": {"annotations": {"seen": value}}}
    return ObjectPatch("Pod", "default", name, patch)


async def test_pre_bind_writes_its_patches_then_waits_for_the_cluster_then_the_pod_is_bound() -> (
    None
):
    world = world_of_nodes(n1="4")

    def ready(cluster: object) -> Status:
        there = world.informer.get("Node", "signal") is not None
        return SUCCESS if there else Status(Code.PENDING, ("not yet",))

    world.script.on_pre_bind = lambda pod: PreBindPlan(
        patches=(annotate(pod.name, "yes"),), wait=ready, timeout=60
    )
    async with world.running():
        await world.pod_and_wait("a", seconds=5)
        assert world.stored("a").metadata.annotations["seen"] == "yes"
        assert world.nodes_of("a") == [""]
        assert world.stored("a").status.nominated_node_name == "n1"
        world.node("signal", unschedulable=True)
        await asyncio.sleep(0.1)
        assert world.nodes_of("a") == ["n1"]
        assert world.log[-1] == "SecondScript.postBind a"
        world.check()


async def test_pre_bind_plugins_run_one_after_another() -> None:
    world = world_of_nodes(n1="4")
    for script in (world.script, world.second):
        script.on_pre_bind = lambda pod: PreBindPlan()
    async with world.running():
        await world.pod_and_wait("a")
        assert world.log == [
            "Script.reserve a",
            "SecondScript.reserve a",
            "Script.permit a",
            "SecondScript.permit a",
            "Script.preBind a",
            "SecondScript.preBind a",
            "Script.postBind a",
            "SecondScript.postBind a",
        ]


async def test_a_pre_bind_that_wants_nothing_is_skipped() -> None:
    async with world_of_nodes(n1="4").running() as world:
        await world.pod_and_wait("a")
        assert not [line for line in world.log if "preBind" in line]
        assert world.nodes_of("a") == ["n1"]
        assert world.stored("a").status.nominated_node_name == ""


async def test_the_node_of_a_pod_whose_pre_bind_only_writes_is_not_published_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="4")
    monkeypatch.setattr(world.cluster, "patch_pod_statuses", None)
    world.script.on_pre_bind = lambda pod: PreBindPlan(patches=(annotate(pod.name, "yes"),))
    async with world.running():
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == ["n1"]


FAILING_PLANS = {
    "its answer": (PreBindPlan(error("no luck")), 'running PreBind plugin "Script": no luck'),
    "a patch": (
        PreBindPlan(patches=(ObjectPatch("Node", "", "nobody", {}),)),
        'running PreBind plugin "Script": nodes "nobody" not found',
    ),
    "time being up": (
        PreBindPlan(wait=lambda cluster: Status(Code.PENDING, ("still waiting",)), timeout=3),
        'running PreBind plugin "Script": still waiting: context deadline exceeded',
    ),
    "its wait raising": (
        PreBindPlan(wait=lambda cluster: broken_wait(), timeout=3),
        'running PreBind plugin "Script": a bug',
    ),
}


def broken_wait() -> Status:
    raise ValueError("a bug")


@pytest.mark.parametrize("how", FAILING_PLANS)
async def test_a_pre_bind_that_fails_gives_everything_back_and_wakes_who_was_in_the_way(
    how: str,
) -> None:
    world = world_of_nodes(n1="4")
    plan, text = FAILING_PLANS[how]

    def pre_bind(pod: PodInfo) -> PreBindPlan:
        return plan if pod.name == "a" else PreBindPlan()

    world.script.on_pre_bind = pre_bind
    async with world.running():
        world.pod("a", cpu="4")
        world.pod("next", cpu="4")
        await asyncio.sleep(3.5)
        assert world.nodes_of("a", "next") == ["", "n1"]
        assert "Script.unreserve a" in world.log
        assert world.events("a", "FailedScheduling")[0] == text
        assert len(world.state.cache.assumed) == 0
        world.check()


@pytest.mark.parametrize("waits_at", ["permit", "pre_bind"])
async def test_a_pod_gives_its_place_back_when_its_deletion_begins_though_finalizers_keep_it(
    waits_at: str,
) -> None:
    world = world_of_nodes(n1="4")
    waits = Status(Code.WAIT if waits_at == "permit" else Code.PENDING)
    if waits_at == "permit":
        world.script.on_permit = lambda pod: PermitResult(
            waits if pod.name == "going" else SUCCESS, timeout=600
        )
    else:
        world.script.on_pre_bind = lambda pod: PreBindPlan(
            wait=(lambda cluster: waits) if pod.name == "going" else None, timeout=600
        )
    async with world.running():
        await world.pod_and_wait("going", cpu="4")
        assert len(world.state.cache.assumed) == 1
        world.change("going", lambda pod: pod.metadata.deletion_timestamp.FromSeconds(1))
        world.pod("next", cpu="4")
        await asyncio.sleep(3)
        assert world.nodes_of("going", "next") == ["", "n1"]
        assert world.place("going") == ""
        skipped = "skip schedule deleting pod: default/going"
        assert skipped in world.events("going", "FailedScheduling")
        world.check()


async def test_a_pod_deleted_in_pre_bind_gives_its_place_back() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_pre_bind = lambda pod: PreBindPlan(
        wait=lambda cluster: Status(Code.PENDING), timeout=600
    )
    async with world.running():
        await world.pod_and_wait("gone", cpu="4")
        assert len(world.state.cache.assumed) == 1
        await world.delete_and_wait("gone", seconds=0.1)
        assert len(world.state.cache.assumed) == 0
        assert world.log[-2:] == ["SecondScript.unreserve gone", "Script.unreserve gone"]
        assert world.place("gone") == ""
        world.check()


# ---------------------------------------------------------------------- Bind


async def test_a_bind_that_is_refused_is_undone_and_tried_again_with_error_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="4")
    real = world.cluster.bind_pods
    refusals = [1, 1]

    async def refusing(
        bindings: list[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> object:
        if refusals:
            refusals.pop()
            return [api_pb2.BatchResult(code=13, reason="BUG", message="no")] * len(bindings)
        return await real(bindings, fence=fence)

    monkeypatch.setattr(world.cluster, "bind_pods", refusing)
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        assert (world.scheduled("a").reason, world.scheduled("a").message) == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": no',
        )
        assert world.place("a") == "backoff"
        assert world.log[-2:] == ["SecondScript.unreserve a", "Script.unreserve a"]
        await asyncio.sleep(10)
        assert world.nodes_of("a") == ["n1"]
        world.check()


async def test_binds_wait_out_an_api_server_that_is_away_for_a_while() -> None:
    async with world_of_nodes(n1="4").running() as world:
        world.cluster.fault = Unavailable("no server")
        world.pod("a")
        await asyncio.sleep(10)
        world.cluster.fault = None
        await asyncio.sleep(2)
        assert world.nodes_of("a") == ["n1"]
        assert not world.events("a", "FailedScheduling")
        world.check()


async def test_a_pod_deleted_while_it_is_being_bound_frees_its_node() -> None:
    async with world_of_nodes(n1="4").running() as world:
        world.cluster.fault = Unavailable("no server")
        await world.pod_and_wait("gone", cpu="4")
        world.cluster.delete("Pod", "default/gone")
        world.cluster.fault = None
        world.pod("next", cpu="4")
        await asyncio.sleep(3)
        assert world.nodes_of("next") == ["n1"]
        world.check()


async def test_a_post_bind_that_raises_leaves_the_other_pods_alone() -> None:
    world = world_of_nodes(n1="4")

    def broken(pod: PodInfo) -> None:
        raise ValueError("a bug")

    world.script.on_post_bind = broken
    async with world.running():
        world.pod("a")
        await world.pod_and_wait("b")
        assert world.events("a", "Scheduled")
        assert world.events("b", "Scheduled")
        assert "SecondScript.postBind b" in world.log


# ---------------------------------------------------------------------- nominations, the fence


async def test_the_nominated_node_is_taken_though_another_scores_higher() -> None:
    world = world_of_nodes(n1="2", n2="64")
    pod = world.pod("a", schedulingGates=[{"name": "wait"}])
    pod.status.nominated_node_name = "n1"
    world.cluster.update(pod)
    async with world.running(seconds=1):
        world.change("a", lambda pod: pod.spec.ClearField("scheduling_gates"))
        await asyncio.sleep(1)
        assert world.nodes_of("a") == ["n1"]


@pytest.mark.parametrize("write", ["bind", "patch", "status"])
async def test_a_lost_fence_ends_the_term_whatever_write_notices_it(
    write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of_nodes(n1="4")
    if write == "patch":
        world.script.on_pre_bind = lambda pod: PreBindPlan(patches=(annotate(pod.name, "yes"),))

        async def accept(
            patches: list[api_pb2.PodStatusPatch], *, fence: api_pb2.Fence
        ) -> list[api_pb2.BatchResult]:
            return [api_pb2.BatchResult()] * len(patches)

        monkeypatch.setattr(world.cluster, "patch_pod_statuses", accept)
    async with world.running():
        assert world.ended is not None
        world.cluster.new_term(LOCK)
        await asyncio.sleep(1)
        assert not world.ended.done()
        await world.pod_and_wait("a", cpu="9" if write == "status" else "1")
        with pytest.raises(FenceLost):
            await world.ended
        assert not world.cluster.bound


async def test_the_end_of_a_term_says_nothing_of_pods_that_were_waiting() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=600)
    async with world.running():
        await world.pod_and_wait("a")
        assert world.ended is not None
        world.ended.cancel()
        await asyncio.gather(world.ended, return_exceptions=True)
        await asyncio.sleep(5)
        assert not world.events("a", "FailedScheduling")
        assert "Script.unreserve a" not in world.log


async def test_a_bug_in_the_loop_ends_the_term_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of_nodes(n1="4")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.state.queue.attempts, "pop_batch", broken)
    async with world.running():
        assert world.ended is not None
        await world.pod_and_wait("a")
        with pytest.raises(PodFault) as ended:
            await world.ended
        assert isinstance(ended.value.__cause__, ZeroDivisionError)
        world.ended = asyncio.create_task(asyncio.sleep(0))


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_pods_that_are_turned_down_at_once_do_not_wake_each_other(point: str) -> None:
    world = world_of_nodes(n1="4")
    tried: list[str] = []

    def refuse(pod: PodInfo) -> Status:
        tried.append(pod.name)
        assert len(tried) < 100, "they go round and round"
        return unschedulable("no")

    if point == "reserve":
        world.script.on_reserve = refuse
    else:
        world.script.on_permit = lambda pod: PermitResult(refuse(pod))
    async with world.running():
        world.pod("a")
        await world.pod_and_wait("b", cpu="2", seconds=5)
        assert len(tried) <= 4


async def test_a_pod_that_found_no_room_beside_one_that_is_turned_down_gets_it() -> None:
    # Without Reserve plugins of its own the profile decides on pods of one class together.
    world = TermWorld([{"plugins": {"permit": {"enabled": [{"name": "Script"}]}}}])
    world.node("n1")
    world.script.on_permit = lambda pod: PermitResult(
        unschedulable("no") if pod.name == "a" else SUCCESS
    )
    world.pod("a", cpu="3")
    world.pod("b", cpu="3")
    async with world.running(seconds=1.5):
        assert world.nodes_of("a", "b") == ["", "n1"]


async def test_a_binding_cycle_that_raises_ends_the_term_and_its_pod_is_not_left_assumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=600)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async with world.running():
        assert world.ended is not None
        await world.pod_and_wait("a")
        [waiting] = world.state.waiting
        monkeypatch.setattr(world.meter, "permitted", broken)
        for name in ("Script", "SecondScript"):
            waiting.allow(name)
        with pytest.raises(PodFault) as raised:
            await world.ended
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert [blamed.metadata.name for blamed in raised.value.pods] == ["a"]
        assert "binding cycle of default/a" in raised.value.__notes__[0]
        assert "uid-a" not in world.state.cache.assumed
        assert world.place("a") == "backoff"
        assert "Script.unreserve a" in world.log
        world.ended = asyncio.create_task(asyncio.sleep(0))


async def test_a_pod_whose_node_another_scheduler_took_is_decided_on_again_with_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not before they have been seen, and then at once; no failure is reported."""
    world = world_of_nodes(n1="1")
    bind = world.cluster.bind_pods
    asked: list[tuple[str, int]] = []

    async def overtaken(
        bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        asked.extend((b.node_name, b.revision) for b in bindings)
        if len(asked) > 1:
            return await bind(bindings, fence=fence)
        asked_at = world.cluster.revision
        assert bindings[0].revision == asked_at
        asyncio.get_running_loop().call_later(1, world.pod, "theirs")
        asyncio.get_running_loop().call_later(1, lambda: world.change("theirs", move))
        asyncio.get_running_loop().call_later(2, world.node, "n2")
        return [api_pb2.BatchResult(code=10, reason="CONFLICT", resource_version=asked_at + 2)]

    def move(pod: Pod) -> None:
        pod.spec.scheduler_name, pod.spec.node_name = "other", "n1"

    monkeypatch.setattr(world.cluster, "bind_pods", overtaken)
    async with world.running():
        world.pod("ours")
        await asyncio.sleep(0.9)
        assert "uid-ours" in world.state.cache.assumed
        await asyncio.sleep(0.5)
        assert world.place("ours") == "unschedulable"
        await asyncio.sleep(2)
        assert [node for node, _ in asked] == ["n1", "n2"]
        assert world.nodes_of("ours") == ["n2"]
        assert len(world.events("ours", "FailedScheduling")) == 1
        world.check()


async def test_others_have_their_turn_between_decisions_that_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, seen = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: used)
    world = world_of_nodes(n1="8")
    decide = world.decider.decide

    def long(*pods: Any, **how: Any) -> list[Decision]:
        nonlocal used
        used += ROUND
        seen.append("decided")
        asyncio.get_running_loop().call_soon(seen.append, "other")
        return decide(*pods, **how)

    monkeypatch.setattr(world.decider, "decide", long)
    for number in range(4):
        world.pod(f"p{number}", cpu=f"{100 + number}m")
    await world.run_for(1)
    assert seen[:4] == ["decided", "other"] * 2


async def test_a_term_that_ends_by_itself_decides_for_no_more_pods_of_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nobody would wait for the outcome of their bindings."""

    async def slowly(turn: Turn) -> None:
        await asyncio.sleep(1)

    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world = world_of_nodes(n1="4")
    async with world.running():
        monkeypatch.setattr(Turn, "is_over", True)
        monkeypatch.setattr(Turn, "give_way", slowly)
        world.pod("a")
        world.pod("b")
        for _ in range(100):
            await asyncio.sleep(0.1)
            if world.nodes_of("a")[0]:
                break
        await world.term.finish()
        await asyncio.sleep(5)
        assert world.nodes_of("a", "b") == ["n1", ""]


async def test_a_pod_that_still_waits_when_a_term_has_ended_by_itself_is_not_bound() -> None:
    """Nobody would wait for the outcome of its binding."""
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=600.0)
    async with world.running():
        await world.pod_and_wait("late")
        [waiting] = world.state.waiting
        await world.term.finish()
        waiting.allow("Script")
        await asyncio.sleep(1)
        assert world.nodes_of("late") == [""]


@pytest.mark.parametrize("gone", ["p20", "p70", "p139"])
async def test_a_pod_that_is_gone_after_others_had_their_turn_is_not_decided_on(
    gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, decided = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: used)
    world = world_of_nodes(n1="4")
    decide = world.decider.decide

    def long(*pods: Any, **how: Any) -> list[Decision]:
        nonlocal used
        used += ROUND
        decisions = decide(*pods, **how)
        if not decided:
            asyncio.get_running_loop().call_soon(world.cluster.delete, "Pod", f"default/{gone}")
        decided.extend(decision.queued.info.name for decision in decisions)
        return decisions

    monkeypatch.setattr(world.decider, "decide", long)
    for number in range(140):
        world.pod(f"p{number}", cpu="5")
    await world.run_for(1)
    assert sorted(decided) == sorted({f"p{number}" for number in range(140)} - {gone})


async def test_the_revision_of_a_term_includes_its_evictions_and_nominations() -> None:
    world = TermWorld()
    world.node("n1", cpu="1")
    async with world.running():
        world.pod("victim", on="n1", terminationGracePeriodSeconds=60)
        world.pod("urgent", priority=10)
        await asyncio.sleep(1)
        written = [int(world.stored(n).metadata.resource_version) for n in ("victim", "urgent")]
        assert world.stored("victim").metadata.HasField("deletion_timestamp")
        assert world.term.revision == max(written)
