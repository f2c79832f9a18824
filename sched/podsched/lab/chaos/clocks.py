"""Wall clocks of processes that can be stepped while they run, by libfaketime.

A step of the machine's own clock would affect all processes on it. CLOCK_MONOTONIC does not change,
as with a real step.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

#: Where distributions put the variant for programs with threads.
_LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)


def library() -> str:
    """Return the path of libfaketime; "" if it is not installed."""
    return next((path for pattern in _LIBRARIES for path in sorted(glob(pattern))), "")


#: Where libfaketime keeps objects of each process; they stay if the process is killed.
_SHARED = Path("/dev/shm")
_OBJECTS = ("faketime_shm_*", "sem.faketime_sem_*")


class Clocks:
    """The wall clocks of several processes; a file for each has its offset in seconds."""

    def __init__(self, path: str, directory: Path) -> None:
        """``path``: of libfaketime."""
        self._path = path
        self._directory = directory
        self._ahead: Counter[str] = Counter()
        self._others = set(_objects())

    def environment(self, process: str) -> Mapping[str, str]:
        """Return the environment variables for a process."""
        self.step(process, 0)
        return {
            "LD_PRELOAD": self._path,
            "FAKETIME_TIMESTAMP_FILE": str(self._file(process)),
            "FAKETIME_CACHE_DURATION": "1",  # seconds between looks at the file
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def step(self, process: str, seconds: int) -> None:
        """Step a process's clock forward, or backward if negative; it notices within a second."""
        self._ahead[process] += seconds
        new = self._file(process).with_suffix(".new")
        new.write_text(f"{self._ahead[process]:+d}\n")
        os.replace(new, self._file(process))

    def close(self) -> None:
        """Remove what libfaketime has left of processes that have ended since this was made."""
        for left in set(_objects()) - self._others:
            if not Path(f"/proc/{left.name.rpartition('_')[2]}").exists():
                left.unlink(missing_ok=True)

    def _file(self, process: str) -> Path:
        return self._directory / f"{process}.clock"


def _objects() -> Iterator[Path]:
    for pattern in _OBJECTS:
        yield from _SHARED.glob(pattern)
