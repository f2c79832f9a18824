"""Preemption carried out: in which order victims go, and what happens when one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podsched.engine.cycle.preemption import Evictor, Preemption
from podsched.engine.cycle.waiting_pods import WaitingPods
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import EvictionListener
from podsched.v1 import api_pb2
from support.engine_pods import pod_info

pytestmark = pytest.mark.looptime


class Plugin:
    """An EvictionListener that holds the preemptor back and knows whose eviction is under way."""

    def __init__(self) -> None:
        self.held_back: set[str] = set()
        self.going: set[str] = set()

    def evictions_started(self, preemptor: PodInfo, victims: Victims) -> None:
        self.held_back.add(preemptor.uid)
        self.going.update(victim.uid for victim in victims.pods)

    def preemptor_released(self, preemptor: PodInfo) -> None:
        self.held_back.discard(preemptor.uid)

    def evictions_ended(self, victims: Victims) -> None:
        self.going.difference_update(victim.uid for victim in victims.pods)


class BrokenPlugin:
    """An EvictionListener that fails whenever it is told of something."""

    def evictions_started(self, preemptor: PodInfo, victims: Victims) -> None:
        raise RuntimeError("started")

    def preemptor_released(self, preemptor: PodInfo) -> None:
        raise RuntimeError("released")

    def evictions_ended(self, victims: Victims) -> None:
        raise RuntimeError("ended")


class World:
    """An evictor on an API that takes a second for each call and answers by the victim's name."""

    def __init__(self) -> None:
        self.plugin = Plugin()
        self.listener: EvictionListener | None = self.plugin
        self.waiting = WaitingPods()
        self.in_pre_bind: set[str] = set()
        self.answers: dict[str, str] = {}
        self.calls: list[tuple[list[str], bool]] = []
        self.requests: list[api_pb2.EvictRequest] = []
        self.told: list[str] = []
        self.activated: list[str] = []
        self.results: list[tuple[str, float]] = []
        self.evictor = Evictor(
            self._evict,
            self.waiting,
            self._cancel,
            lambda victim, preemption: self.told.append(victim.name),
            lambda pod: self.activated.append(pod.name),
            lambda result, seconds: self.results.append((result, seconds)),
        )
        self.preemptor = pod_info("vip")

    async def _evict(
        self, requests: Sequence[api_pb2.EvictRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        held_back = self.preemptor.uid in self.plugin.held_back
        self.calls.append(([request.name for request in requests], held_back))
        self.requests += requests
        await asyncio.sleep(1)
        reasons = [self.answers.get(request.name, "") for request in requests]
        return [api_pb2.BatchResult(code=5 if reason else 0, reason=reason) for reason in reasons]

    def _cancel(self, pod: PodInfo, plugin: str) -> bool:
        found = pod.name in self.in_pre_bind
        self.in_pre_bind.discard(pod.name)
        return found

    def start(self, *victims: PodInfo) -> None:
        asked = Victims(victims)
        self.evictor.start(Preemption(self.preemptor, "n1", asked, "Preempts", self.listener))

    async def preempt(self, *victims: PodInfo) -> None:
        self.start(*victims)
        await asyncio.sleep(10)


async def test_the_last_victim_goes_alone_and_after_the_mark_is_gone() -> None:
    world = World()
    await world.preempt(*(pod_info(name) for name in "abc"))
    assert world.calls == [(["a", "b"], True), (["c"], False)]
    assert world.told == ["a", "b", "c"]
    assert not world.activated


async def test_a_single_victim_goes_without_the_mark() -> None:
    world = World()
    await world.preempt(pod_info("a"))
    assert world.calls == [(["a"], False)]


async def test_the_preemptor_is_held_back_from_the_moment_on_that_preemption_starts() -> None:
    world = World()
    world.start(pod_info("a"), pod_info("b"))
    assert world.plugin.held_back == {world.preemptor.uid}
    await asyncio.sleep(0.5)
    await world.evictor.stop()
    assert not world.plugin.held_back


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
    await world.preempt(pod_info("a"))
    assert not world.plugin.going


async def test_victims_are_evicted_by_uid_past_their_budgets_with_the_condition_that_says_why() -> (
    None
):
    world = World()
    await world.preempt(pod_info("a"))
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
    await world.preempt(*(pod_info(name) for name in "abc"))
    assert world.calls == [(["a", "b"], True)]
    assert world.told == ["b"]
    assert world.activated == ["vip"]
    assert not world.plugin.held_back


async def test_a_last_eviction_that_fails_activates_the_preemptor() -> None:
    world = World()
    world.answers["b"] = "UNAVAILABLE"
    await world.preempt(pod_info("a"), pod_info("b"))
    assert world.activated == ["vip"]


@pytest.mark.parametrize("reason", ["NOT_FOUND", "PRECONDITION_FAILED"])
async def test_a_victim_that_is_gone_is_no_failure(reason: str) -> None:
    world = World()
    world.answers["a"] = reason
    await world.preempt(pod_info("a"), pod_info("b"))
    assert [names for names, _ in world.calls] == [["a"], ["b"]]
    assert world.told == ["b"]
    assert not world.activated


async def test_a_last_victim_that_is_gone_wakes_the_preemptor_since_no_deletion_will() -> None:
    world = World()
    world.answers["b"] = "NOT_FOUND"
    await world.preempt(pod_info("a"), pod_info("b"))
    assert world.activated == ["vip"]


async def test_victims_that_are_terminating_are_left_alone_and_are_not_the_last() -> None:
    world = World()
    going = pod_info("b", deletionTimestamp="2026-01-01T00:00:00Z")
    assert going.terminating
    await world.preempt(pod_info("a"), pod_info("c"), going)
    assert world.calls == [(["a"], True), (["c"], False)]


@pytest.mark.parametrize("listener", [None, BrokenPlugin()])
async def test_victims_go_whether_or_not_their_plugin_can_be_told(
    listener: EvictionListener | None,
) -> None:
    world = World()
    world.listener = listener
    await world.preempt(pod_info("a"), pod_info("b"))
    assert [names for names, _ in world.calls] == [["a"], ["b"]]
    assert world.results == [("success", pytest.approx(2))]


async def test_a_victim_that_waits_at_permit_is_turned_down_and_not_evicted() -> None:
    world = World()
    victim = pod_info("a")
    waiting = world.waiting.add(victim, "n1", {"P": 60})
    await world.preempt(victim)
    outcome = await waiting.outcome()
    assert (outcome.message, outcome.plugin) == ("preempted", "Preempts")
    assert not world.calls
    assert world.told == ["a"]


async def test_a_victim_in_pre_bind_is_turned_down_and_not_evicted() -> None:
    world = World()
    world.in_pre_bind.add("a")
    await world.preempt(pod_info("a"))
    assert not world.in_pre_bind
    assert not world.calls
    assert world.told == ["a"]


async def test_a_victim_just_allowed_at_permit_loses_its_place_in_pre_bind() -> None:
    world = World()
    victim = pod_info("a")
    world.waiting.add(victim, "n1", {"P": 60}).allow("P")
    world.in_pre_bind.add("a")
    await world.preempt(victim)
    assert not world.in_pre_bind
    assert not world.calls


@pytest.mark.parametrize(("reason", "result"), [("", "success"), ("UNAVAILABLE", "error")])
async def test_a_preemption_is_counted_with_its_result_and_time(reason: str, result: str) -> None:
    world = World()
    world.answers["b"] = reason
    await world.preempt(pod_info("a"), pod_info("b"))
    assert world.results == [(result, pytest.approx(2))]
