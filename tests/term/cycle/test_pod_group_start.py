"""Starts of gangs, broken off at any point: no gang stays partly bound."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Pod, PodGroup
from podsched.decide.decision import Decision
from podsched.decide.pod_group_members import GroupMembers
from podsched.framework.plugin import PermitResult
from podsched.framework.pod_groups import GroupTrial
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from podsched.lib.event_loop import Turn
from podsched.serve.client.errors import Unavailable
from podsched.term.cycle.admission_cycle import AdmissionCycle
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.pod_group_start import GroupStart
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2
from podsched.v1.frames_pb2 import RawWatchResponse
from support.dying_binder import DyingBinder
from support.extender_world import ScriptedExtender
from support.term_world import WALL, TermWorld, world_of_nodes

pytestmark = pytest.mark.looptime

Bindings = Sequence[api_pb2.Binding]
Results = Sequence[api_pb2.BatchResult]


class UnwillingCluster(FakeCluster):
    """A cluster that takes no patches of other objects than pods."""

    async def patch_many(self, patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        raise Unavailable("not today")


class LateCluster(FakeCluster):
    """A cluster whose watches show each change only after the answer to the call that made it."""

    async def watch_stream(self, request: Any) -> AsyncGenerator[RawWatchResponse, None]:
        async for response in super().watch_stream(request):
            await asyncio.sleep(0.05)
            yield response


def gang(
    world: TermWorld,
    *names: str,
    of: str = "g",
    min_count: int = 0,
    mode: str = "Pod",
    **spec: Any,
) -> None:
    """Make a gang of these members; all of them start together unless ``min_count`` says less."""
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = of, "default"
    made.spec.scheduling_policy.gang.min_count = min_count or len(names)
    made.spec.disruption_mode = mode
    made.spec.priority = spec.get("priority", 0)
    world.cluster.create(made)
    add(world, *names, of=of, **spec)


def add(world: TermWorld, *names: str, of: str = "g", **spec: Any) -> None:
    for name in names:
        world.pod(name, schedulingGroup={"podGroupName": of}, **spec)


def conditions(world: TermWorld, name: str = "g") -> dict[str, str]:
    """The status of each condition of a group, by type."""
    found = world.cluster.object("PodGroup", f"default/{name}")
    assert isinstance(found, PodGroup)
    return {one.type: one.status for one in found.status.conditions}


def bound(world: TermWorld) -> list[str]:
    pods = (pod for pod in world.cluster.objects("Pod") if isinstance(pod, Pod))
    return sorted(pod.metadata.name for pod in pods if pod.spec.node_name)


STARTED = {"PodGroupScheduled": "True"}
BEING_BOUND = {"PodGroupScheduled": "True", "podsched.io/Binding": "True"}
TAKEN_BACK = {"PodGroupScheduled": "False"}


def refresh_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cache be shown what others do before a gang is decided for again."""
    refresh = AdmissionCycle.refresh

    async def slowly(cycle: AdmissionCycle, now: float) -> None:
        await refresh(cycle, now)
        await asyncio.sleep(0.1)

    monkeypatch.setattr(AdmissionCycle, "refresh", slowly)


async def partly_bound(world: TermWorld, count: int) -> None:
    """Run a term that dies in the middle of the bindings of gang g, of members a, b, c, d."""
    binder = DyingBinder(world)
    binder.dies_after = count
    async with world.running():
        gang(world, "a", "b", "c", "d")
        await asyncio.sleep(1)
    assert len(bound(world)) == count
    assert conditions(world) == BEING_BOUND


async def test_a_late_member_that_fits_nowhere_does_not_take_back_a_gang_that_is_being_bound() -> (
    None
):
    world = world_of_nodes(n1="4")
    cluster, answered = world.cluster, asyncio.Event()
    patch_many = cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        if any(patch.kind == "PodGroup" for patch in patches):
            await answered.wait()
        return await patch_many(patches, fence=fence)

    cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(0.5)
        add(world, "late", cpu="100")
        await asyncio.sleep(0.5)
        answered.set()
        await asyncio.sleep(5)
    assert bound(world) == ["a", "b"]
    assert conditions(world) == STARTED


