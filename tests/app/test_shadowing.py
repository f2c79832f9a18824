"""A shadow follows the informer in turns, and gets out of a leader's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podsched.api.kinds import WATCHED_KINDS
from podsched.app import shadowing as module
from podsched.app.shadowing import Shadowing
from podsched.config.load import default_config
from podsched.lib.tasks import TaskSet, in_background
from podsched.registry import factories
from podsched.serve.client.informer import Batch
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ShadowMetrics
from podsched.testing.fake_cluster import FakeCluster
from support.engine_world import node, pod

pytestmark = pytest.mark.looptime


class World:
    """A shadow of the default configuration in a cluster of one node."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.busy = False
        self.metrics = ShadowMetrics(MetricRegistry())
        self.informer = self.cluster.informer(WATCHED_KINDS)
        self.shadowing = Shadowing(
            default_config(), factories(), self.informer, lambda: self.busy, None, self.metrics
        )
        self.cluster.create(node("n1"))

    def handle(self, batch: Batch) -> None:
        self.shadowing.handle(batch)

    def bind(self, *names: str) -> None:
        """Pods come that are bound already, as a standby often sees them."""
        for name in names:
            spec = {"schedulerName": "default-scheduler", "nodeName": "n1"}
            self.cluster.create(pod(name, spec))

    def counted(self, result: str) -> float:
        return self.metrics.decisions.labels(result).value


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    tasks = TaskSet("the replica")
    tasks.start(world.informer.run(world.handle), "informer")
    tasks.start(world.shadowing.run(), "shadow", endless=True)
    async with in_background(tasks.run(), "the replica"):
        await asyncio.sleep(0.5)
        yield


async def test_pods_that_were_there_before_are_not_decided_on() -> None:
    world = World()
    world.bind("before")
    async with running(world):
        world.bind("a", "b")
        await asyncio.sleep(1)
    assert world.counted("same") == 2


async def test_a_leader_with_pods_to_schedule_is_left_alone() -> None:
    world = World()
    async with running(world):
        world.busy = True
        world.bind("a", "b")
        await asyncio.sleep(1)
        assert world.counted("same") == 0
        world.busy = False
        await asyncio.sleep(1)
        assert world.counted("same") == 2


async def test_a_shadow_that_is_too_far_behind_skips_decisions_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    world = World()
    async with running(world):
        world.busy = True
        world.bind(*(f"p{number}" for number in range(5)))
        await asyncio.sleep(1)
        assert world.counted("skipped") == 2
        world.busy = False
        await asyncio.sleep(1)
        assert world.counted("same") == 3


async def test_a_bug_costs_the_shadow_what_it_knew_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    async with running(world):
        broken = ["once"]
        decide = module.Shadow.decide_and_apply

        def fails_once(self, *arguments):  # type: ignore[no-untyped-def]
            if broken:
                raise RuntimeError(broken.pop())
            return decide(self, *arguments)

        monkeypatch.setattr(module.Shadow, "decide_and_apply", fails_once)
        world.bind("a")
        await asyncio.sleep(6)
        world.bind("b")
        await asyncio.sleep(1)
        assert world.counted("same") == 1
