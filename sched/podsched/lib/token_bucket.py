"""Token buckets, without a clock."""

from __future__ import annotations


class TokenBucket:
    """Allows ``rate`` actions per second on average and ``burst`` at once; full at first.

    A rate of 0 allows nothing.
    """

    def __init__(self, rate: float, burst: float = 1.0) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate; a bucket whose rate was 0 is filled."""
        if rate == self._rate:
            return
        self._refill(now)
        if self._rate == 0:
            self._tokens = self._burst
        self._rate = rate

    def take(self, now: float) -> bool:
        """Take a token for one action; return whether there was one."""
        self._refill(now)
        if self._rate <= 0 or self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, count: int, now: float) -> float:
        """Take ``count`` tokens; return the seconds to wait before the actions."""
        self._refill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._rate)

    def give_back(self, count: int) -> None:
        """Return reserved tokens that are not used."""
        self._tokens += count

    def _refill(self, now: float) -> None:
        gained = max(0.0, now - self._at) * self._rate
        self._tokens = min(self._burst, self._tokens + gained)
        self._at = max(self._at, now)
