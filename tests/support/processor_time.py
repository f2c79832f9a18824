"""Limits in seconds of processor time that hold on slow machines, too."""

from __future__ import annotations

import time
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


def _seconds_of_loop() -> float:
    began, total = time.process_time(), 0
    for number in range(_ITERATIONS):
        total += number
    return time.process_time() - began
