"""With a real Ray cluster: shards agree with the leader, what dies is replaced, work goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podsched.actors import ray_cluster
from podsched.actors.local_ray import LocalRay
from podsched.actors.ray_cluster import RayCluster, RayUnavailable
from podsched.actors.term_actors import ActorOptions, TermActors
from podsched.config.settings import EvaluatorSettings
from podsched.lab.chaos.faults.processes import ray_actors
from podsched.lib.tasks import in_background
from podsched.term.writes.bind_queue import Binder
from podsched.v1 import api_pb2
from support.direct_binder import DirectBinder
from support.engine_world import World
from support.evaluations import seen
from support.eventually import eventually
from support.fake_ray import CountingMetrics
from support.preemption_world import PreemptionWorld
from support.processor_time import exceeds, waited_for_processor

pytestmark = pytest.mark.integration


@asynccontextmanager
async def term_of(
    cluster: RayCluster, world: World, term: int, direct: Binder
) -> AsyncIterator[TermActors]:
    # On a busy machine a first answer may take longer than the second that a leader waits for it.
    settings = EvaluatorSettings(
        evaluator="ray", shards=2, ray_call_timeout=10.0, ray_retry_period=0.5
    )
    options = ActorOptions(settings, (world.runtime.profile,), ("127.0.0.1:1",))
    actors = TermActors(cluster, options, term, world.cache.columns, direct)
    async with in_background(actors.run(), "actors"):
        yield actors


async def agree(world: World, actors: TermActors, times: int = 6) -> None:
    """Evaluations with the shards' help are those without."""
    for _ in range(times):
        world.mutate()
        pending = world.pending()
        evaluation = world.evaluation(pending)
        await actors.evaluator.prepare(evaluation, pending)
        assert seen(evaluation, pending) == seen(world.evaluation(pending), pending)


async def preempt_the_same(world: PreemptionWorld, actors: TermActors, times: int = 6) -> None:
    """Preemption with the shards' dry runs comes to what it comes to without."""
    world.remote = world.decider(actors.dry_run)
    for _ in range(times):
        found, alone, _ = await world.both()
        assert found == alone
        world.change()


def all_current(actors: TermActors) -> bool:
    shards = actors.shards
    return bool(shards.all) and len(shards.current) == len(shards.all)


def polls_head() -> bool:
    """Return whether Ray's thread for error messages runs in this process."""
    return any(thread.name == "ray_listen_error_messages" for thread in threading.enumerate())


def nice(pid: int) -> int:
    """Return the niceness of a process."""
    return os.getpriority(os.PRIO_PROCESS, pid)


async def longest_pause(until: asyncio.Event) -> float:
    """Return the longest time for which the event loop stood still until something happened.

    Without what a busy machine takes for others.
    """
    longest, waited = 0.0, waited_for_processor()
    while not until.is_set():
        began, before = time.monotonic(), waited
        await asyncio.sleep(0.02)
        waited = waited_for_processor()
        longest = max(longest, time.monotonic() - began - max(waited - before, 0.0))
    return longest


async def test_actors_may_die_and_the_cluster_too_and_evaluation_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story, since a Ray cluster takes seconds to start and a process can join only one."""
    local = LocalRay(log_dir=tmp_path)
    await local.start()
    os.environ.update(local.environment)
    metrics = CountingMetrics()
    cluster = RayCluster(local.address, 0.5, metrics)
    joining = asyncio.create_task(cluster.run())
    world, direct = PreemptionWorld(11, nodes=40, wanted=20), DirectBinder()
    world.fill()
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    try:
        # A leader that stood still for as long as its liveness lease lives (2 s) would be replaced.
        assert not exceeds(await longest_pause(cluster.joined), 2.0)

        # Ray replaces the handler of SIGTERM by one that prints a stack first.
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually("the handler is called", terminated.is_set)
        assert "SIGTERM received" not in capfd.readouterr().err

        async with term_of(cluster, world, 5, direct) as actors:
            await agree(world, actors)
            await eventually("all shards are current", lambda: all_current(actors))
            await agree(world, actors)
            assert metrics.calls["evaluate", "ok"]
            await preempt_the_same(world, actors)
            assert metrics.calls["dry_run_rows", "ok"]

            # A binder actor that does not reach the API server: the batch goes out directly.
            await eventually("all binders are ready", lambda: all(b.ready for b in actors.binders))
            assert local.pid is not None
            assert {nice(pid) for pid in ray_actors(local.pid)} == {nice(os.getpid())}
            results = await actors.binder.bind_pods(
                [api_pb2.Binding(name="p")], fence=api_pb2.Fence()
            )
            assert len(results) == 1 and direct.batches == 1

            # An actor dies: local at once, and replaced.
            handle = await cluster.find("evaluator-0")
            await cluster.kill(handle)
            await preempt_the_same(world, actors, 2)
            await agree(world, actors)
            await eventually("one is replaced", lambda: metrics.replaced, ["evaluator"])
            await eventually("all shards are current", lambda: all_current(actors))
            await agree(world, actors)
            of_old_leader = actors.shards.all[0]

        # The next leader takes the actors over; the old one is refused.
        async with term_of(cluster, world, 6, direct) as following:
            await eventually("all shards are current", lambda: all_current(following))
            await agree(world, following)
            assert metrics.replaced == ["evaluator"]
            with pytest.raises(RayUnavailable):
                await of_old_leader.evaluate(b"", "", 5.0)

            # The whole cluster dies: local at once, no thread polls the head, and back with it.
            with monkeypatch.context() as patch:
                patch.setattr(ray_cluster, "MISSED_PROBES", 10**9)
                patch.setattr(RayCluster, "_node_runs", lambda _: True)
                await local.kill()
                await eventually("Ray's thread ends before it is left", lambda: not polls_head())
            await agree(world, following)
            await eventually("Ray is noticed to be gone", lambda: not cluster.joined.is_set())
            assert following.evaluator.mode == "local"
            await agree(world, following)
            await local.start()
            assert local.address == cluster.address
            await eventually("all shards are current", lambda: all_current(following))
            await agree(world, following)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await cluster.close()
        await local.stop()
