"""A set of keys that can be listed in ascending order while keys are added and removed.

Sorting 60,000 keys takes 40 ms, during which an API server answers no requests. So new keys are
sorted alone and merged with the sorted rest: Python's sort detects the two runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

#: Number of unmerged keys that triggers a merge, so that each merge takes only a few ms.
MOST_LOOSE: Final = 4096


class KeyOrder:
    """A set of keys; ``in_order`` lists them."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._came: dict[str, None] = {}
        self._gone: set[str] = set()

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if key in self._gone:
            self._gone.remove(key)
            return
        self._came[key] = None
        if len(self._came) >= MOST_LOOSE:
            self._merge()

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        if key in self._came:
            del self._came[key]
        else:
            self._gone.add(key)

    def in_order(self) -> Sequence[str]:
        """Return the keys in ascending order; the list is valid until the next add or remove."""
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
