"""CPU time of running processes, from /proc.

Unlike throughput, CPU time per pod is comparable on a machine that does other work as well.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from podsched.lab.bench.memory import title_of
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
