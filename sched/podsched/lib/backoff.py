"""Waits that double up to a bound, as client-go and the scheduling queue count them.

Non-goal: sleeping. The caller owns the clock and the source of chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def exponential(initial: float, maximum: float, count: int) -> float:
    """Return the seconds to wait after ``count`` failures: initial * 2**(count - 1), bounded.

    0 when count is 0 or the maximum is 0 (backoff switched off).
    """
    if count <= 0 or maximum <= 0:
        return 0.0
    # Beyond 2**63 the bound has long been met; this keeps the power finite.
    return min(maximum, initial * 2.0 ** min(count - 1, 63))


@dataclass(slots=True)
class Backoff:
    """The waits between tries of one operation; every retry in podsched counts with one.

    Each wait is spread over the upper half of what it doubled to, so that clients that failed
    together do not return together.
    """

    initial: float
    """Seconds before the first retry."""
    maximum: float
    """Seconds that no wait exceeds."""
    chance: Callable[[], float]
    """A random number in [0, 1); the owner passes its seeded source."""
    immediate: int = 0
    """So many retries do not wait: those that go to a server not tried yet."""
    failures: int = 0

    def next_delay(self) -> float:
        """Count a failure; return the seconds to wait before the next try."""
        self.failures += 1
        wait = exponential(self.initial, self.maximum, self.failures - self.immediate)
        return wait * (1.0 + self.chance()) / 2.0

    def reset(self) -> None:
        """Begin anew, after a success."""
        self.failures = 0
