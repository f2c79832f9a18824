"""Whom a pod may preempt is tried in parts, and others have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.plugins.default_preemption import dry_run_cache
from podsched.v1 import objects_pb2 as v1
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

NODES = 3


class Parts:
    """Parts of one node, each of which takes more than a round; the test does something after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.after: Callable[[int], object] = lambda count: None
        used, dry_run = 0.0, dry_run_cache.dry_run
        for clock in ("monotonic", "thread_time"):
            monkeypatch.setattr(event_loop, clock, lambda: used)

        def long(*args: Any) -> Any:
            nonlocal used
            used += 1.1 * ROUND
            self.seen.append("tried")
            count = self.seen.count("tried")
            asyncio.get_running_loop().call_soon(lambda: self._other(count))
            return dry_run(*args)

        monkeypatch.setattr(dry_run_cache, "dry_run", long)
        monkeypatch.setattr(dry_run_cache, "PART", 1)

    def _other(self, count: int) -> None:
        self.seen.append("other")
        self.after(count)


def full_cluster() -> TermWorld:
    world = TermWorld()
    for number in range(NODES):
        world.node(f"n{number}")
        world.pod(f"low{number}", cpu="4", on=f"n{number}")
    return world


async def test_others_have_their_turn_between_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, world = Parts(monkeypatch), full_cluster()
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
    assert parts.seen == ["tried", "other"] * NODES
    assert world.nodes_of("high")[0]
    assert len(world.events("high", "FailedScheduling")) == 1, "one attempt"
    world.check()


async def test_a_pod_that_fits_by_then_is_bound_and_preempts_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, world = Parts(monkeypatch), full_cluster()
    parts.after = lambda count: world.node("new") if count == 1 else None
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
    assert world.nodes_of("high") == ["new"]
    assert not world.events("high", "FailedScheduling")
    assert len(parts.seen) < 2 * NODES
    world.check()


async def test_a_pod_that_is_deleted_meanwhile_preempts_no_pod_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, world = Parts(monkeypatch), full_cluster()
    parts.after = lambda count: world.cluster.delete("Pod", "default/high") if count == 1 else None
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
        assert world.nodes_of("low0", "low1", "low2") == ["n0", "n1", "n2"]
        world.node("new")
        await world.pod_and_wait("next", seconds=5)
    assert world.nodes_of("next") == ["new"]
    assert len(parts.seen) < 2 * NODES
    world.check()


async def test_where_all_results_are_dropped_again_and_again_the_rest_is_tried_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, world = Parts(monkeypatch), full_cluster()

    def change(count: int) -> None:
        if count > 50:  # enough to fail
            return
        budget = v1.PodDisruptionBudget()
        budget.metadata.namespace, budget.metadata.name = "default", f"b{count}"
        world.cluster.create(budget)

    parts.after = change
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
    assert world.nodes_of("high")[0]
    assert parts.seen.count("tried") <= 2 * NODES
    world.check()
