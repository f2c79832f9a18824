"""A heap whose items are found by key, ordered by a less-than function.

Guarantees: add, update, delete and pop in O(log n), peek and get in O(1); equal items leave
in the order in which they were added. After an item has changed its order, `add` it again.
Not safe to change an item's order without telling the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Heap(Generic[K, T]):
    """Keyed binary heap."""

    __slots__ = ("_items", "_key", "_less", "_next", "_order", "_place")

    def __init__(self, key: Callable[[T], K], less: Callable[[T, T], bool]) -> None:
        self._key = key
        self._less = less
        self._items: list[T] = []
        self._order: list[int] = []
        """When each item was first added, beside it: the tie breaker."""
        self._place: dict[K, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._place

    def __iter__(self) -> Iterator[T]:
        """All items, in no order; the heap must not change meanwhile."""
        return iter(self._items)

    def get(self, key: K) -> T | None:
        """Return the item of this key."""
        place = self._place.get(key)
        return None if place is None else self._items[place]

    def peek(self) -> T | None:
        """Return the first item."""
        return self._items[0] if self._items else None

    def add(self, item: T) -> None:
        """Add an item, or replace the one of the same key and put it where it belongs now."""
        key = self._key(item)
        place = self._place.get(key)
        if place is None:
            place = len(self._items)
            self._items.append(item)
            self._order.append(self._next)
            self._next += 1
            self._place[key] = place
            self._up(place)
        else:
            self._items[place] = item
            self._settle(place)

    update = add

    def delete(self, key: K) -> T | None:
        """Remove and return the item of this key."""
        place = self._place.get(key)
        return None if place is None else self._remove(place)

    def pop(self) -> T | None:
        """Remove and return the first item."""
        return self._remove(0) if self._items else None

    def clear(self) -> None:
        """Remove everything."""
        self._items.clear()
        self._order.clear()
        self._place.clear()

    def _remove(self, place: int) -> T:
        removed = self._items[place]
        del self._place[self._key(removed)]
        last, order = self._items.pop(), self._order.pop()
        if place < len(self._items):
            self._items[place], self._order[place] = last, order
            self._place[self._key(last)] = place
            self._settle(place)
        return removed

    def _before(self, left: int, right: int) -> bool:
        one, other = self._items[left], self._items[right]
        if self._less(one, other):
            return True
        if self._less(other, one):
            return False
        return self._order[left] < self._order[right]

    def _settle(self, place: int) -> None:
        if self._up(place) == place:
            self._down(place)

    def _up(self, place: int) -> int:
        while place:
            parent = (place - 1) >> 1
            if not self._before(place, parent):
                break
            self._swap(place, parent)
            place = parent
        return place

    def _down(self, place: int) -> None:
        size = len(self._items)
        while (child := 2 * place + 1) < size:
            if child + 1 < size and self._before(child + 1, child):
                child += 1
            if not self._before(child, place):
                return
            self._swap(child, place)
            place = child

    def _swap(self, left: int, right: int) -> None:
        items, order = self._items, self._order
        items[left], items[right] = items[right], items[left]
        order[left], order[right] = order[right], order[left]
        self._place[self._key(items[left])] = left
        self._place[self._key(items[right])] = right
