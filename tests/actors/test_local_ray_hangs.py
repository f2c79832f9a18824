"""A Ray that hangs blocks no process that joins it, and is ended to be started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from podsched.actors import local_ray
from podsched.actors.local_ray import LocalRay
from podsched.lib.processes import session_members
from support.eventually import PATIENCE
from support.processor_time import exceeds

pytestmark = pytest.mark.integration

#: Says after 4 s, and again when it has joined, for how long its event loop stood still at most,
#: without what a busy machine took for others.
JOIN = """
import asyncio, json, os, sys, time
from podsched.actors.ray_cluster import RayCluster
from support.eventually import PATIENCE
from support.fake_ray import CountingMetrics
from support.processor_time import waited_for_processor

async def main():
    longest = 0.0
    async def tick():
        nonlocal longest
        waited = waited_for_processor()
        while True:
            began, before = time.monotonic(), waited
            await asyncio.sleep(0.02)
            waited = waited_for_processor()
            longest = max(longest, time.monotonic() - began - max(waited - before, 0.0))
    await asyncio.to_thread(__import__, "ray")
    cluster = RayCluster(sys.argv[1], 0.5, CountingMetrics())
    tasks = [asyncio.create_task(tick()), asyncio.create_task(cluster.run())]
    await asyncio.sleep(4)
    print("SAID", json.dumps([cluster.joined.is_set(), longest]), flush=True)
    await cluster.joined.wait()
    print("SAID", json.dumps([True, longest]), flush=True)
    os._exit(0)

asyncio.run(main())
"""


def raylet_of(ray: LocalRay) -> int:
    assert ray.pid is not None
    [pid] = [
        pid
        for pid in session_members(ray.pid)
        if Path("/proc", str(pid), "comm").read_text().strip() == "raylet"
    ]
    return pid


async def said_by(joining: asyncio.subprocess.Process) -> list[Any]:
    assert joining.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while not (line := await joining.stdout.readline()).startswith(b"SAID"):
            assert line, "it ended"
    answer: list[Any] = json.loads(line[4:])
    return answer


@pytest.mark.long
async def test_a_raylet_that_hangs_blocks_no_joining_process_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ray, "HUNG_AFTER", 4.0)
    ray = LocalRay(num_cpus=1, log_dir=tmp_path)
    try:
        await ray.start()
        raylet = raylet_of(ray)
        os.kill(raylet, signal.SIGSTOP)
        paths = os.pathsep.join([*sys.path, "tests"])
        joining = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", JOIN, ray.address),
            env={**os.environ, **ray.environment, "PYTHONPATH": paths},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        joined, pause = await said_by(joining)
        assert not joined
        assert not exceeds(pause, 3.0), "it would have lost its liveness lease"
        os.kill(raylet, signal.SIGCONT)
        joined, pause = await said_by(joining)
        assert joined and not exceeds(pause, 3.0)
        await joining.wait()

        ended = asyncio.create_task(ray.wait())
        session = ray.pid
        os.kill(raylet, signal.SIGSTOP)
        async with asyncio.timeout(PATIENCE):
            assert await ended == "has not answered for 4 s"
        assert session is not None and not session_members(session)
    finally:
        await ray.stop()
