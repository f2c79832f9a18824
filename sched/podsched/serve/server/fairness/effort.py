"""How much of a processor a thread has had, and how much it would have had to itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from podsched.serve.server.fairness.flows import Effort

#: Nanoseconds on a processor, and waiting for one, of the thread that reads it (Linux).
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


def effort_of_thread() -> Effort:
    """Return what the calling thread has used and waited; where nobody knows, it has not waited."""
    try:
        delayed = int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        delayed = 0.0
    return Effort(time.thread_time(), delayed)
