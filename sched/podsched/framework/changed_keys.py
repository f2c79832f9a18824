"""A journal of changed keys, so that readers read only these keys again.

Each reader keeps its own position, and the journal does not know its readers. ``cache.journal`` is
the same for rows of nodes, with arrays as results.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import ClassVar, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class ChangedKeys(Generic[Key]):
    """A bounded list of keys; positions in it only grow."""

    __slots__ = ("keys", "start")

    #: With more keys the older half is dropped, so that the cost of moving the others is spread
    #: over as many additions.
    most: ClassVar[int] = 65_536

    def __init__(self) -> None:
        #: Others only read them.
        self.keys: list[Key] = []
        #: The position of the first of them.
        self.start = 0

    @property
    def position(self) -> int:
        """The current position."""
        return self.start + len(self.keys)

    def since(self, position: int) -> Collection[Key] | None:
        """Return the distinct keys that were added since, in order; None: no longer known."""
        if position < self.start:
            return None
        # A dict and not a set, to keep the order in which the keys were first added.
        return dict.fromkeys(self.keys[position - self.start :])

    def add(self, key: Key) -> None:
        """Note a change."""
        keys = self.keys
        keys.append(key)
        if len(keys) > self.most:
            excess = len(keys) - self.most // 2
            del keys[:excess]
            self.start += excess
