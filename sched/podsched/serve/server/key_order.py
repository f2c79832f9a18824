"""Keys in ascending order while others come and go.

Sorting 60,000 keys anew takes 40 ms, for which an API server answers nobody. So what has come is
sorted by itself and merged with what is in order already: the sort recognises the two runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

#: Keys that come before they are merged without being asked for: the merge then takes a few ms.
MOST_LOOSE: Final = 4096


class KeyOrder:
    """A set of keys; ``in_order`` lists them."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._came: dict[str, None] = {}
        self._gone: set[str] = set()

    def add(self, key: str) -> None:
        """Add a key that is not there."""
        if key in self._gone:
            self._gone.remove(key)
            return
        self._came[key] = None
        if len(self._came) >= MOST_LOOSE:
            self._merge()

    def remove(self, key: str) -> None:
        """Remove a key that is there."""
        if key in self._came:
            del self._came[key]
        else:
            self._gone.add(key)

    def in_order(self) -> Sequence[str]:
        """Return the keys in ascending order: a list that is valid until a key comes or goes."""
        if self._came or self._gone:
            self._merge()
        return self._sorted

    def _merge(self) -> None:
        if self._gone:
            self._sorted = [key for key in self._sorted if key not in self._gone]
            self._gone = set()
        self._sorted += sorted(self._came)
        self._sorted.sort()
        self._came = {}
