"""Ray's head, a worker or an actor is killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

from podsched.lab.chaos.faults.fault import Doing, chosen
from podsched.lab.chaos.system import System
from podsched.lib.processes import session_members


@asynccontextmanager
async def kill_head(system: System, pick: float) -> Doing:
    """Kill Ray's head; it is started again."""
    del pick
    os.kill(_head(system), Signals.SIGKILL)
    yield "Ray's head is killed"


@asynccontextmanager
async def kill_worker(system: System, pick: float) -> Doing:
    """Kill a process of Ray's node: the raylet, the control store or a worker."""
    head = _head(system)
    pid = chosen(_titled(head, lambda _: True), pick)
    os.kill(pid, Signals.SIGKILL)
    yield f"process {pid} of Ray is killed"


@asynccontextmanager
async def kill_actor(system: System, pick: float) -> Doing:
    """Kill the process of an actor."""
    pids = _titled(_head(system), lambda title: title.startswith("ray::") and "IDLE" not in title)
    pid = chosen(pids, pick)
    os.kill(pid, Signals.SIGKILL)
    yield f"actor {pid} of Ray is killed"


def _head(system: System) -> int:
    """Return the process of the head. Raises ``LookupError``."""
    pid = system.cluster.ray.pid if system.cluster.ray is not None else None
    if pid is None:
        raise LookupError("Ray does not run")
    return pid


def _titled(head: int, wanted: Callable[[str], bool]) -> list[int]:
    """Return the processes of the head's session, without itself, whose titles are wanted."""
    found = []
    for pid in session_members(head):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if pid != head and wanted(title):
            found.append(pid)
    return found
