"""Admission reads large clusters in steps, between which other tasks run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from podsched.api.objects import ClusterQueue, Namespace
from podsched.lib.event_loop import Turn
from podsched.queues import cycle
from podsched.term.cycle import unit_reports
from podsched.term.cycle.queue_statuses import QueueStatuses
from podsched.term.cycle.unit_endings import UnitEndings
from podsched.term.cycle.unit_reports import UnitReports
from support.queues import big_node, bound, cluster_queue, flavor, job, job_and_wait
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def waiting_world(count: int) -> TermWorld:
    world = TermWorld()
    big_node(world, "n1", of={"cpu": "1000"})
    flavor(world)
    cluster_queue(world, "team", {"cpu": 0})
    for index in range(count):
        job(world, f"p{index}", "team", cpu=1)
    return world


async def test_after_a_change_of_quota_each_pod_is_read_in_a_step_of_its_own() -> None:
    world = await waiting_world(100)
    async with world.running(seconds=1):
        found = world.cluster.object("ClusterQueue", "team")
        assert isinstance(found, ClusterQueue)
        admission = world.state.admission
        admission.note("ClusterQueue", None, found)
        # Each is counted, its unit is looked at, and who has joined or left is found in two steps.
        assert sum(1 for _ in admission.refresh(world.clock())) >= 4 * 100
        found.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "3"
        world.cluster.update(found)
        await asyncio.sleep(1)
        assert len(bound(world)) == 3


async def test_a_changed_namespace_is_looked_at_without_reading_all_pods() -> None:
    world = await waiting_world(0)
    space = Namespace()
    space.metadata.name = "default"
    world.cluster.create(space)
    cluster_queue(world, "other", {"cpu": 8})
    async with world.running():
        job(world, "p", "other", cpu=1)
        found = world.cluster.object("ClusterQueue", "other")
        assert isinstance(found, ClusterQueue)
        found.spec.namespace_selector.match_labels["team"] = "blue"
        world.cluster.update(found)
        await asyncio.sleep(5)
        assert bound(world) == []
        before = world.state.admission.snapshot
        space.metadata.labels["team"] = "blue"
        world.cluster.update(space)
        await asyncio.sleep(1)
        assert bound(world) == ["p"]
        assert world.state.admission.snapshot is before


async def test_reports_about_units_that_are_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unit_reports, "_MOST_GONE", 5)
    world = await waiting_world(0)
    async with world.running():
        for index in range(40):
            job(world, f"p{index}", "team", cpu=1)
            await asyncio.sleep(0.1)
            await world.delete_and_wait(f"p{index}", seconds=0.1)
        job(world, "last", "team", cpu=1)
        await asyncio.sleep(1)
        said = world.term._admission_cycle._unit_reports._reported
        assert "default/pod:last" in said
        assert len(said) <= 2 + 5


async def test_changed_pods_are_counted_twenty_in_a_step() -> None:
    world = await waiting_world(100)
    async with world.running(seconds=1):
        admission, cluster = world.state.admission, world.state.cache.cluster
        for index in range(100):
            cluster.known_pods.note(f"default/p{index}")
        assert sum(1 for _ in admission.refresh(world.clock())) == 5


async def test_other_tasks_may_run_after_each_nomination_of_a_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes long if there are thousands of candidates to preempt."""
    nominate, pause, done = cycle.nominate, Turn.pause, list[str]()

    def nominated(*args: Any) -> Any:
        done.append("nominated")
        return nominate(*args)

    async def paused(turn: Turn) -> None:
        done.append("paused")
        await pause(turn)

    monkeypatch.setattr(cycle, "nominate", nominated)
    monkeypatch.setattr(Turn, "pause", paused)
    world = await waiting_world(1)
    for name in ("a", "b"):
        cluster_queue(world, name, {"cpu": 0})
        job(world, f"of-{name}", name, cpu=1)
    async with world.running(seconds=1):
        first = done.index("nominated")
        assert done[first : first + 6] == ["nominated", "paused"] * 3


@pytest.mark.parametrize(
    ("of", "method", "policy", "quota"),
    [(UnitReports, "waits", "Hold", 0), (UnitEndings, "_end", "HoldAndDrain", 8)],
)
async def test_other_tasks_may_run_after_each_unit_of_a_queue_that_stops(
    monkeypatch: pytest.MonkeyPatch, of: type, method: str, policy: str, quota: int
) -> None:
    """There may be a hundred thousand of them."""
    handle, give_way, done = getattr(of, method), Turn.give_way, list[str]()

    def handled(*args: Any, **more: Any) -> Any:
        done.append("handled")
        return handle(*args, **more)

    async def gave_way(turn: Turn) -> None:
        done.append("gave way")
        await give_way(turn)

    monkeypatch.setattr(of, method, handled)
    monkeypatch.setattr(Turn, "give_way", gave_way)
    monkeypatch.setattr(Turn, "is_over", property(lambda turn: True))
    world = TermWorld()
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": quota})
    for name in "abc":
        job(world, name, "team", cpu=1)
    async with world.running(seconds=5):
        found = world.cluster.object("ClusterQueue", "team")
        assert isinstance(found, ClusterQueue)
        found.spec.stop_policy = policy
        done.clear()
        world.cluster.update(found)
        await asyncio.sleep(5)
    assert done.count("handled") >= 3
    assert ("handled", "handled") not in pairwise(done)


async def test_a_change_between_two_steps_of_a_refresh_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The only change that helps the second pod comes after units were brought up to date."""
    refresh, leaves = QueueStatuses.refresh, list[str]()

    def refresh_while_a_pod_leaves(of: QueueStatuses, now: float) -> Iterator[None]:
        yield from refresh(of, now)
        if leaves:
            world.cluster.delete("Pod", f"default/{leaves.pop()}")
            yield

    monkeypatch.setattr(QueueStatuses, "refresh", refresh_while_a_pod_leaves)
    monkeypatch.setattr(Turn, "is_over", property(lambda turn: True))
    world = TermWorld()
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 1})
    async with world.running():
        await job_and_wait(world, "first", "team", cpu=1)
        await job_and_wait(world, "second", "team", cpu=1)
        assert bound(world) == ["first"]
        await asyncio.sleep(5)
        leaves.append("first")
        world.node("n2", cpu="1")
        await asyncio.sleep(1)
        assert bound(world) == ["second"]
