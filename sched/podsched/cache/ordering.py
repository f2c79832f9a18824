"""Orders that are as they were once a trial is rolled back.

Decisions may depend on them: preemption on the order of a node's pods, samples on that of nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Item = TypeVar("Item")


def in_order(items: Mapping[str, Item], order: Iterable[str]) -> dict[str, Item]:
    """Return the items in an order that they were in before; those that are new come last."""
    return {key: items[key] for key in (*(key for key in order if key in items), *items)}


class Orders:
    """The places of items in lists from which a trial has taken some, until the trial ends.

    A list is a dictionary in the order in which its items came. From when something is first taken
    from it, each of its items has a number, and whatever comes gets the next one. What comes back
    has its old number, so that it stands where it would if it had never gone, whatever else has
    come and gone meanwhile.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, dict[str, int]] = {}
        #: More than any list has items.
        self._next = itertools.count(1 << 32)

    def take(self, of: Hashable, items: Iterable[str], key: str) -> int:
        """Return the number of an item that is about to be taken from the list ``of``."""
        if of not in self._numbers:
            self._numbers[of] = {known: number for number, known in enumerate(items)}
        return self._numbers[of].setdefault(key, next(self._next))

    def came(self, of: Hashable, key: str) -> None:
        """Note that an item has been added at the end of a list."""
        if of in self._numbers:
            self._numbers[of][key] = next(self._next)

    def put_back(self, of: Hashable, items: dict[str, Item], key: str, number: int) -> None:
        """Move an item, which has just come to the end of its list again, to its old place."""
        numbers = self._numbers[of]
        numbers[key] = number
        # What the trial itself has put there has no number, and stays at the end.
        for later in sorted(items, key=lambda item: numbers.get(item, math.inf)):
            items[later] = items.pop(later)
