"""A pod is explained by real replicas: the leader, a standby, and the next leader."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from podsched.lab.bench.shapes import pod_template
from support.commands import Commands
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration


async def explained(real: RealCluster, *arguments: str) -> dict[str, Any]:
    """What the command prints as JSON."""
    sched = Commands(real.cluster.server)
    text = await asyncio.to_thread(sched.ok, "explain", "pod", *arguments, "-o", "json")
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.long
async def test_leader_and_standby_explain_a_pod_and_so_does_the_next_leader(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, nodes=3, replicas=2) as real:
        large = pod_template(cpu="100")
        large.metadata.name = "large"
        await real.client.create(large)

        async def attempted() -> bool:
            return "attempts" in await explained(real, "large")

        await eventually("an attempt", attempted)
        leader = real.leader().spec.name
        told = await explained(real, "large", "--node", "node-0000")
        assert told["answeredBy"]["replica"] == leader
        assert told["answeredBy"]["leading"]
        assert told["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
        assert (told["queue"]["queue"], told["queue"]["attempts"]) == ("unschedulable", 1)
        [group] = told["groups"]
        [shortfall] = group["shortfalls"]
        assert (group["nodes"], shortfall["what"]) == (3, "cpu")
        assert told["nodeVerdicts"][0]["code"] == "UnschedulableAndUnresolvable"

        standby = next(p.spec.name for p in real.cluster.schedulers if p.spec.name != leader)
        theirs = await explained(real, "large", "--replica", standby)
        assert theirs["answeredBy"]["replica"] == standby
        assert "leading" not in theirs["answeredBy"]
        assert theirs["groups"] == told["groups"]

        real.leader().kill()
        await eventually("the standby leads", lambda: real.leader().spec.name == standby)

        async def answers() -> bool:
            return (await explained(real, "large"))["answeredBy"].get("replica") == standby

        await eventually("it answers", answers)
