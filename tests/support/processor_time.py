"""Limits in seconds of processor time, or without it, that hold on slow machines, too."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Iterations of the loop that measures the machine, and the seconds of processor time that they
#: take on the machine for which the limits are meant.
_ITERATIONS: Final = 1_000_000
_SECONDS: Final = 0.05


def exceeds(took: float, limit: float) -> bool:
    """Whether something took longer than the limit, both in seconds of processor time.

    On a slow machine the limit is larger, by the factor that a loop takes longer at that moment.
    """
    return took > limit and took > limit * max(1.0, _seconds_of_loop() / _SECONDS)


def waited_for_processor() -> float:
    """Seconds for which threads of this process that live were ready to run, and others ran.

    What takes long although this does not grow is not the machine's fault.
    """
    total = 0
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError, IndexError):  # it has just ended, or the kernel does not count
            total += int((thread / "schedstat").read_text().split()[1])
    return total / 1e9


def _seconds_of_loop() -> float:
    began, total = time.process_time(), 0
    for number in range(_ITERATIONS):
        total += number
    return time.process_time() - began
