"""What a run of the tests leaves behind: nothing, or it has failed.

A run has a temporary folder of its own, which the processes that it starts inherit. In the end no
file may be in it, and no process that was started may live.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from support.eventually import eventually_blocking

#: Seconds in which processes that were just killed may still be there.
_GRACE = 60.0
#: The variable by which processes of a run are known.
_MARK = "PODSCHED_TESTS"


class TemporaryFolder:
    """The temporary folder of this process and its children, until ``leave``."""

    def __init__(self) -> None:
        # Ray puts Unix sockets below it, whose paths may not exceed 107 bytes: a short name.
        self.path = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
        self._before = os.environ.get("TMPDIR")
        # Where pytest keeps the directories of tests that failed.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.path)
        os.environ[_MARK] = str(self.path)

    def leave(self) -> list[str]:
        """Remove it; return what was found in it, and the processes that still have it."""
        found: list[str] = []
        try:
            eventually_blocking("processes end", self._processes, [], within=_GRACE)
        except AssertionError:
            found += self._processes()
            self._kill()
        found += [str(path) for path in sorted(self.path.rglob("*")) if not path.is_dir()]
        shutil.rmtree(self.path, ignore_errors=True)
        tempfile.tempdir = None
        del os.environ[_MARK]
        if self._before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = self._before
        return found

    def _processes(self) -> list[str]:
        """Return the commands of the processes that live."""
        found = []
        for pid in self._pids():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"process {pid}: {command.decode(errors='replace').strip()}")
        return found

    def _kill(self) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _pids(self) -> list[int]:
        """Return the processes that were started with this folder."""
        mark = f"{_MARK}={self.path}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return sorted(found)
