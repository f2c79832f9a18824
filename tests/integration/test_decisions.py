"""What real replicas decide is recorded: while they run, beside a shadow, and of a killed one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from podsched.lab.bench.shapes import copies, pod_template
from support.commands import Commands
from support.eventually import eventually
from support.real_cluster import metric, real_cluster

pytestmark = pytest.mark.integration

#: Takes the first node again and again, where the default spreads.
PACKED = """
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""
TWO = "profiles: [{schedulerName: default-scheduler}, {schedulerName: second}]\n"


async def run(sched: Commands, *arguments: str) -> str:
    """A command that succeeds, beside what the test does."""
    return await asyncio.to_thread(sched.ok, *arguments)


async def test_decisions_are_recorded_and_another_configuration_is_taken_over_under_load(
    tmp_path: Path,
) -> None:
    packed, two = tmp_path / "packed.yaml", tmp_path / "two.yaml"
    packed.write_text(PACKED)
    two.write_text(TWO)
    shadow = (f"--shadow-config={packed}",)
    async with real_cluster(tmp_path, nodes=8, replicas=2, scheduler_arguments=shadow) as real:
        sched, client = Commands(real.cluster.server), real.client
        submitter = await real.submit("pod", 200)
        await eventually("some bindings", lambda: real.bound("pod") > 20)
        await run(sched, "config", "apply", "-f", str(two))
        assert await submitter.wait() == 0
        await client.create_pods(list(copies(pod_template(schedulerName="second"), "other", 5)))
        await eventually("all bound", lambda: real.bound("pod") + real.bound("other") == 205)
        await real.check_history("pod", 200)

        told = await run(sched, "decisions", "pod-7")
        assert "Scheduled, attempt 1" in told

        async def scheduled() -> int:
            """How many are recorded as bound: a moment after others have seen it."""
            others = await run(sched, "decisions", "--reason", "scheduled", "--limit", "1000")
            return len(others.splitlines()) - 1

        await eventually("each decision, and none twice", scheduled, 205)
        standby = next(p for p in real.cluster.schedulers if p is not real.leader())
        name = "podsched_shadow_decisions_total"
        await eventually("shadow decisions", lambda: metric(standby, name, result="different"))
        assert "BOUND TO" in await run(sched, "decisions", "--shadow")

        # Either may have led when the pod was decided on: on a busy machine the lease may expire.
        logs = []
        for replica in real.cluster.schedulers:
            replica.kill()
            log = str(real.cluster.specs.decision_log(replica.spec.name))
            logs.append(await run(sched, "decisions", "pod-7", "--file", log))
        assert "Scheduled, attempt 1" in "".join(logs)
