"""Requests per second as client-go limits them: qps on average, burst at once."""

from __future__ import annotations


class RateLimit:
    """Limits the rate of calls; waiting calls proceed in their order of arrival."""

    def __init__(self, qps: float, burst: int) -> None:
        """``qps`` of 0 or less: no limit, as in client-go."""
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._burst = max(burst, 1)
        #: Time at which the bucket is full again.
        self._full_at = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds to wait before one more request that was made ``now``."""
        if not self._interval:
            return 0.0
        self._full_at = max(self._full_at, now) + self._interval
        return max(self._full_at - self._interval * self._burst - now, 0.0)
