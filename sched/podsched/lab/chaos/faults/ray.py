"""Processes of Ray are killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

from podsched.lab.chaos.faults.fault import Do, Doing, chosen
from podsched.lab.chaos.system import System
from podsched.lib.processes import session_members


def kill(among: Callable[[int], Sequence[int]], what: str) -> Do:
    """Kill one of Ray's processes, chosen from its head's session; ``what`` names it as {}."""

    @asynccontextmanager
    async def do(system: System, pick: float) -> Doing:
        head = system.cluster.ray.pid if system.cluster.ray is not None else None
        if head is None:
            raise LookupError("Ray does not run")
        pid = chosen(among(head), pick)
        os.kill(pid, Signals.SIGKILL)
        yield what.format(pid)

    return do


def workers(head: int) -> list[int]:
    """Return the processes of the head's session without itself: raylet, control store, workers."""
    return [pid for pid in session_members(head) if pid != head and _title(pid) is not None]


def actors(head: int) -> list[int]:
    """Return the processes of actors."""
    titles = {pid: _title(pid) or "" for pid in workers(head)}
    return [pid for pid, t in titles.items() if t.startswith("ray::") and "IDLE" not in t]


def _title(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
