"""The Ray cluster that podsched starts itself: on this machine alone, and nothing of it stays."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from podsched.actors.local_ray import LocalRay
from podsched.lib.processes import session_members
from support.eventually import eventually
from support.listening import addresses_of

pytestmark = pytest.mark.integration


async def test_it_listens_on_loopback_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ray = LocalRay(num_cpus=1, log_dir=tmp_path)
    try:
        await ray.start()
        assert ray.address.startswith("127.0.0.1:")
        assert ray.pid is not None
        assert ray._directory is not None
        session, files = ray.pid, ray._directory.path
        assert stat.S_IMODE(files.parent.lstat().st_mode) == 0o700
        # Drivers can join before all of its parts are up.
        await eventually("a raylet", lambda: "raylet" in names(session))
        await eventually("its agent", lambda: "ray::RuntimeEnvAgent" in names(session))
        assert addresses_of(session_members(session)) == {"127.0.0.1"}
        assert "monitor.py" not in names(session), "it shows its metrics to all who ask"
    finally:
        await ray.stop()
    assert not session_members(session)
    assert not files.exists()
    assert ray.pid is None
    # What makes its own session is found by the directory that every part is given.
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _mentions(pid, files)]


def names(session: int) -> str:
    """The command lines of the processes of a session."""
    found = []
    for pid in session_members(session):
        with contextlib.suppress(OSError):
            found.append(Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace"))
    return "\n".join(found)


def _mentions(pid: str, files: Path) -> bool:
    try:
        return str(files).encode() in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False


def test_drivers_are_told_a_token_of_their_own_and_to_stay_on_this_machine() -> None:
    first, second = LocalRay(), LocalRay()
    environment = first.environment
    assert environment["RAY_AUTH_MODE"] == "token"
    assert len(environment["RAY_AUTH_TOKEN"]) >= 32
    assert environment["RAY_AUTH_TOKEN"] != second.environment["RAY_AUTH_TOKEN"]
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
