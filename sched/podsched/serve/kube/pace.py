"""Requests per second as client-go limits them: qps on average, burst at once."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Limits the rate of calls; waiting calls proceed in their order of arrival."""

    def __init__(self, qps: float, burst: int) -> None:
        """``qps`` of 0 or less: no limit, as in client-go."""
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._burst = max(burst, 1)
        #: Time at which the bucket is full again.
        self._full_at = 0.0

    async def wait(self) -> None:
        """Wait until one more request may be sent."""
        if not self._interval:
            return
        now = asyncio.get_running_loop().time()
        self._full_at = max(self._full_at, now) + self._interval
        delay = self._full_at - self._interval * self._burst - now
        if delay > 0:
            await asyncio.sleep(delay)
