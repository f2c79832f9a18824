"""What other tasks do while the decision for a pod group has a trial open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from podsched.api.objects import PodGroup
from podsched.decide.decision import Decision
from podsched.framework.plugin import PermitResult
from podsched.framework.status import Code, Status
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND, Turn
from podsched.term.after_trial import AfterTrial
from podsched.term.faulty_pods import PodFault
from support.term_world import TermWorld, world_of_nodes

pytestmark = pytest.mark.looptime


def group(world: TermWorld, name: str, min_count: int, priority: int = 0) -> None:
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.spec.scheduling_policy.gang.min_count = min_count
    made.spec.priority, made.spec.disruption_mode = priority, "Pod"
    world.cluster.create(made)


def members(world: TermWorld, of: str, *names: str, **spec: Any) -> None:
    for name in names:
        world.pod(name, schedulingGroup={"podGroupName": of}, **spec)


class Rounds:
    """Every decision for a member uses up a round, so that other tasks run before the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._used = 0.0
        for clock in ("monotonic", "thread_time"):
            monkeypatch.setattr(event_loop, clock, lambda: self._used)

    def act_once(self, world: TermWorld, when: Callable[[], bool], act: Callable[[], Any]) -> None:
        """Do something between two decisions, as soon as ``when`` is true there."""
        self.acted = False
        decide = world.decider.decide

        def other() -> None:
            if not self.acted and when():
                self.acted = True
                act()

        def long(*pods: Any, **how: Any) -> list[Decision]:
            self._used += 1.1 * ROUND
            asyncio.get_running_loop().call_soon(other)
            return decide(*pods, **how)

        self._monkeypatch.setattr(world.decider, "decide", long)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


def held_at_permit(world: TermWorld, name: str) -> None:
    """Let the first attempt of a pod wait at Permit."""
    waited: list[str] = []

    def permit(pod: Any) -> PermitResult:
        if pod.name != name or waited:
            return PermitResult()
        waited.append(name)
        return PermitResult(Status(Code.WAIT), timeout=600.0)

    world.script.on_permit = permit


async def test_a_pod_rejected_while_a_search_for_victims_has_removed_it_is_tried_again(
    rounds: Rounds,
) -> None:
    world = world_of_nodes(n1="2")
    held_at_permit(world, "low")

    def reject() -> None:
        for waiting in world.state.waiting:
            waiting.reject("Script", "not now")

    def is_removed() -> bool:
        return "default/low" not in world.state.cache.cluster.pods

    async with world.running():
        await world.pod_and_wait("low", cpu="2")
        rounds.act_once(world, is_removed, reject)
        group(world, "g", 6, priority=10)
        members(world, "g", *"abcdef", cpu="1", priority=10)
        await asyncio.sleep(60)
        assert rounds.acted
        assert world.nodes_of("low") == ["n1"]
        world.check()


async def test_the_wait_of_a_pod_ends_that_is_deleted_while_a_search_for_victims_has_removed_it(
    rounds: Rounds,
) -> None:
    world = world_of_nodes(n1="2")
    held_at_permit(world, "low")

    def is_removed() -> bool:
        return "default/low" not in world.state.cache.cluster.pods

    async with world.running():
        await world.pod_and_wait("low", cpu="2")
        rounds.act_once(world, is_removed, lambda: world.cluster.delete("Pod", "default/low"))
        group(world, "g", 6, priority=10)
        members(world, "g", *"abcdef", cpu="1", priority=10)
        await asyncio.sleep(5)
        assert rounds.acted
        assert not list(world.state.waiting)
        assert not world.state.cache.assumed


async def test_a_member_preempted_while_a_search_for_victims_has_removed_it_is_undone_afterwards(
    rounds: Rounds,
) -> None:
    world = world_of_nodes(n1="3")
    held_at_permit(world, "low-1")
    known = world.state.cache.cluster.pods

    def preempt() -> None:
        assert world.term.binding.waiting.preempt(ready, "DefaultPreemption")

    async with world.running():
        group(world, "low", 2)
        members(world, "low", "low-1", "low-2", "low-3", cpu="1")
        await asyncio.sleep(1)
        ready = known["default/low-3"]
        rounds.act_once(world, lambda: "default/low-3" not in known, preempt)
        group(world, "g", 6, priority=10)
        members(world, "g", *"abcdef", cpu="1", priority=10)
        await asyncio.sleep(0.5)
        assert rounds.acted
        assert world.state.cache.assumed == {"uid-low-1", "uid-low-2"}
        world.check()


