"""A head whose parts end while it starts is given up at once, and started again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from podsched.actors import local_ray
from podsched.actors.local_ray import LocalRay, RayStartError
from podsched.lib.processes import session_processes
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration

#: ``ray start``: starts a program named gcs_server, which dies in the first starts, and waits for
#: it like Ray: for ever. The others are complete.
HEAD = """
import os, pathlib, socket, subprocess, sys, time
here = pathlib.Path(os.environ["FAKE_RAY"])
option = dict(zip(sys.argv[3:], sys.argv[4:]))
with open(here / "starts", "a") as starts:
    starts.write(f"{time.monotonic()}\\n")
gcs = subprocess.Popen([here / "gcs_server", "1000"])
if len((here / "starts").read_text().split()) <= int(os.environ["FAKE_RAY_DYING"]):
    time.sleep(0.5)
    gcs.kill()
    time.sleep(1000)
sockets = pathlib.Path(option["--temp-dir"]) / "session_1" / "sockets"
sockets.mkdir(parents=True)
(sockets / "raylet").touch()
listening = socket.create_server(("127.0.0.1", int(option["--port"])))
while True:
    listening.accept()
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package named ray that starts no Ray; its directory has a line for each start."""
    package = tmp_path / "ray"
    (package / "scripts").mkdir(parents=True)
    (package / "__init__.py").write_text("def init(**options): pass\n")
    (package / "scripts" / "__init__.py").touch()
    (package / "scripts" / "scripts.py").write_text(HEAD)
    (tmp_path / "gcs_server").symlink_to("/bin/sleep")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FAKE_RAY", str(tmp_path))
    # What a head that hangs would cost is more than any test takes.
    monkeypatch.setattr(local_ray, "START_TIMEOUT", 10 * PATIENCE)
    return tmp_path


def starts(fake: Path) -> list[float]:
    return [float(line) for line in (fake / "starts").read_text().split()]


async def test_a_head_is_started_again_when_a_part_of_it_has_ended(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RAY_DYING", "2")
    ray = LocalRay(num_cpus=1)
    try:
        async with asyncio.timeout(PATIENCE):
            await ray.start()
        assert len(starts(fake)) == 3
    finally:
        await ray.stop()


async def test_when_parts_of_every_head_end_the_start_fails_names_them_and_keeps_the_address(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RAY_DYING", "3")
    monkeypatch.setattr(local_ray, "FIRST_START_PAUSE", 3.0)
    monkeypatch.setattr(local_ray, "LONGEST_START_PAUSE", 3.0)
    ray = LocalRay(num_cpus=1)
    try:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(RayStartError, match="gcs_server ended"):
                await ray.start()
        first, second, third = starts(fake)
        # The random pause is at least half as long.
        assert second - first > 1.5 and third - second > 1.5
        assert ray.pid is None
        address = ray.address
        async with asyncio.timeout(PATIENCE):
            await ray.start()
        assert ray.address == address != "", "drivers have been told it"
    finally:
        await ray.stop()


@pytest.mark.long
async def test_a_real_head_is_started_again_when_its_raylet_is_killed(tmp_path: Path) -> None:
    """Ray itself would wait for it for 30 s; the join that follows would have the time, too."""
    ray = LocalRay(num_cpus=1, log_dir=tmp_path)
    starting = asyncio.create_task(ray.start())

    def raylets() -> list[int]:
        session = ray.pid
        found = session_processes(session) if session is not None else []
        return [one.pid for one in found if one.name == "raylet" and not one.has_ended]

    try:
        await eventually("a raylet", raylets)
        head = ray.pid
        os.kill(raylets()[0], signal.SIGKILL)
        await eventually("another head", lambda: ray.pid not in (None, head))
        async with asyncio.timeout(PATIENCE):
            await starting
        text = (tmp_path / "ray.log").read_text()
        assert "timed out during startup" not in text, "Ray's own timeout came first"
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await ray.stop()
