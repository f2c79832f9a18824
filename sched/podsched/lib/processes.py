"""Child processes that never outlive their parent (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# Ties the child to its parent before it becomes the program. A program of its own and not a
# preexec_fn, which would run Python in a fork of a process that has gRPC's threads. The parent
# may have died before the call took effect, hence the second look.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return the command, wrapped so that the kernel kills it when the starting thread ends.

    The program must be an absolute path.
    """
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def send_signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a child process that may have ended a moment ago.

    ``Process.send_signal`` first reaps a child that has ended. Then the event loop, which waits for
    it in another thread, does not learn its exit code and reports 255.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def session_members(session: int) -> list[int]:
    """Return the pids of the live processes in a session, read from /proc.

    Zombies, which have ended and wait for their parent to take note, are left out.
    """
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == session and not _has_ended(entry):
                members.append(int(entry.name))
    return members


def _has_ended(entry: Path) -> bool:
    """Whether the process of a directory in /proc is a zombie. Raises OSError when it is gone."""
    # pid (name) state ...: the name may hold anything, parentheses and blanks included.
    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
    return state in ("Z", "X")
