"""The queues of client-go's ``workqueue``: objects to examine, at once or at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys of objects to examine, each once, in the order in which they were added."""

    def __init__(self) -> None:
        self._keys: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: K) -> None:
        self._keys[key] = None

    def update(self, keys: Iterable[K]) -> None:
        self._keys.update(dict.fromkeys(keys))

    def adder(self, key: K) -> Callable[[], None]:
        """Return a function that adds a key, to retry a write."""
        return partial(self.add, key)

    def take(self, most: int | None = None) -> Iterator[K]:
        """Take keys one by one, but none that is added meanwhile; ``most``: so many at most."""
        # Not one by one from the front of the dict, which would skip all deleted entries each time:
        # with 100,000 keys that took 28 s.
        for key in list(islice(self._keys, most)):
            del self._keys[key]
            yield key


class DelayingQueue:
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
