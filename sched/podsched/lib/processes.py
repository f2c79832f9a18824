"""Child processes that never outlive their parent (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# Asks the kernel for SIGKILL at the parent's death, and then executes the real program. This is a
# separate program, because a preexec_fn would run Python code in a fork of a process with gRPC's
# threads, which may deadlock. The parent may have died before the call to prctl took effect, so its
# pid is checked afterwards.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs ``command`` and is killed by the kernel when its parent ends.

    Precisely, when the thread that started it ends (PR_SET_PDEATHSIG). The program must be an
    absolute path.
    """
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


async def start_child(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start a child as ``dying_with_parent``, whose output only its owner may read. Raises OSError.

    Its session is its own, so that Ctrl-C does not reach it: the parent ends its children in order.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *dying_with_parent(command),
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def send_signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a child process; no effect if it has ended.

    Unlike ``Process.send_signal``, this does not reap a child that has just ended. If that did, the
    event loop, which waits for the child in another thread, would report 255 as its exit code.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def end_process(process: asyncio.subprocess.Process, grace: float) -> bool:
    """End a child with SIGTERM, or with SIGKILL after ``grace`` seconds; return whether by that."""
    # A process stopped with SIGSTOP only gets the SIGTERM after a SIGCONT.
    for number in (signal.SIGTERM, signal.SIGCONT):
        send_signal(process, number)
    try:
        async with asyncio.timeout(grace):
            await process.wait()
    except TimeoutError:
        send_signal(process, signal.SIGKILL)
        await process.wait()
        return True
    return False


class SessionProcess(NamedTuple):
    """A process of a session.

    ``name``: its program or title, at most 15 characters; ``command``: with its arguments,
    separated by blanks; empty for a zombie.
    """

    pid: int
    name: str
    command: str
    has_ended: bool


def session_processes(session: int) -> list[SessionProcess]:
    """Return the processes in a session, read from /proc; a zombie has ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        # One that has been reaped meanwhile is left out.
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                # The format is: pid (name) state ... The name may contain parentheses and blanks.
                name, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
                ended = rest.split()[0] in ("Z", "X")
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                found.append(SessionProcess(pid, name.partition("(")[2], command, ended))
    return found


def session_members(session: int) -> list[int]:
    """Return the pids of the running processes in a session, without zombies."""
    return [process.pid for process in session_processes(session) if not process.has_ended]
