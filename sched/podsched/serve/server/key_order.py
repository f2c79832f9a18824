"""A set of keys that can be listed in ascending order while keys are added and removed.

Sorting 60,000 keys takes 40 ms, during which an API server answers no requests. So new keys are
sorted alone and merged with the sorted rest: Python's sort detects the two runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

#: Number of unmerged keys that triggers a merge, so that each merge takes only a few ms.
MAX_UNMERGED: Final = 4096


class KeyOrder:
    """A set of keys; ``in_order`` lists them."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._added: dict[str, None] = {}
        self._removed: set[str] = set()

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if key in self._removed:
            self._removed.remove(key)
            return
        self._added[key] = None
        if len(self._added) >= MAX_UNMERGED:
            self._merge()

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        if key in self._added:
            del self._added[key]
        else:
            self._removed.add(key)

    def in_order(self) -> Sequence[str]:
        """Return the keys in ascending order; the list is valid until the next add or remove."""
        if self._added or self._removed:
            self._merge()
        return self._sorted

    def _merge(self) -> None:
        if self._removed:
            self._sorted = [key for key in self._sorted if key not in self._removed]
            self._removed = set()
        self._sorted += sorted(self._added)
        self._sorted.sort()
        self._added = {}
