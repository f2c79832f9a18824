"""The clock of a process that runs is stepped, and no other clock."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from podsched.lab.chaos.clocks import Clocks, library
from support.eventually import eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not library(), reason="libfaketime is not installed"),
]

#: Says both clocks for each line that it reads.
_CLOCKS = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


async def test_a_step_moves_the_wall_clock_of_one_process_alone(tmp_path: Path) -> None:
    clocks = Clocks(library(), tmp_path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CLOCKS),
        env={**os.environ, **clocks.environment("scheduler-0")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    async def ahead() -> tuple[int, int]:
        """How many minutes its clocks are ahead of ours, the wall clock and the monotonic one."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        wall, monotonic = map(float, (await process.stdout.readline()).split())
        return round((wall - time.time()) / 60), round((monotonic - time.monotonic()) / 60)

    try:
        for step, wanted in ((86_400, 1440), (-86_400, 0), (-7_200, -120)):
            clocks.step("scheduler-0", step)
            await eventually(f"a step by {step} s", ahead, (wanted, 0))
    finally:
        process.kill()
        await process.wait()
