"""A journal of changed keys, so that readers read only these keys again.

Each reader keeps its own position, and the journal does not know its readers. ``cache.journal`` is
the same for rows of nodes, with arrays as results.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

#: Max entries; at this many the older half is dropped.
_MOST: Final = 65_536

Key = TypeVar("Key", bound=Hashable)


class ChangedKeys(Generic[Key]):
    """A bounded list of keys; positions in it only grow."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        #: The position of the first of them.
        self._start = 0

    @property
    def position(self) -> int:
        """The current position."""
        return self._start + len(self._keys)

    def since(self, position: int) -> Collection[Key] | None:
        """Return the distinct keys that were added since, in order; None: no longer known."""
        if position < self._start:
            return None
        return dict.fromkeys(self._keys[position - self._start :])

    def add(self, key: Key) -> None:
        """Note a change."""
        if len(self._keys) >= _MOST:
            del self._keys[: _MOST // 2]
            self._start += _MOST // 2
        self._keys.append(key)