async def test_members_that_are_being_preempted_do_not_count_for_one_that_waits() -> None:
    world = TermWorld()
    for name in ("n1", "n2", "n3"):
        world.node(name, cpu="2")
    evict = world.cluster.evict_pods

    async def slow(evictions: Any, *, fence: api_pb2.Fence) -> Results:
        result = await evict(evictions, fence=fence)
        await asyncio.sleep(0.5)  # before the last victim goes
        return result

    world.cluster.evict_pods = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b", "c", "waits", min_count=2, mode="PodGroup", cpu="2")
        await asyncio.sleep(1)
        assert len(bound(world)) == 3
        gang(world, "x", of="important", priority=10, cpu="2")
        await asyncio.sleep(20)
    assert bound(world) == ["x"]


# ---------------------------------------------------------------------- the record


async def test_a_gang_is_recorded_before_its_first_binding_and_not_after_the_last() -> None:
    world = world_of_nodes(n1="4")
    seen: list[dict[str, str]] = []
    DyingBinder(world).before = lambda: seen.append(conditions(world))
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(1)
        assert seen == [BEING_BOUND]
        assert conditions(world) == STARTED
        world.check()


async def test_a_term_that_ends_by_itself_leaves_no_record_of_a_gang_that_it_has_bound() -> None:
    world = world_of_nodes(n1="4")
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        if bound(world):
            await asyncio.sleep(0.5)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(0.1)
        assert bound(world) == ["a", "b"]
        assert conditions(world) == BEING_BOUND
        await world.term.finish()
    assert conditions(world) == STARTED


