"""What every process does when it is asked to stop, and when it fails."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from support.eventually import PATIENCE

PROGRAM = """
import asyncio
from podsched.app.process import Process, ProcessOptions, run_process

async def main(process: Process) -> None:
    print("running", flush=True)
    {body}
    await process.stopping.wait()
    print("tidied up", flush=True)

raise SystemExit(run_process(ProcessOptions("test"), main))
"""


async def started(body: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM.format(body=body)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"running\n"
    return process


@pytest.mark.integration
async def test_an_alarm_that_a_library_has_set_does_not_cut_the_end_short() -> None:
    """Ray's library sets one when it sees the signal."""
    rest = "await process.stopping.wait(); await asyncio.sleep(1.5)"
    process = await started(f"import signal; signal.alarm(1); {rest}")
    process.terminate()
    out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"tidied up\n")


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_that_is_asked_to_stop_tidies_up_and_ends_with_0(
    number: signal.Signals,
) -> None:
    process = await started("pass")
    process.send_signal(number)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (out, process.returncode) == (b"tidied up\n", 0)


@pytest.mark.integration
async def test_the_first_reason_to_stop_is_the_exit_code() -> None:
    process = await started("process.stop(3); process.stop(4)")
    await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 3


@pytest.mark.integration
async def test_a_bug_ends_the_process_loudly() -> None:
    process = await started("raise ZeroDivisionError")
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert b"ZeroDivisionError" in err


TIDIES_UP = """
import asyncio
from podsched.lib.tasks import run_and_tidy_up

async def work():
    try:
        print("working", flush=True)
        await asyncio.Event().wait()
    finally:
        print("tidying up", flush=True)
        await asyncio.sleep(0.2)
        print("tidied up", flush=True)

run_and_tidy_up(work())
"""


@pytest.mark.integration
async def test_a_second_sigterm_does_not_cut_short_what_the_first_one_began() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", TIDIES_UP), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    for line in (b"working\n", b"tidying up\n"):
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == line
        process.terminate()
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (out, process.returncode) == (b"tidied up\n", 128 + signal.SIGTERM)


@pytest.mark.integration
async def test_work_that_ends_as_if_cancelled_is_not_taken_for_terminated() -> None:
    bug = TIDIES_UP.replace("await asyncio.Event().wait()", "raise asyncio.CancelledError")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", bug),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert b"CancelledError" in err
