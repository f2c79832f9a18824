"""The times at which something is due."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import inf

#: More outdated times than this, and than half of all, are dropped: they may be far in the future.
_MOST_OUTDATED = 16


def earliest(*times: float | None) -> float | None:
    """Return the earliest of some times; None means never."""
    return min((time for time in times if time is not None), default=None)


class DueTimes:
    """When each of many things is due, by its key."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        #: Heap of the times in ``_at``, and of some that are outdated.
        self._times: list[tuple[float, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def set(self, key: str, at: float) -> None:
        """Make a key due at a time, and at no other."""
        if self._at.get(key) != at:
            self._at[key] = at
            heappush(self._times, (at, key))
            if len(self._times) > 2 * len(self._at) + _MOST_OUTDATED:
                self._times = [(at, key) for key, at in self._at.items()]
                heapify(self._times)

    def advance(self, key: str, at: float) -> None:
        """Make a key due at a time, unless it is due earlier already."""
        if at < self._at.get(key, inf):
            self.set(key, at)

    def at(self, key: str) -> float | None:
        """Return when a key is due; None: never."""
        return self._at.get(key)

    def discard(self, key: str) -> None:
        """Make a key due no more."""
        self._at.pop(key, None)

    def clear(self) -> None:
        """Make all keys due no more."""
        self._at.clear()

    def next_time(self) -> float | None:
        """Return when the next key is due; None if none is."""
        while self._times and self._at.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def pop_due(self, now: float) -> Iterator[tuple[str, float]]:
        """Remove and yield the keys that are due, with their times; stop to leave the others."""
        while (at := self.next_time()) is not None and at <= now:
            key = heappop(self._times)[1]
            del self._at[key]
            yield key, at
