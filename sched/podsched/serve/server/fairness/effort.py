"""Reads the processor time that a thread has used, and the time it has waited for a processor."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from podsched.serve.server.fairness.flows import Effort

#: Nanoseconds that the reading thread has run and has waited for a processor (Linux).
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


def effort_of_thread() -> Effort:
    """Return the calling thread's processor time and waiting time (0 if the system has none)."""
    try:
        delayed = int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        delayed = 0.0
    return Effort(time.thread_time(), delayed)