async def test_a_new_member_of_a_gang_is_not_gated_because_a_search_has_removed_the_others(
    rounds: Rounds,
) -> None:
    world = world_of_nodes(n1="4")
    group(world, "low", 2)
    members(world, "low", "low-1", "low-2", on="n1")

    def are_removed() -> bool:
        return not world.state.cache.cluster.members("default/low")

    async with world.running(seconds=1):
        rounds.act_once(world, are_removed, lambda: members(world, "low", "low-3", cpu="1"))
        group(world, "g", 6, priority=10)
        members(world, "g", *"abcdef", cpu="1", priority=10)
        await asyncio.sleep(10)
        assert rounds.acted
        assert world.nodes_of("low-3") == ["n1"]
        world.check()


async def test_room_that_becomes_free_while_a_group_is_tried_wakes_a_pod_that_fits_then(
    rounds: Rounds,
) -> None:
    world = world_of_nodes(n1="4")
    world.pod("small", cpu="1", on="n1")
    world.pod("other", cpu="1", on="n1")

    def two_are_placed() -> bool:
        return len(world.state.cache.assumed) == 2

    async with world.running():
        await world.pod_and_wait("large", cpu="3")
        assert world.place("large") == "unschedulable"
        rounds.act_once(world, two_are_placed, lambda: world.cluster.delete("Pod", "default/small"))
        group(world, "g", 6)
        members(world, "g", *"abcdef", cpu="1")
        await asyncio.sleep(10)
        assert rounds.acted
        assert world.nodes_of("large") == ["n1"]
        world.check()


async def test_what_is_done_in_a_trial_waits_for_its_end_in_order() -> None:
    after, done = AfterTrial(), list[int]()
    with after.others_run():
        after.do(lambda: done.append(1))
        after.do(lambda: done.append(2))
        assert not done
    await after.trial_ended(Turn(), pytest.fail)
    after.do(lambda: done.append(3))
    assert done == [1, 2, 3]


async def test_a_task_that_waits_goes_on_when_the_trial_has_ended() -> None:
    after = AfterTrial()
    with after.others_run():
        waiting = asyncio.create_task(after.wait())
        await asyncio.sleep(1)
        assert not waiting.done()
    await after.trial_ended(Turn(), pytest.fail)
    await waiting


async def test_other_tasks_run_while_much_is_done_that_waited_and_what_they_do_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turn, "is_over", True)
    after, done = AfterTrial(), list[str]()
    with after.others_run():
        for name in "abc":
            after.do(partial(done.append, name))
    ending = asyncio.create_task(after.trial_ended(Turn(), pytest.fail))
    await asyncio.sleep(0)
    assert done == ["a"]
    after.do(lambda: done.append("other"))
    await ending
    assert done == [*"abc", "other"]


async def test_all_that_waited_is_done_if_the_loop_is_cancelled_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turn, "is_over", True)
    after, done = AfterTrial(), list[str]()
    with after.others_run():
        for name in "abc":
            after.do(partial(done.append, name))
    ending = asyncio.create_task(after.trial_ended(Turn(), pytest.fail))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert done == [*"abc"]
    assert not after.is_open


async def test_a_bug_in_what_waited_fails_the_term_and_the_rest_is_dropped() -> None:
    after, faults, done = AfterTrial(), list[Exception](), list[int]()
    with after.others_run():
        after.do(lambda: 1 // 0)  # type: ignore[arg-type]
        after.do(lambda: done.append(1))
    await after.trial_ended(Turn(), faults.append)
    await after.trial_ended(Turn(), faults.append)
    (fault,) = faults
    assert isinstance(fault, PodFault)
    assert isinstance(fault.__cause__, ZeroDivisionError)
    assert not done


async def test_a_member_that_is_deleted_before_permit_is_asked_for_it_does_not_wait_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turn, "has_lasted", lambda *_: True)
    world = world_of_nodes(n1="4")

    def permit(pod: Any) -> PermitResult:
        if pod.name == "b":
            return PermitResult(Status(Code.WAIT), timeout=600.0)
        world.cluster.delete("Pod", "default/b")
        return PermitResult()

    async with world.running():
        world.script.on_permit = permit
        group(world, "g", 2)
        members(world, "g", "a", "b", cpu="1")
        await asyncio.sleep(5)
        assert not list(world.state.waiting)
        assert not world.state.cache.assumed
        assert world.place("a") == "gated"
        world.check()
