"""Child processes: started again, stopped whatever state they are in, never outliving their parent.

The children are small programs in the place of podsched, so that what they do is the test's
choice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from podsched.app.supervisor import ManagedProcess, ProcessFailed, ProcessSpec
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from support.eventually import eventually

pytestmark = pytest.mark.integration

SLEEP = "import time; time.sleep(600)"
SERVE = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
NOTE_AND_EXIT = """
import os, time
with open(os.environ["NOTES"], "a") as notes:
    notes.write(f"{time.time()}\\n")
"""


class Bench:
    """Starts programs as children, and stops what is left at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[ManagedProcess] = []

    async def child(
        self, program: str, *, restart: bool = True, ready: bool = False
    ) -> ManagedProcess:
        package = self.directory / "podsched"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(program)
        port = free_port()
        environment = {
            "PYTHONPATH": str(self.directory),
            "NOTES": str(self.directory / "notes"),
        }
        spec = ProcessSpec("child", [str(port)], port, environment, restart)
        process = ManagedProcess(spec, self.directory, TaskSet("test"))
        self.started.append(process)
        await process.start()
        return process

    def notes(self) -> list[float]:
        path = self.directory / "notes"
        return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for process in made.started:
        process.kill(signal.SIGKILL)
        await process.stop()


def runs_python(pid: int | None) -> bool:
    """Whether the process is past the wrapper that ties it to its parent."""
    try:
        return b"podsched" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_a_child_that_is_ready_is_reported_so(bench: Bench) -> None:
    process = await bench.child(SERVE)
    await process.wait_ready()
    assert process.pid is not None


async def test_a_child_that_is_killed_is_started_again(bench: Bench) -> None:
    process = await bench.child(SERVE)
    await process.wait_ready()
    first = process.pid
    process.kill(signal.SIGKILL)
    await eventually("another process", lambda: process.pid not in (None, first))
    await process.wait_ready()
    assert process.restarts == 1


async def test_a_child_that_ends_again_and_again_is_started_with_growing_pauses(
    bench: Bench,
) -> None:
    await bench.child(NOTE_AND_EXIT)
    await eventually("four starts", lambda: len(bench.notes()) >= 4)
    times = bench.notes()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # Pauses of 0.2, 0.4 and 0.8 s, each spread over its upper half.
    assert gaps[0] >= 0.1
    assert gaps[1] >= 0.2
    assert gaps[2] >= 0.4


async def test_a_child_that_is_not_to_be_restarted_is_not(bench: Bench) -> None:
    process = await bench.child("raise SystemExit(7)", restart=False)
    await eventually("its end", lambda: process.exit_code is not None)
    await asyncio.sleep(0.5)
    assert process.exit_code == 7
    assert process.restarts == 0
    assert process.pid is None


@pytest.mark.parametrize("restart", [False, True])
async def test_a_child_that_cannot_start_is_an_error_with_the_end_of_its_log(
    bench: Bench, restart: bool
) -> None:
    process = await bench.child(
        "raise SystemExit('the configuration makes no sense')", restart=restart
    )
    began = time.monotonic()
    with pytest.raises(ProcessFailed) as failed:
        await process.wait_ready(timeout=600)
    assert str(failed.value).startswith("child did not become ready:\n")
    assert "the configuration makes no sense" in str(failed.value)
    assert time.monotonic() - began < 300


async def test_a_child_that_never_gets_ready_is_an_error_after_the_timeout(bench: Bench) -> None:
    process = await bench.child(SLEEP)
    with pytest.raises(ProcessFailed):
        await process.wait_ready(timeout=0.5)


async def test_a_stopped_child_ends_and_is_not_started_again(bench: Bench) -> None:
    process = await bench.child(SLEEP)
    await process.stop()
    await asyncio.sleep(0.5)
    assert process.pid is None
    assert process.restarts == 0


async def test_a_paused_child_can_be_stopped(bench: Bench) -> None:
    process = await bench.child(SLEEP)
    await eventually("the program", lambda: runs_python(process.pid))
    process.kill(signal.SIGSTOP)
    began = time.monotonic()
    await process.stop(grace=600)
    assert process.pid is None
    assert time.monotonic() - began < 300


async def test_a_child_that_does_not_listen_is_killed_after_its_grace(bench: Bench) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVE
    process = await bench.child(deaf)
    await process.wait_ready()
    await process.stop(grace=0.3)
    assert process.exit_code == -signal.SIGKILL


PARENT = """
import asyncio, pathlib, sys
from podsched.app.supervisor import ManagedProcess, ProcessSpec
from podsched.lib.tasks import TaskSet

async def main():
    directory = pathlib.Path(sys.argv[1])
    spec = ProcessSpec("child", [], 1, {"PYTHONPATH": str(directory)})
    process = ManagedProcess(spec, directory, TaskSet("test"))
    await process.start()
    print(process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_children_die_with_their_parent_however_it_ends(tmp_path: Path) -> None:
    package = tmp_path / "podsched"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SLEEP)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    try:
        await eventually("the child", lambda: runs_python(child))
        parent.kill()
        await parent.wait()
        await eventually("the child's end", lambda: not is_there(child))
    finally:
        if is_there(child):
            os.kill(child, signal.SIGKILL)


async def test_a_bug_in_the_watch_over_a_child_is_a_failure_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: ManagedProcess) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ManagedProcess, "_watch", broken)
    tasks = TaskSet("the test")
    (tmp_path / "podsched").mkdir()
    (tmp_path / "podsched" / "__main__.py").write_text("")
    (tmp_path / "podsched" / "__init__.py").touch()
    spec = ProcessSpec("child", [], 1, {"PYTHONPATH": str(tmp_path)}, restart=False)
    process = ManagedProcess(spec, tmp_path, tasks)
    await process.start()
    with pytest.raises(ZeroDivisionError):
        await tasks.run()
    await process.stop()


async def test_a_process_that_is_held_is_started_again_only_when_it_is_released(
    bench: Bench,
) -> None:
    child = await bench.child(SLEEP)
    first = child.pid
    child.may_restart.clear()
    child.kill()
    await eventually("its end", lambda: child.pid is None)
    with pytest.raises(ProcessFailed, match="did not end and start again"):
        await child.wait_restarted(0, timeout=1.0)
    child.may_restart.set()
    await child.wait_restarted(0)
    assert child.pid not in (first, None)
