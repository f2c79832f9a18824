"""Keep the times at which objects are to be examined."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Agenda:
    """Keys, each with the monotonic time at which it is due: the earliest that was asked for."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []

    def put(self, key: str, at: float) -> None:
        """Make a key due at a time, unless it is due earlier already."""
        if self._at.get(key, at + 1) > at:
            self._at[key] = at
            heapq.heappush(self._times, (at, key))

    def due(self, now: float) -> Iterator[str]:
        """Take the keys that are due, one by one; stop to leave the others."""
        while self._times and self._times[0][0] <= now:
            at, key = heapq.heappop(self._times)
            if self._at.get(key) == at:
                del self._at[key]
                yield key

    @property
    def next(self) -> float | None:
        """The time at which the next key is due; None if there is none.

        It may be too early: the time of a key that became due earlier stays until it has passed.
        """
        return self._times[0][0] if self._times else None
