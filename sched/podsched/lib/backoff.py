"""Waiting times that double, with a bound, as client-go and the scheduling queue count them.

Non-goal: sleeping. The caller owns the clock and the chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def exponential(initial: float, maximum: float, count: int) -> float:
    """Seconds to wait after the count-th failure: initial doubled count-1 times, bounded.

    0 when count is 0 or the maximum is 0 (backoff switched off).
    """
    if count <= 0 or maximum <= 0:
        return 0.0
    # Beyond 2**63 the bound has long been met; this keeps the power finite.
    return min(maximum, initial * 2.0 ** min(count - 1, 63))


def jitter(seconds: float, factor: float, chance: float) -> float:
    """Between `seconds` and `seconds * (1 + factor)`; `chance` in [0, 1) chooses (wait.Jitter)."""
    return seconds + chance * factor * seconds


@dataclass(slots=True)
class Backoff:
    """Counts failures in a row and says how long to wait after each."""

    initial: float
    maximum: float
    factor: float = 0.0
    """How much jitter to add at most, as a part of the wait."""
    chance: Callable[[], float] = lambda: 0.0
    """A random number in [0, 1); the owner passes its seeded source."""
    failures: int = 0

    def failed(self) -> float:
        """Note a failure; the seconds to wait before the next try."""
        self.failures += 1
        return jitter(
            exponential(self.initial, self.maximum, self.failures), self.factor, self.chance()
        )

    def succeeded(self) -> None:
        """Begins anew."""
        self.failures = 0