async def test_a_term_that_ends_by_itself_awaits_what_is_bound_while_records_are_written() -> None:
    """Else the next state does not know the room that the pod takes."""
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: (
        PermitResult(Status(Code.WAIT), timeout=600.0) if pod.name == "late" else PermitResult()
    )
    patch_many, bind_pods = world.cluster.patch_many, world.cluster.bind_pods

    async def slow_patch(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        if bound(world):
            await asyncio.sleep(4)
        return await patch_many(patches, fence=fence)

    async def slow_bind(bindings: Bindings, *, fence: api_pb2.Fence, **more: Any) -> Results:
        if any(binding.name == "late" for binding in bindings):
            await asyncio.sleep(1)
        return await bind_pods(bindings, fence=fence, **more)

    world.cluster.patch_many = slow_patch  # type: ignore[method-assign]
    world.cluster.bind_pods = slow_bind  # type: ignore[method-assign]
    async with world.running():
        late = world.pod("late")
        gang(world, "a", "b")
        await asyncio.sleep(0.5)
        finishing = asyncio.create_task(world.term.finish())
        await asyncio.sleep(3)
        waiting = world.state.waiting.get(late.metadata.uid)
        assert waiting is not None
        waiting.allow("Script")
        await finishing
        assert bound(world) == ["a", "b", "late"]


async def test_nothing_of_a_start_that_is_over_waits_for_the_garbage_collector() -> None:
    world = world_of_nodes(n1="4")
    rejected = "c"
    world.script.on_permit = lambda pod: PermitResult(
        unschedulable("not this one") if pod.name == rejected else SUCCESS
    )
    async with world.running():
        gang(world, "warm", "up", of="first")
        await asyncio.sleep(1)
        gc.collect()
        gc.disable()
        try:
            gang(world, "a", "b", of="bound")
            gang(world, "c", "d", of="rejected")
            await asyncio.sleep(1)
            assert bound(world) == ["a", "b", "up", "warm"]
            left = [one.group.key for one in gc.get_objects() if type(one) is GroupStart]
            # Other tests may have left starts of their own.
            assert not {"default/bound", "default/rejected"}.intersection(left)
        finally:
            gc.enable()


@pytest.mark.parametrize("after", [0, 5])
async def test_a_gang_that_gets_the_name_of_one_that_was_being_bound_is_recorded_too(
    after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh_slowly(monkeypatch)
    world = world_of_nodes(n1="4")
    binder = DyingBinder(world)

    def delete() -> None:
        binder.before = lambda: None
        for kind, name in (("Pod", "a"), ("Pod", "b"), ("PodGroup", "g")):
            world.cluster.delete(kind, f"default/{name}")
        asyncio.get_running_loop().call_later(after, make_again)

    def make_again() -> None:
        binder.before = lambda: seen.append(conditions(world))
        gang(world, "c", "d")

    binder.before = delete
    seen = list[dict[str, str]]()
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(6)
        assert bound(world) == ["c", "d"]
        assert seen == [BEING_BOUND]


async def test_failures_of_a_gang_that_is_gone_do_not_count_for_one_that_gets_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh_slowly(monkeypatch)
    world = world_of_nodes(n1="4")
    binder = DyingBinder(world)
    binder.refused = {"b", "d"}

    def act() -> None:
        if binder.calls == 1:
            for kind, name in (("Pod", "a"), ("Pod", "b"), ("PodGroup", "g")):
                world.cluster.delete(kind, f"default/{name}")
        if binder.calls == 3:
            binder.refused = set()

    binder.before = act
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(5)
        gang(world, "c", "d")
        await asyncio.sleep(5)
        assert bound(world) == ["c", "d"]
        assert world.events("c", "PodGroupIncomplete") == []
        world.check()


async def test_a_gang_whose_start_cannot_be_recorded_is_not_bound() -> None:
    loop = asyncio.get_running_loop()
    world = TermWorld(cluster=UnwillingCluster(now=lambda: WALL + loop.time()))
    world.node("n1")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(8)
        assert bound(world) == []
        assert "not today" in world.scheduled("a").message
        world.check()


async def test_single_members_and_basic_groups_need_no_record() -> None:
    world = world_of_nodes(n1="4")
    seen: list[dict[str, str]] = []
    DyingBinder(world).before = lambda: seen.append(conditions(world))
    async with world.running():
        gang(world, "a", "b", min_count=1)
        await asyncio.sleep(1)
        add(world, "c")
        await asyncio.sleep(1)
        assert bound(world) == ["a", "b", "c"]
        assert not any("podsched.io/Binding" in one for one in seen)


# ---------------------------------------------------------------------- Permit and PreBind


async def test_a_member_that_permit_rejects_takes_all_along_before_any_is_bound() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(
        unschedulable("not this one") if pod.name == "c" else SUCCESS
    )
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(1)
        assert bound(world) == []
        assert len(world.state.cache.assumed) == 0
        assert world.scheduled("a").message == (
            "another pod of the pod group was rejected: 0/1 nodes are available: 1 not this one."
        )
        world.check()


async def test_gangs_that_permit_rejects_at_once_do_not_wake_each_other() -> None:
    world = world_of_nodes(n1="4")
    tried: list[str] = []

    def on_permit(pod: PodInfo) -> PermitResult:
        tried.append(pod.name)
        if len(tried) > 100:
            world.script.on_permit = lambda pod: PermitResult()  # They go round and round.
        return PermitResult(unschedulable("not this one"))

    world.script.on_permit = on_permit
    async with world.running():
        gang(world, "a", "b", of="g")
        gang(world, "c", "d", of="h")
        await asyncio.sleep(5)
        assert len(tried) <= 8
        world.check()


async def test_members_wait_for_one_that_permit_holds_and_go_with_it() -> None:
    world = world_of_nodes(n1="4")

    def on_permit(pod: PodInfo) -> PermitResult:
        return PermitResult(Status(Code.WAIT), timeout=30.0) if pod.name == "b" else PermitResult()

    world.script.on_permit = on_permit
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(29)
        assert bound(world) == []
        world.script.on_permit = lambda pod: PermitResult()
        await asyncio.sleep(3)
        assert bound(world) == ["a", "b"]
        world.check()


def waits_at_permit(world: TermWorld, *names: str) -> None:
    """Let Permit hold these pods for ten minutes."""
    world.script.on_permit = lambda pod: (
        PermitResult(Status(Code.WAIT), timeout=600.0) if pod.name in names else PermitResult()
    )


@pytest.mark.parametrize("waiting", ["ab", "a"])
async def test_a_preempted_member_takes_all_along_at_once_while_others_wait(waiting: str) -> None:
    world = world_of_nodes(n1="1", n2="2")
    waits_at_permit(world, *waiting)
    async with world.running():
        gang(world, "a", min_count=2)
        add(world, "b", cpu="2")
        await asyncio.sleep(1)
        assert len(world.state.cache.assumed) == 2
        world.pod("important", cpu="2", priority=10)
        await asyncio.sleep(5)
        assert bound(world) == ["important"]
        assert world.stored("b"), "it is not evicted"
        world.check()


@pytest.mark.parametrize("waiting", ["ab", "a"])
async def test_a_deleted_member_takes_all_along_at_once_while_others_wait(waiting: str) -> None:
    world = world_of_nodes(n1="2")
    waits_at_permit(world, *waiting)
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        world.cluster.delete("Pod", "default/b")
        await world.pod_and_wait("other", cpu="2", seconds=5)
        assert bound(world) == ["other"]
        assert world.scheduled("a").message.endswith("removed" if waiting == "a" else "removed.")
        world.check()


async def test_a_gang_that_was_preempted_at_permit_and_starts_elsewhere_is_not_taken_back() -> None:
    world = TermWorld()
    world.node("n1", cpu="1", labels={"disk": "fast"})
    world.node("n2", cpu="1")
    waits_at_permit(world, "a", "b")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        assert len(world.state.cache.assumed) == 2
        waits_at_permit(world)
        world.node("n3", cpu="1")
        world.pod("important", priority=10, nodeSelector={"disk": "fast"})
        await asyncio.sleep(4)
        assert bound(world) == ["a", "b", "important"]
        await asyncio.sleep(20)
        assert bound(world) == ["a", "b", "important"]
        assert conditions(world) == STARTED
        world.check()


async def test_a_member_that_the_gang_does_not_need_frees_its_room_while_others_wait() -> None:
    world = world_of_nodes(n1="3")
    waits_at_permit(world, "a", "b", "c")
    async with world.running():
        gang(world, "a", "b", "c", min_count=2)
        await asyncio.sleep(1)
        world.cluster.delete("Pod", "default/c")
        await world.pod_and_wait("other", seconds=5)
        assert bound(world) == ["other"]
        for pod in world.state.waiting:
            pod.allow("Script")
        await asyncio.sleep(1)
        assert bound(world) == ["a", "b", "other"]
        world.check()


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_late_member_waits_for_the_gang_that_it_counts_on(is_allowed: bool) -> None:
    world = world_of_nodes(n1="4")
    waits_at_permit(world, "a", "b")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        add(world, "late", "gone")
        await asyncio.sleep(1)
        world.cluster.delete("Pod", "default/gone")
        await asyncio.sleep(1)
        assert bound(world) == []
        assert len(world.state.cache.assumed) == 3
        for pod in world.state.waiting:
            if is_allowed:
                pod.allow("Script")
            else:
                pod.reject("Script", "not this one")
        await asyncio.sleep(1)
        assert bound(world) == (["a", "b", "late"] if is_allowed else [])
        if is_allowed:
            assert conditions(world) == STARTED
        world.check()


async def test_a_late_member_does_not_start_alone_if_its_gang_fails_while_it_is_decided_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_decision = GroupMembers.add

    def add_and_reject(of: GroupMembers, trial: GroupTrial, decision: Decision) -> bool:
        world.script.on_permit = lambda pod: PermitResult(
            unschedulable("not this one") if pod.name in "ab" else SUCCESS
        )
        for pod in world.state.waiting:
            pod.reject("Script", "not this one")
        return add_decision(of, trial, decision)

    async def slowly(turn: Turn) -> None:
        await asyncio.sleep(0.1)

    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    monkeypatch.setattr(Turn, "give_way", slowly)
    world = world_of_nodes(n1="4")
    waits_at_permit(world, "a", "b")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        assert len(world.state.waiting) == 2
        monkeypatch.setattr(GroupMembers, "add", add_and_reject)
        add(world, "late")
        await asyncio.sleep(5)
        assert bound(world) == []
        world.check()


async def test_a_late_member_at_permit_goes_with_the_gang_that_it_counts_on() -> None:
    world = world_of_nodes(n1="4")
    waits_at_permit(world, "a", "b", "late")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        add(world, "late")
        await asyncio.sleep(1)
        assert len(world.state.waiting) == 3
        waiting = world.state.waiting.get("uid-a")
        assert waiting is not None
        world.script.on_permit = lambda pod: PermitResult(unschedulable("not today"))
        waiting.reject("Script", "not this one")
        await asyncio.sleep(0.5)
        assert len(world.state.cache.assumed) == 0
        world.check()


async def test_a_member_that_waits_is_undone_when_its_wait_ends_if_the_cycle_of_its_gang_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="2")
    permit, failures = FollowUp.permit, ["once"]

    def failing(self: FollowUp, *args: Any) -> bool:
        if args[1].pod.name == "b" and failures:
            raise RuntimeError(failures.pop())
        return permit(self, *args)

    monkeypatch.setattr(FollowUp, "permit", failing)
    waits_at_permit(world, "a")
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(1)
        world.script.on_permit = lambda pod: PermitResult()
        await asyncio.sleep(700)
        assert bound(world) == ["a", "b"]
        world.check()


# ---------------------------------------------------------------------- bindings that fail


async def test_a_member_whose_binding_failed_once_is_bound_at_once() -> None:
    world = world_of_nodes(n1="4")
    DyingBinder(world).refuse_once("b")
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(0.5)
        assert bound(world) == ["a", "b", "c"]
        assert conditions(world) == STARTED
        world.check()


async def test_a_gang_whose_missing_member_another_client_has_bound_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refresh_slowly(monkeypatch)
    loop = asyncio.get_running_loop()
    world = TermWorld(cluster=LateCluster(now=lambda: WALL + loop.time()))
    world.node("n1")
    world.node("n2", unschedulable=True)
    binder = DyingBinder(world)

    def bind_elsewhere() -> None:
        binder.before = lambda: None
        world.change("b", lambda pod: setattr(pod.spec, "node_name", "n2"))

    binder.before = bind_elsewhere
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(5)
        assert world.nodes_of("a", "b") == ["n1", "n2"]
        assert conditions(world) == STARTED
        world.check()


async def test_late_members_do_not_count_as_failures_of_the_gang_that_they_wait_for() -> None:
    world = world_of_nodes(n1="4")
    DyingBinder(world).refuse_once("b")
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        await asyncio.sleep(1)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        for name in ("late", "later"):
            await asyncio.sleep(0.2)
            add(world, name)
        await asyncio.sleep(30)
        assert bound(world) == ["a", "b", "late", "later"]
        world.check()


async def test_a_gang_one_of_whose_members_can_never_be_bound_is_taken_back() -> None:
    world = world_of_nodes(n1="4")
    DyingBinder(world).refused = {"b"}
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(0.5)
        assert bound(world) == []
        assert [pod.metadata.name for pod in world.cluster.objects("Pod")] == ["b"]
        assert conditions(world) == TAKEN_BACK
        assert world.events("a", "PodGroupIncomplete") == [
            "too few members of the pod group could be bound"
        ]
        world.check()


async def test_members_that_are_bound_but_not_seen_with_their_nodes_yet_are_taken_back_too() -> (
    None
):
    loop = asyncio.get_running_loop()
    world = TermWorld(cluster=LateCluster(now=lambda: WALL + loop.time()))
    world.node("n1")
    DyingBinder(world).before = lambda: world.cluster.delete("Pod", "default/b")
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(2)
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        world.check()


async def test_a_member_at_permit_does_not_count_for_a_gang_whose_bindings_have_failed() -> None:
    world = world_of_nodes(n1="4")
    DyingBinder(world).refused = {"b"}
    waits_at_permit(world, "late")
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        await asyncio.sleep(0.5)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(0.2)
        add(world, "late")
        await asyncio.sleep(5)
        world.script.on_permit = lambda pod: PermitResult(
            unschedulable("not this one") if pod.name == "late" else SUCCESS
        )
        for pod in world.state.waiting:
            pod.reject("Script", "not this one")
        await asyncio.sleep(5)
        assert bound(world) == []
        world.check()


async def test_a_gang_is_decided_again_though_permit_rejects_all_that_it_lacks() -> None:
    world = world_of_nodes(n1="4")
    binder = DyingBinder(world)
    binder.refused = {"b"}
    tried: list[str] = []

    def on_permit(pod: PodInfo) -> PermitResult:
        tried.append(pod.name)
        if pod.name == "late":
            return PermitResult(Status(Code.WAIT), timeout=600.0)
        again = pod.name == "b" and tried.count("b") > 1
        return PermitResult(unschedulable("not this one") if again else SUCCESS)

    world.script.on_permit = on_permit
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        await asyncio.sleep(0.5)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(0.2)
        add(world, "late")
        await asyncio.sleep(5)
        binder.refused.clear()
        world.script.on_permit = lambda pod: PermitResult()
        for pod in world.state.waiting:
            pod.allow("Script")
        add(world, "new")
        await asyncio.sleep(30)
        assert {"late", "new"} <= set(bound(world))
        world.check()


async def test_members_that_were_evicted_are_forgotten_once_they_are_gone() -> None:
    world = world_of_nodes(n1="4")
    binder = DyingBinder(world)
    async with world.running():
        for name in ("g", "h"):
            binder.refused = {f"{name}-b"}
            gang(world, f"{name}-a", f"{name}-b", of=name)
            await asyncio.sleep(0.5)
        assert bound(world) == []
        assert world.term._group_cycle._taking_back._evicted_uids == {"uid-h-a"}


async def test_a_group_of_a_profile_without_gangs_is_not_taken_back_if_few_members_fit() -> None:
    world = TermWorld([{"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}}])
    world.node("n1", cpu="2")
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(30)
        assert len(bound(world)) == 2
        assert len(world.cluster.objects("Pod")) == 3
        world.check()


async def test_a_gang_that_can_start_without_the_failed_member_is_not_taken_back() -> None:
    world = world_of_nodes(n1="4")
    DyingBinder(world).refused = {"c"}
    async with world.running():
        gang(world, "a", "b", "c", min_count=2)
        await asyncio.sleep(0.5)
        assert bound(world) == ["a", "b"]
        assert conditions(world) == STARTED
        world.check()


async def test_members_that_a_plugin_does_not_bind_after_the_record_wake_who_was_in_the_way() -> (
    None
):
    binders = [{"name": "Script"}, {"name": "DefaultBinder"}]
    bind = {"disabled": [{"name": "*"}], "enabled": binders}
    world = TermWorld([{"plugins": {"bind": bind}}])
    world.node("n1", "2")
    world.script.on_bind = lambda pod: error("not bound") if pod.name in "ab" else SKIP
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: api_pb2.Fence | None = None) -> Results:
        await asyncio.sleep(0.5)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(0.2)
        world.pod("important", cpu="2", priority=10, preemptionPolicy="Never")
        await asyncio.sleep(2)
        assert bound(world) == ["important"]
        world.check()


# ---------------------------------------------------------------------- the next leader


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_the_next_leader_completes_a_partly_bound_gang_before_other_pods(count: int) -> None:
    first = TermWorld()
    first.node("n1")
    await partly_bound(first, count)
    first.pod("important", cpu="1", priority=1000, preemptionPolicy="Never")
    async with TermWorld(cluster=first.cluster).running(seconds=0.5) as world:
        assert bound(world) == ["a", "b", "c", "d"]
        assert conditions(world) == STARTED
        world.check()


async def test_another_scheduler_does_not_take_a_gang_back_that_is_being_bound() -> None:
    first = world_of_nodes(n1="4")
    await partly_bound(first, 2)
    other = TermWorld([{"schedulerName": "other"}], cluster=first.cluster)
    async with other.running(seconds=5):
        assert len(bound(other)) == 2
        assert conditions(other) == BEING_BOUND


async def test_the_next_leader_takes_a_gang_back_whose_room_is_gone() -> None:
    first = TermWorld()
    first.node("n1", cpu="2")
    first.node("n2", cpu="2")
    await partly_bound(first, 1)
    first.cluster.delete("Node", "n2" if first.stored("a").spec.node_name == "n1" else "n1")
    async with TermWorld(cluster=first.cluster).running(seconds=0.5) as world:
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        add(world, "e")
        world.node("n3", cpu="2")
        await asyncio.sleep(30)
        assert bound(world) == ["b", "c", "d", "e"]
        assert conditions(world) == STARTED
        world.check()


async def test_the_next_leader_takes_a_gang_back_one_of_whose_members_permit_rejects() -> None:
    first = world_of_nodes(n1="4")
    await partly_bound(first, 2)
    pending = next(name for name in "abcd" if name not in bound(first))
    world = TermWorld(cluster=first.cluster)
    world.script.on_permit = lambda pod: PermitResult(
        unschedulable("not this one") if pod.name == pending else SUCCESS
    )
    async with world.running(seconds=0.5):
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        world.check()


async def test_a_late_member_is_not_left_alone_if_the_next_leader_takes_the_gang_back() -> None:
    first = world_of_nodes(n1="5")
    await partly_bound(first, 2)
    world = TermWorld(cluster=first.cluster)
    waits_at_permit(world, next(name for name in "abcd" if name not in bound(first)))
    async with world.running(seconds=0.5):
        add(world, "late")
        await asyncio.sleep(1)
        world.script.on_permit = lambda pod: PermitResult(unschedulable("not this one"))
        for pod in world.state.waiting:
            pod.reject("Script", "not this one")
        await asyncio.sleep(0.5)
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        world.check()


async def test_the_next_leader_takes_a_gang_back_that_lost_a_member() -> None:
    first = TermWorld()
    first.node("n1")
    await partly_bound(first, 2)
    pending = next(name for name in "abcd" if name not in bound(first))
    first.cluster.delete("Pod", f"default/{pending}")
    async with TermWorld(cluster=first.cluster).running(seconds=0.5) as world:
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK


async def test_a_gang_is_taken_back_whose_last_member_goes_while_it_is_decided_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = world_of_nodes(n1="4")
    await partly_bound(first, 3)
    add_decision, going = GroupMembers.add, set("abcd").difference(bound(first))

    def add_and_delete(of: GroupMembers, trial: GroupTrial, decision: Decision) -> bool:
        if going:
            first.cluster.delete("Pod", f"default/{going.pop()}")
        return add_decision(of, trial, decision)

    async def slowly(turn: Turn) -> None:
        await asyncio.sleep(0.1)

    monkeypatch.setattr(GroupMembers, "add", add_and_delete)
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    monkeypatch.setattr(Turn, "give_way", slowly)
    async with TermWorld(cluster=first.cluster).running(seconds=5) as world:
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        world.check()


async def test_the_next_leader_keeps_no_room_for_a_gang_that_has_become_too_small() -> None:
    first = world_of_nodes(n1="2")
    waits_at_permit(first, "a", "b")
    async with first.running():
        gang(first, "a", "b")
        await asyncio.sleep(1)
    assert first.stored("a").status.nominated_node_name == "n1"
    first.cluster.delete("Pod", "default/b")
    world = TermWorld(cluster=first.cluster)
    async with world.running():
        await world.pod_and_wait("other", cpu="2", seconds=5)
        assert bound(world) == ["other"]
        world.check()


async def test_a_gang_that_was_bound_whole_is_only_cleared_by_the_next_leader() -> None:
    first = TermWorld()
    first.node("n1")
    await partly_bound(first, 4)
    async with TermWorld(cluster=first.cluster).running(seconds=0.5) as world:
        assert bound(world) == ["a", "b", "c", "d"]
        assert conditions(world) == STARTED


async def test_a_gang_that_ran_and_lost_members_is_never_taken_back() -> None:
    world = world_of_nodes(n1="3")
    binder = DyingBinder(world)
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(1)
        for name in "bc":
            world.cluster.delete("Pod", f"default/{name}")
        binder.refused = {"d"}
        add(world, "d", "e")
        await asyncio.sleep(2)
        assert bound(world) == ["a", "e"]


def _reject(names: str, pod: PodInfo) -> PermitResult:
    return PermitResult(unschedulable("not this one") if names in pod.name else SUCCESS)


@given(data=st.data())
def test_whenever_leaders_die_no_gang_stays_partly_bound_for_a_second(data: st.DataObject) -> None:
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(_leaders_die(data))


async def _leaders_die(data: st.DataObject) -> None:
    loop = asyncio.get_running_loop()
    cluster = FakeCluster(now=lambda: WALL + loop.time())
    sizes: dict[str, int] = {}
    for term in range(data.draw(st.integers(2, 4), "terms")):
        world = TermWorld(cluster=cluster)
        binder = DyingBinder(world)
        rejected = data.draw(st.sampled_from(["none", "-0", "-1", "-2", "g0-0"]), "at Permit")
        world.script.on_permit = partial(_reject, rejected)
        for number in range(data.draw(st.integers(0, 2), "new nodes")):
            world.node(f"n{term}-{number}", cpu=str(data.draw(st.integers(1, 4), "cpu")))
        async with world.running(seconds=1):
            for name, size in sizes.items():
                count = sum(pod.startswith(f"{name}-") for pod in bound(world))
                assert count in (0, size), f"{name} is partly bound in term {term}"
            binder.dies_after = data.draw(st.integers(0, 9), "bindings before death")
            for number in range(data.draw(st.integers(0, 3), "new gangs")):
                name = f"g{term}-{number}"
                sizes[name] = data.draw(st.integers(2, 5), "size")
                gang(world, *(f"{name}-{i}" for i in range(sizes[name])), of=name)
            world.pod(f"alone-{term}", priority=10, preemptionPolicy="Never")
            await asyncio.sleep(data.draw(st.sampled_from([0.0, 0.01, 1.0, 20.0]), "life"))
        gone = data.draw(st.sampled_from(["", *(n.metadata.name for n in cluster.objects("Node"))]))
        pods = [pod for pod in cluster.objects("Pod") if isinstance(pod, Pod)]
        if gone and not any(pod.spec.node_name == gone for pod in pods):
            cluster.delete("Node", gone)


async def test_a_gang_whose_extender_fails_to_bind_a_member_is_bound_at_its_next_try() -> None:
    """The next try may ask for the member before the end of the first one is noticed."""
    script = ScriptedExtender()
    extender = {"urlPrefix": "http://binds", "bindVerb": "bind"}
    world = TermWorld(extenders=[extender], connect=lambda _: script)
    world.node("n1", cpu="4")
    failures = ["not now", "nor now"]

    def bind(args: dict[str, Any]) -> dict[str, Any]:
        if failures and args["PodName"] == "a":
            return {"Error": failures.pop()}
        pod = world.stored(args["PodName"])
        pod.spec.node_name = args["Node"]
        world.cluster.update(pod)
        return {}

    script.answers["bind"] = bind
    async with world.running():
        gang(world, "a", "b")
        await asyncio.sleep(60)
        assert not world.ended.done()
    assert bound(world) == ["a", "b"]
    assert conditions(world) == STARTED


async def test_a_member_that_is_still_being_bound_is_taken_back_with_its_gang() -> None:
    answered = asyncio.Event()

    class Binds(ScriptedExtender):
        async def send(self, verb: str, body: bytes) -> bytes:
            name = json.loads(body)["PodName"]
            if name == "a":
                return b'{"Error": "never"}'
            if name == "b":
                await answered.wait()
            world.change(name, lambda pod: setattr(pod.spec, "node_name", "n1"))
            return b"{}"

    extender = {"urlPrefix": "http://binds", "bindVerb": "bind"}
    world = TermWorld(extenders=[extender], connect=lambda _: Binds())
    node = world.node("n1", cpu="4")
    async with world.running():
        gang(world, "a", "b", "c")
        await asyncio.sleep(0.5)
        assert bound(world) == ["c"]
        node.spec.unschedulable = True
        world.cluster.update(node)
        await asyncio.sleep(10)
        answered.set()
        await asyncio.sleep(5)
        assert bound(world) == []
        assert conditions(world) == TAKEN_BACK
        world.check()
