"""A run on real processes, recorded from the middle of it, is repeated decision by decision."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.cli.replay import own_config
from podsched.lab.replay.recording import read_recording
from podsched.lab.replay.repetition import repeat
from podsched.registry import factories
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound
from support.commands import Commands
from support.eventually import eventually
from support.real_cluster import real_cluster

pytestmark = pytest.mark.integration


def differing(number: int, chance: random.Random) -> Pod:
    cpu = f"{chance.choice([300, 600, 900, 1400]) + number % 7}m"
    spec: dict[str, Any] = {
        "priority": 0,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
    }
    if number % 11 == 10:
        del spec["priority"]
        spec["priorityClassName"] = "system-cluster-critical"
    metadata = {"name": f"p{number}", "namespace": "default", "labels": {"app": f"a{number % 3}"}}
    if number % 3:
        metadata["annotations"] = {"podsched.io/run-seconds": str(number % 4 + 1)}  # type: ignore[assignment]
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    message = from_manifest(document).message
    assert isinstance(message, Pod)
    return message


async def churn(client: ApiClient, first: int, count: int, chance: random.Random) -> None:
    for number in range(first, first + count):
        await client.create(differing(number, chance))
        if number % 6 == 5:
            with suppress(NotFound):  # it has ended by itself
                await client.delete("Pod", f"p{chance.randrange(number)}", "default")
        await asyncio.sleep(0.01)


@pytest.mark.long
async def test_every_decision_of_a_real_leader_comes_out_the_same(tmp_path: Path) -> None:
    chance, file = random.Random(1), tmp_path / "run.rec"
    async with real_cluster(tmp_path / "cluster", replicas=1, nodes=6) as real:
        await churn(real.client, 0, 60, chance)
        recording = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "podsched", "record", str(file),
            "--for", "5m", "--server", real.cluster.server,
        )  # fmt: skip
        await eventually("a recording", file.exists)
        await asyncio.sleep(1.0)
        await churn(real.client, 60, 180, chance)
        await asyncio.sleep(1.0)
        recording.send_signal(signal.SIGINT)
        assert await recording.wait() == 0
    found = read_recording(file)
    assert found.ended == "interrupted"
    verdict = await asyncio.to_thread(
        repeat, found, lambda checkpoint: own_config(found, checkpoint), factories()
    )
    assert [str(mismatch) for mismatch in verdict.mismatches[:3]] == []
    assert verdict.pods > 110
    assert verdict.placed > 20
    said = await asyncio.to_thread(Commands().ok, "replay", str(file))
    assert "replayed in" in said
