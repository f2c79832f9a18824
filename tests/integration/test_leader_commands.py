"""Handing over by hand, pausing, and a preferred leader, with real replicas under load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from podsched.lab.bench.shapes import copies, pod_template
from support.commands import Commands
from support.eventually import eventually
from support.real_cluster import RealCluster, metric, real_cluster

pytestmark = pytest.mark.integration


async def run(sched: Commands, *arguments: str) -> str:
    """A command that succeeds, beside what the test does."""
    return await asyncio.to_thread(sched.ok, *arguments)


async def warm_standby(real: RealCluster) -> None:
    """Each replica says of itself that it could lead."""

    async def all_warm() -> bool:
        leases = (await real.client.list("Lease", "kube-system")).items
        warm = [lease.metadata.annotations.get("podsched.io/warm") for lease in leases]
        return warm.count("true") == len(real.cluster.schedulers)

    await eventually("warm replicas", all_warm)


async def test_the_lock_is_handed_over_on_request_and_scheduling_is_paused_and_resumed(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, nodes=20) as real:
        sched = Commands(real.cluster.server)
        await warm_standby(real)
        submitter = await real.submit("pod", 300)
        await eventually("some bindings", lambda: real.bound("pod") > 20)
        before = real.leader()
        target = next(p.spec.name for p in real.cluster.schedulers if p is not before)

        async def handed_over() -> bool:
            """Not if a busy target lets half a second pass: then another gets the lock first."""
            done = await asyncio.to_thread(sched, "leader", "transfer", "--to", target)
            return done.out.startswith(target)

        await eventually("it is handed over", handed_over)
        await eventually("it leads", lambda: real.leader().spec.name == target)
        assert before.pid is not None, "the former leader stands by"

        await run(sched, "leader", "pause", "--reason", "a test")
        await eventually(
            "it is paused", lambda: metric(real.leader(), "podsched_scheduling_paused")
        )
        assert await submitter.wait() == 0
        assert "PAUSED" in await run(sched, "status")
        await real.client.create_pods(list(copies(pod_template(), "later", 10)))
        terms = len(real.observer.leaders)
        real.leader().kill()
        await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
        await asyncio.sleep(1.0)
        assert not real.bound("later"), "the next leader is paused, too"
        await run(sched, "leader", "resume")
        await eventually("all bound", lambda: real.bound("pod") + real.bound("later") == 310)
        await real.check_history("pod", 300)


@pytest.mark.long
async def test_a_standby_of_higher_priority_gets_the_lock_and_keeps_it(tmp_path: Path) -> None:
    def arguments(process: str) -> tuple[str, ...]:
        return ("--leader-priority=5",) if process == "scheduler-1" else ()

    async with real_cluster(tmp_path, replicas=2, process_arguments=arguments) as real:
        await eventually("it leads", lambda: real.leader().spec.name == "scheduler-1")
        terms = len(real.observer.leaders)
        await asyncio.sleep(5.0)
        assert len(real.observer.leaders) == terms
