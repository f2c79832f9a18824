"""Restore the order of items when a trial is rolled back.

Decisions may depend on it: preemption on the order of a node's pods.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


class Orders:
    """The places of items in lists from which a trial has removed some, until the trial ends.

    A list is a dictionary in insertion order. When an item is first removed, all items of the list
    are numbered; each later item gets the next number. A restored item has its old number, so it
    returns to the place that it would have if it had never been removed.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, dict[str, int]] = {}
        #: More than any list has items.
        self._next = itertools.count(1 << 32)

    def take(self, of: Hashable, items: Iterable[str], key: str) -> int:
        """Return the number of an item that is about to be removed from the list ``of``."""
        if of not in self._numbers:
            self._numbers[of] = {known: number for number, known in enumerate(items)}
        return self._numbers[of].setdefault(key, next(self._next))

    def clear(self) -> None:
        """Forget the order of all lists: no trial is open any more."""
        self._numbers.clear()

    def added(self, of: Hashable, key: str) -> None:
        """Note that an item was added at the end of a list."""
        if of in self._numbers:
            self._numbers[of][key] = next(self._next)

    def put_back(self, of: Hashable, items: dict[str, Item], key: str, number: int) -> None:
        """Move a restored item from the end of its list to its old place."""
        numbers = self._numbers[of]
        numbers[key] = number
        # Items that the trial itself added have no number and stay at the end.
        for later in sorted(items, key=lambda item: numbers.get(item, math.inf)):
            items[later] = items.pop(later)
