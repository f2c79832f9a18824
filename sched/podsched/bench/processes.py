"""CPU time and memory of running processes, from /proc.

Unlike throughput, CPU time per pod is comparable on a machine that does other work as well.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from podsched.bench.memory import title_of
from podsched.lib.processes import session_members

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds_of(stat: str) -> float:
    """Return the user and system time in a process's /proc/PID/stat line."""
    # The command in parentheses may itself contain parentheses and spaces.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_seconds(pids: Mapping[str, int | None]) -> dict[str, float]:
    """Return the CPU seconds used so far by name, without processes that do not exist."""
    found = {}
    for name, pid in pids.items():
        try:
            found[name] = cpu_seconds_of(Path(f"/proc/{pid}/stat").read_text())
        except OSError:
            continue
    return found


def cpu_seconds_of_session(session: int | None) -> dict[str, float]:
    """Return the CPU seconds of all processes of a session, added up by what they say they are."""
    sums: dict[str, float] = defaultdict(float)
    for pid in session_members(session) if session else ():
        for name, seconds in cpu_seconds({title_of(pid): pid}).items():
            sums[name] += seconds
    return dict(sums)


def spent(before: Mapping[str, float], after: Mapping[str, float], pods: int) -> dict[str, float]:
    """Return the microseconds of CPU per pod by process between two readings."""
    return {
        name: round((seconds - before[name]) / max(pods, 1) * 1e6, 1)
        for name, seconds in after.items()
        if name in before
    }


def resident_bytes(pids: Mapping[str, int | None]) -> dict[str, int]:
    """Return the bytes of memory in use by name, without processes that do not exist."""
    return _status_bytes(pids, "VmRSS")


def peak_bytes(pids: Mapping[str, int | None]) -> dict[str, int]:
    """Return the most memory in use since the process began or ``reset_peaks``, by name."""
    return _status_bytes(pids, "VmHWM")


def reset_peaks(pids: Mapping[str, int | None]) -> None:
    """Have ``peak_bytes`` begin anew; without effect where that is not permitted."""
    for pid in pids.values():
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status_bytes(pids: Mapping[str, int | None], field: str) -> dict[str, int]:
    found = {}
    for name, pid in pids.items():
        with contextlib.suppress(OSError):
            found[name] = kibibytes(Path(f"/proc/{pid}/status").read_text(), field) << 10
    return found


def kibibytes(status: str, field: str) -> int:
    """Return a field of a process's /proc/PID/status in KiB; 0 if it is not there."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    return 0
