"""A heap of named items whose order is a tuple fixed when they enter.

Guarantees: add and pop in O(log n), get, remove and first in amortised O(1); equal keys leave in
the order in which they were added.

Why keys and not a less-than function: with 100,000 pods the function would be called some fifty
times per pop, whereas ``heapq`` compares tuples itself, an order of magnitude faster. A removed
item stays in the list until it reaches the top, or until the list is rebuilt: with an addition when
half of it are removed items, with a removal when seven eighths are. Then few items are left, so a
queue of 50,000 pods that only shrinks never holds the event loop for long.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: A key, a number that is never used again, and the item's name; not the item, which is freed as
#: soon as it is removed.
_Entry = tuple[tuple[Any, ...], int, str]
#: Lists shorter than this are not worth rebuilding.
_SMALL = 64


class KeyHeap(Generic[T]):
    """Items by name, ordered by key."""

    __slots__ = ("_entries", "_list", "_next")

    def __init__(self) -> None:
        self._entries: dict[str, tuple[_Entry, T]] = {}
        self._list: list[_Entry] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        """All items, in no order; the heap must not change meanwhile."""
        return (item for _, item in self._entries.values())

    def add(self, name: str, key: tuple[Any, ...], item: T) -> None:
        """Add an item, or replace the one of this name."""
        entry = key, self._next, name
        self._next += 1
        self._entries[name] = entry, item
        heapq.heappush(self._list, entry)
        self._tidy(2)

    def get(self, name: str) -> T | None:
        found = self._entries.get(name)
        return None if found is None else found[1]

    def remove(self, name: str) -> T | None:
        found = self._entries.pop(name, None)
        if found is None:
            return None
        self._tidy(8)
        return found[1]

    def first(self) -> tuple[tuple[Any, ...], T] | None:
        """Return the first key and its item; None if there is none."""
        while self._list:
            entry = self._list[0]
            # Compared by identity: an item that was removed and added again has a new entry.
            found = self._entries.get(entry[2])
            if found is not None and found[0] is entry:
                return entry[0], found[1]
            heapq.heappop(self._list)
        return None

    def pop(self) -> T | None:
        """Remove and return the first item."""
        first = self.first()
        if first is None:
            return None
        # ``first`` has removed what was before its entry.
        del self._entries[heapq.heappop(self._list)[2]]
        return first[1]

    def before(self, key: tuple[Any, ...], first: int) -> tuple[int, list[T]]:
        """Return how many items have a smaller key, and the first ones of them in order; O(n)."""
        entries = [entry for entry, _ in self._entries.values() if entry[0] < key]
        return len(entries), [self._entries[e[2]][1] for e in heapq.nsmallest(first, entries)]

    def in_order(self) -> list[T]:
        """All items, first to last; O(n log n)."""
        ordered = sorted(entry for entry, _ in self._entries.values())
        return [self._entries[entry[2]][1] for entry in ordered]

    def _tidy(self, most: int) -> None:
        """Rebuild a list that is ``most`` times as long as needed; 0.5 us for each item."""
        if len(self._list) > most * len(self._entries) + _SMALL:
            self._list = [entry for entry, _ in self._entries.values()]
            heapq.heapify(self._list)
