"""CPU time and memory of running processes, from /proc, and how fast memory grows.

Unlike throughput, CPU time per pod is comparable on a machine that does other work as well. Memory
is what a process has allocated: its anonymous and shared pages. Mapped files, such as libraries and
etcd's database, are left out, since the kernel can drop them at any time.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from podsched.lib.processes import session_members

_TICKS = os.sysconf("SC_CLK_TCK")
_FIELDS = ("RssAnon:", "RssShmem:")


class Usage(NamedTuple):
    """Seconds of CPU used so far, and bytes allocated."""

    cpu: float = 0.0
    memory: int = 0


def usage_in(stat: str, status: str) -> Usage:
    """Return the usage in a process's /proc/PID/stat and /proc/PID/status."""
    # The command in parentheses may itself contain parentheses and spaces.
    fields = stat.rpartition(")")[2].split()
    lines = (line for line in status.splitlines() if line.startswith(_FIELDS))
    memory = 1024 * sum(int(line.split()[1]) for line in lines)
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, memory)


def usage_of(pids: Mapping[str, int | None]) -> dict[str, Usage]:
    """Return the usage by name, without processes that do not exist."""
    found = {}
    for name, pid in pids.items():
        proc = Path(f"/proc/{pid}")
        try:
            found[name] = usage_in((proc / "stat").read_text(), (proc / "status").read_text())
        except OSError:
            continue
    return found


def memory_of(pids: Mapping[str, int | None]) -> dict[str, int]:
    """Return the bytes allocated by name, without processes that do not exist."""
    return {name: usage.memory for name, usage in usage_of(pids).items()}


def usage_of_session(session: int | None) -> dict[str, Usage]:
    """Return the usage of all processes of a session, by the names of their programs.

    Ray's workers change, so those with the same title are added up.
    """
    sums: dict[str, Usage] = {}
    for pid in session_members(session) if session else ():
        for name, usage in usage_of({_title_of(pid): pid}).items():
            known = sums.get(name, Usage())
            sums[name] = Usage(known.cpu + usage.cpu, known.memory + usage.memory)
    return sums


def _title_of(pid: int) -> str:
    """Return the title of a Ray process, such as "ray::IDLE", or the name of its program."""
    try:
        first, *_ = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    return first if first.startswith("ray::") else first.rpartition("/")[2]


def spent(before: Mapping[str, Usage], after: Mapping[str, Usage], pods: int) -> dict[str, float]:
    """Return the microseconds of CPU per pod by process between two readings."""
    return {
        name: round((usage.cpu - before[name].cpu) / max(pods, 1) * 1e6, 1)
        for name, usage in after.items()
        if name in before
    }


def growth(points: Iterable[tuple[float, float]]) -> float:
    """Return the slope of a line through points (x, y); 0 for fewer than two.

    It is the median of the slopes between all pairs (Theil-Sen), which single peaks do not change.
    """
    pairs = itertools.combinations(sorted(points), 2)
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0
