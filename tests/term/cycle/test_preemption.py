"""Preemption carried out: in which order victims go, and what happens when one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import EvictionListener
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import Unavailable
from podsched.term.cycle.preemption import Evictor, Preemption
from podsched.v1 import api_pb2
from support.engine_pods import pod_info

pytestmark = pytest.mark.looptime


class Plugin:
    """An EvictionListener that holds the preemptor back and knows whose eviction is under way."""

    def __init__(self) -> None:
        self.held_back: set[str] = set()
        self.going: set[str] = set()

    def evictions_started(self, preemptors: Sequence[PodInfo], victims: Victims) -> None:
        self.held_back.update(pod.uid for pod in preemptors)
        self.going.update(victim.uid for victim in victims.pods)

    def preemptors_released(self, preemptors: Sequence[PodInfo]) -> None:
        self.held_back.difference_update(pod.uid for pod in preemptors)

    def evictions_ended(self, victims: Victims) -> None:
        self.going.difference_update(victim.uid for victim in victims.pods)


class BrokenPlugin:
    """An EvictionListener that fails whenever it is told of something."""

    def evictions_started(self, preemptors: Sequence[PodInfo], victims: Victims) -> None:
        raise RuntimeError("started")

    def preemptors_released(self, preemptors: Sequence[PodInfo]) -> None:
        raise RuntimeError("released")

    def evictions_ended(self, victims: Victims) -> None:
        raise RuntimeError("ended")


class World:
    """An evictor on an API that takes a second for each call and answers by the victim's name."""

    def __init__(self) -> None:
        self.plugin = Plugin()
        self.listener: EvictionListener | None = self.plugin
        self.assumed: set[str] = set()
        self.bug_at = ""
        self.fault: Exception | None = None
        self.answers: dict[str, str] = {}
        self.calls: list[tuple[list[str], bool]] = []
        self.requests: list[api_pb2.EvictRequest] = []
        self.told: list[str] = []
        self.activated: list[str] = []
        self.results: list[tuple[str, float]] = []
        self.tasks = TaskSet("the test")
        self.evictor = Evictor(self._evict, self.preempt, self, self.tasks)
        self.preemptor = pod_info("vip")

    async def _evict(
        self, requests: Sequence[api_pb2.EvictRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        held_back = self.preemptor.uid in self.plugin.held_back
        self.calls.append(([request.name for request in requests], held_back))
        self.requests += requests
        await asyncio.sleep(1)
        if self.fault is not None:
            raise self.fault
        reasons = [self.answers.get(request.name, "") for request in requests]
        return [api_pb2.BatchResult(code=5 if reason else 0, reason=reason) for reason in reasons]

    def preempt(self, victim: PodInfo, plugin: str) -> bool:
        assert plugin == "Preempts"
        found = victim.name in self.assumed
        self.assumed.discard(victim.name)
        return found

    def preempted(self, victim: PodInfo, preemption: Preemption, *, evicted: bool) -> None:
        if victim.name == self.bug_at:
            raise ZeroDivisionError("a bug")
        self.told.append(victim.name)

    def preemptors_released(self, preemption: Preemption) -> None:
        assert preemption.pods == (self.preemptor,)

    def preemption_finished(
        self, preemption: Preemption, result: str, seconds: float, *, try_again: bool
    ) -> None:
        self.results.append((result, seconds))
        if try_again:
            assert preemption.pods[0].uid not in self.plugin.held_back
            self.activated.append(preemption.pods[0].name)

    def start(self, *victims: PodInfo) -> None:
        asked = Victims(victims)
        self.evictor.start(Preemption((self.preemptor,), "n1", asked, "Preempts", self.listener))

    async def carry_out(self, *victims: PodInfo) -> None:
        self.start(*victims)
        await asyncio.sleep(10)


async def test_the_last_victim_goes_alone_and_after_the_mark_is_gone() -> None:
    world = World()
    await world.carry_out(*(pod_info(name) for name in "abc"))
    assert world.calls == [(["a", "b"], True), (["c"], False)]
    assert world.told == ["a", "b", "c"]
    assert not world.activated


async def test_a_single_victim_goes_without_the_mark() -> None:
    world = World()
    await world.carry_out(pod_info("a"))
    assert world.calls == [(["a"], False)]


async def test_the_preemptor_is_held_back_from_the_moment_on_that_preemption_starts() -> None:
    world = World()
    world.start(pod_info("a"), pod_info("b"))
    assert world.plugin.held_back == {world.preemptor.uid}
    await asyncio.sleep(0.5)
    await world.tasks.stop()
    assert not world.plugin.held_back


async def test_a_second_preemption_holds_the_preemptor_back_when_the_first_one_ends() -> None:
    world = World()
    world.start(pod_info("a"))
    await asyncio.sleep(0.5)
    assert not world.plugin.held_back
    world.start(pod_info("b"), pod_info("c"))
    await asyncio.sleep(0.6)
    assert world.results
    assert world.plugin.held_back == {world.preemptor.uid}


async def test_victims_count_as_going_until_the_cache_must_have_seen_it() -> None:
    world = World()
    world.start(pod_info("a"), pod_info("b"))
    await asyncio.sleep(3)
    assert world.results
    assert world.plugin.going == {"uid-a", "uid-b"}
    await asyncio.sleep(5)
    assert not world.plugin.going


async def test_victims_of_a_preemption_that_failed_do_not_count_as_going() -> None:
    world = World()
    world.answers["a"] = "UNAVAILABLE"
    await world.carry_out(pod_info("a"))
    assert not world.plugin.going


async def test_victims_are_evicted_by_uid_past_their_budgets_with_the_condition_that_says_why() -> (
    None
):
    world = World()
    await world.carry_out(pod_info("a"))
    [request] = world.requests
    assert request.preconditions.uid == "uid-a"
    assert request.ignore_disruption_budgets
    assert not request.HasField("grace_period_seconds")
    condition = request.condition
    assert (condition.type, condition.status) == ("DisruptionTarget", "True")
    assert condition.reason == "PreemptionByScheduler"
    assert condition.message == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )


async def test_an_eviction_that_fails_spares_the_last_victim_and_activates_the_preemptor() -> None:
    world = World()
    world.answers["a"] = "UNAVAILABLE"
    await world.carry_out(*(pod_info(name) for name in "abc"))
    assert world.calls == [(["a", "b"], True)]
    assert world.told == ["b"]
    assert world.activated == ["vip"]
    assert not world.plugin.held_back


async def test_a_last_eviction_that_fails_activates_the_preemptor() -> None:
    world = World()
    world.answers["b"] = "UNAVAILABLE"
    await world.carry_out(pod_info("a"), pod_info("b"))
    assert world.activated == ["vip"]


@pytest.mark.parametrize("reason", ["NOT_FOUND", "PRECONDITION_FAILED"])
async def test_a_victim_that_is_gone_is_no_failure(reason: str) -> None:
    world = World()
    world.answers["a"] = reason
    await world.carry_out(pod_info("a"), pod_info("b"))
    assert [names for names, _ in world.calls] == [["a"], ["b"]]
    assert world.told == ["b"]
    assert not world.activated


async def test_a_last_victim_that_is_gone_wakes_the_preemptor_since_no_deletion_will() -> None:
    world = World()
    world.answers["b"] = "NOT_FOUND"
    await world.carry_out(pod_info("a"), pod_info("b"))
    assert world.activated == ["vip"]


async def test_victims_that_are_terminating_are_left_alone_and_are_not_the_last() -> None:
    world = World()
    going = pod_info("b", deletionTimestamp="2026-01-01T00:00:00Z")
    assert going.terminating
    await world.carry_out(pod_info("a"), pod_info("c"), going)
    assert world.calls == [(["a"], True), (["c"], False)]


@pytest.mark.parametrize("listener", [None, BrokenPlugin()])
async def test_victims_go_whether_or_not_their_plugin_can_be_told(
    listener: EvictionListener | None,
) -> None:
    world = World()
    world.listener = listener
    await world.carry_out(pod_info("a"), pod_info("b"))
    assert [names for names, _ in world.calls] == [["a"], ["b"]]
    assert world.results == [("success", pytest.approx(2))]


async def test_a_victim_that_is_not_bound_yet_loses_its_place_and_is_not_evicted() -> None:
    world = World()
    world.assumed.add("a")
    await world.carry_out(pod_info("a"))
    assert not world.assumed
    assert not world.calls
    assert world.told == ["a"]


async def test_a_call_that_fails_as_a_whole_has_the_preemptor_try_again() -> None:
    world = World()
    world.fault = Unavailable("no server")
    await world.carry_out(pod_info("a"))
    assert world.activated == ["vip"]
    assert [result for result, _ in world.results] == ["error"]


async def test_a_preemption_that_raises_ends_its_owner_and_holds_no_pod_back() -> None:
    world = World()
    world.bug_at = "a"
    world.start(pod_info("a"), pod_info("b"))
    with pytest.raises(ZeroDivisionError) as raised:
        await world.tasks.run()
    assert raised.value.__notes__ == ['in task "preempt for default/vip" of the test']
    assert not world.plugin.held_back


@pytest.mark.parametrize(("reason", "result"), [("", "success"), ("UNAVAILABLE", "error")])
async def test_a_preemption_is_counted_with_its_result_and_time(reason: str, result: str) -> None:
    world = World()
    world.answers["b"] = reason
    await world.carry_out(pod_info("a"), pod_info("b"))
    assert world.results == [(result, pytest.approx(2))]
