"""Exponential backoff with jitter: computes how long to wait before a retry.

It only computes. The caller sleeps, and passes the source of random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def exponential(initial: float, maximum: float, count: int) -> float:
    """Return the seconds to wait after ``count`` failures: min(initial * 2**(count - 1), maximum).

    It is 0 if count is 0, or if the maximum is 0, which turns backoff off. Source:
    calculateBackoffDuration of kube-scheduler's scheduling queue.
    """
    if count <= 0 or maximum <= 0:
        return 0.0
    # Limit the exponent, since 2.0 ** 1024 overflows; any maximum is reached long before 2**63.
    return min(maximum, initial * 2.0 ** min(count - 1, 63))


@dataclass(slots=True)
class Backoff:
    """The delays between attempts of one operation.

    Each delay is random in the upper half of the exponential one, so that clients that failed at
    the same time do not retry at the same time.
    """

    initial: float
    """Seconds before the first retry."""
    maximum: float
    """Max seconds of a delay."""
    chance: Callable[[], float]
    """Returns a random number in [0, 1), from the owner's seeded source."""
    immediate: int = 0
    """Number of first retries without a delay: those that use a server that was not tried yet."""
    failures: int = 0
    """Failures since the last ``reset``."""

    def next_delay(self) -> float:
        """Count a failure and return the seconds to wait before the next attempt."""
        self.failures += 1
        wait = exponential(self.initial, self.maximum, self.failures - self.immediate)
        return wait * (1.0 + self.chance()) / 2.0

    def reset(self) -> None:
        """Start again from the initial delay, after a success."""
        self.failures = 0
