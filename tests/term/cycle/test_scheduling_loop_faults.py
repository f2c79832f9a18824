"""An unexpected error costs the pod that was being decided on its attempt, never the term."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS, Status, unschedulable
from support.term_world import world_of_nodes

pytestmark = pytest.mark.looptime

Decide = Callable[..., list[Decision]]


def failing_on(name: str, decide: Decide) -> Decide:
    """Decide, but raise for a pod of this name when its turn comes."""

    def wrapped(
        trial: Trial, runtime: ProfileRuntime, batch: Sequence[QueuedPodInfo], **how: Any
    ) -> list[Decision]:
        at = next((i for i, queued in enumerate(batch) if queued.info.name == name), len(batch))
        if not at:
            raise IndexError("a bug")
        return decide(trial, runtime, batch[:at], **how)

    return wrapped


async def test_a_decision_that_raises_costs_only_its_pod_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="8")
    monkeypatch.setattr(world.decider, "decide", failing_on("bad", world.decider.decide))
    async with world.running():
        for name in ("a", "bad", "c"):
            world.pod(name)
        await asyncio.sleep(0.5)
        assert world.nodes_of("a", "bad", "c") == ["n1", "", "n1"]
        condition = world.scheduled("bad")
        assert (condition.status, condition.reason) == ("False", "SchedulerError")
        assert "IndexError('a bug')" in condition.message
        assert world.events("bad", "FailedScheduling") == [condition.message]
        assert world.place("bad") == "backoff"
        assert world.ended is not None and not world.ended.done()
        world.check()


async def test_what_was_assumed_before_it_raised_is_taken_back_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="8")
    decide, faults = world.decider.decide, 1

    def raising_afterwards(
        trial: Trial, runtime: ProfileRuntime, batch: Sequence[QueuedPodInfo], **how: Any
    ) -> list[Decision]:
        nonlocal faults
        decisions = decide(trial, runtime, batch, **how)
        if faults:
            faults -= 1
            raise RuntimeError("a bug")
        return decisions

    monkeypatch.setattr(world.decider, "decide", raising_afterwards)
    async with world.running():
        for name in "ab":
            world.pod(name)
        await asyncio.sleep(0.1)
        assert len(world.state.cache.assumed) == 0
        assert world.nodes_of("a", "b") == ["", ""]
        await asyncio.sleep(20)
        assert world.nodes_of("a", "b") == ["n1", "n1"]
        world.check()


async def test_a_pod_that_cannot_be_used_is_told_of_and_the_others_are_scheduled() -> None:
    world = world_of_nodes(n1="4")
    world.pod("before", cpu="much")
    async with world.running():
        world.pod("broken", cpu="much")
        world.pod("other", cpu="much", schedulerName="elsewhere")
        await world.pod_and_wait("good", seconds=0.5)
        assert world.nodes_of("before", "broken", "good") == ["", "", "n1"]
        for name in ("before", "broken"):
            condition = world.scheduled(name)
            assert (condition.status, condition.reason) == ("False", "SchedulerError")
            assert "cannot be used" in condition.message
            assert world.events(name, "FailedScheduling") == [condition.message]
        assert not world.stored("other").status.conditions
        assert len(world.state.set_aside) == 3
        world.check()


async def test_a_plugin_whose_text_is_not_unicode_costs_only_its_pods_the_attempt() -> None:
    world = world_of_nodes(n1="4")
    file = os.fsdecode(b"caf\xe9")

    def reserve(pod: PodInfo) -> Status:
        if pod.name == "raises":
            raise FileNotFoundError(file)
        return SUCCESS if pod.name == "good" else unschedulable(file)

    world.script.on_reserve = reserve
    async with world.running():
        for name in ("rejected", "raises", "good"):
            world.pod(name)
        await asyncio.sleep(0.5)
        assert world.nodes_of("rejected", "raises", "good") == ["", "", "n1"]
        for name in ("rejected", "raises"):
            assert "caf\\udce9" in world.scheduled(name).message
            assert world.events(name, "FailedScheduling") == [world.scheduled(name).message]
        assert world.ended is not None and not world.ended.done()
