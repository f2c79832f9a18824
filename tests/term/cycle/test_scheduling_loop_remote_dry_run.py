"""What may happen to a pod while actors try out whom it may preempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from podsched.decide.evaluation.dry_run import DryRunRequest, DryRunResult
from podsched.framework.verdicts import Rows
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


class SlowDryRun:
    """Finds nothing, a second later; meanwhile the test changes the cluster."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def worth(self, nodes: int) -> bool:
        return nodes > 0

    async def dry_run(
        self, request: DryRunRequest, rows: Rows, traceparent: str = ""
    ) -> Sequence[DryRunResult]:
        self.asked.append(len(rows))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        await asyncio.sleep(1)
        return ()


def full_cluster() -> tuple[TermWorld, SlowDryRun]:
    trials = SlowDryRun()
    world = TermWorld(remote_dry_run=trials)
    world.node("n1")
    world.pod("low", cpu="4", on="n1")
    return world, trials


async def test_a_pod_that_fits_by_then_is_bound_and_preempts_no_pod() -> None:
    world, trials = full_cluster()
    trials.meanwhile = lambda: world.node("n2")
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
        assert trials.asked and world.nodes_of("low", "high") == ["n1", "n2"]
        assert not world.events("high", "FailedScheduling")
        world.check()


async def test_a_pod_that_is_deleted_meanwhile_preempts_no_pod_and_others_go_on() -> None:
    world, trials = full_cluster()
    trials.meanwhile = lambda: world.cluster.delete("Pod", "default/high")
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10, seconds=5)
        assert trials.asked and world.nodes_of("low") == ["n1"]
        assert world.place("high") == ""
        world.node("n2")
        await world.pod_and_wait("next", seconds=5)
        assert world.nodes_of("next") == ["n2"]
        world.check()


async def test_a_pod_of_the_same_batch_that_is_deleted_meanwhile_is_not_tried() -> None:
    world, trials = full_cluster()
    trials.meanwhile = lambda: world.cluster.delete("Pod", "default/second")
    async with world.running():
        world.pod("first", cpu="4", priority=10)
        world.pod("second", cpu="4", priority=10)
        await asyncio.sleep(20)
        assert world.nodes_of("first") == ["n1"]
        assert world.place("second") == "" and trials.asked == [1]
        world.check()


async def test_when_nothing_comes_of_it_the_leader_tries_in_the_same_attempt() -> None:
    world, trials = full_cluster()
    async with world.running():
        world.pod("high", cpu="4", priority=10)
        await asyncio.sleep(20)
        assert trials.asked and world.nodes_of("high") == ["n1"]
        world.check()
