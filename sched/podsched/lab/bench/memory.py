"""Memory of running processes, from /proc, and how fast it grows.

Measured is what a process has allocated: its anonymous and shared pages. Mapped files, such as
libraries and etcd's database, are left out, since the kernel can drop them at any time.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from podsched.lib.processes import session_members

_FIELDS = ("RssAnon:", "RssShmem:")


def memory_of_status(status: str) -> int:
    """Return the bytes that a process has allocated, from its /proc/PID/status."""
    return 1024 * sum(
        int(line.split()[1]) for line in status.splitlines() if line.startswith(_FIELDS)
    )


def memory_of(pids: Mapping[str, int | None]) -> dict[str, int]:
    """Return the bytes allocated by name, without processes that do not exist."""
    found = {}
    for name, pid in pids.items():
        try:
            found[name] = memory_of_status(Path(f"/proc/{pid}/status").read_text())
        except OSError:
            continue
    return found


def memory_of_session(session: int | None) -> dict[str, int]:
    """Return the bytes allocated by all processes of a session, by the names of their programs.

    Workers come and go: those that run the same thing are added up.
    """
    sums: dict[str, int] = defaultdict(int)
    for pid in session_members(session) if session else ():
        for name, size in memory_of({title_of(pid): pid}).items():
            sums[name] += size
    return dict(sums)


def title_of(pid: int) -> str:
    """Return what a process of Ray says it is, such as "ray::IDLE", or the name of its program."""
    try:
        first, *_ = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    return first if first.startswith("ray::") else first.rpartition("/")[2]


def growth(points: Iterable[tuple[float, float]]) -> float:
    """Return the slope of a line through points (x, y); 0 for fewer than two.

    It is the median of the slopes between all pairs (Theil-Sen), which single peaks do not change.
    """
    ordered: Sequence[tuple[float, float]] = sorted(points)
    slopes = [
        (y2 - y1) / (x2 - x1)
        for (x1, y1), (x2, y2) in itertools.combinations(ordered, 2)
        if x2 > x1
    ]
    return statistics.median(slopes) if slopes else 0.0
