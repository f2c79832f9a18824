"""The times before which units may not be tried."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush


class Backoffs:
    """When the backoff of each unit ends, by the unit's key."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        #: Heap of the times in ``_until``, and of some that are outdated.
        self._times: list[tuple[float, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._until

    def set(self, key: str, until: float) -> None:
        """Keep a unit from being tried before ``until``, also if it begins to wait only later."""
        self._until[key] = until
        heappush(self._times, (until, key))

    def next_time(self) -> float | None:
        """Return when the next backoff ends."""
        while self._times and self._until.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def pop_ended(self, now: float) -> Iterator[str]:
        """Remove and yield the units whose backoff has ended."""
        while (time := self.next_time()) is not None and time <= now:
            key = heappop(self._times)[1]
            del self._until[key]
            yield key
