"""Keeps the objects of one kind in memory, by key and in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from podsched.serve.server.entries import Entry
from podsched.telemetry.logs import get_logger

_log = get_logger("watch-cache")

#: When an object of more than this many bytes is replaced, its decoded form is dropped: the ring
#: keeps the old version, and decoded it would take ten times the memory of its bytes.
_LARGE = 4096
#: Number of unmerged keys that triggers a merge, so that each merge takes only a few ms.
MAX_UNMERGED: Final = 4096

Follower = Callable[[str, Entry | None], None]
"""Called with key and entry of each object that changes; None: it is removed."""


class KindObjects:
    """The decodable objects of a kind, and the keys of those that cannot be decoded."""

    def __init__(self) -> None:
        self.by_key: dict[str, Entry] = {}
        self.unreadable: set[str] = set()
        self.last_change = 0
        """Revision of the last change of any of them."""
        self.follower: Follower = lambda key, entry: None
        self._order = KeyOrder()
        #: The objects in order; None after a change.
        self._sorted: list[Entry] | None = None

    def in_order(self) -> Sequence[Entry]:
        """Return the objects sorted by key; the list is never changed."""
        if self._sorted is None:
            self._sorted = [self.by_key[key] for key in self._order.in_order()]
        return self._sorted

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Replace all objects by those as of a revision."""
        before = list(self.by_key)
        self.by_key.clear()
        self.unreadable.clear()
        for entry in entries:
            if entry.is_readable():
                self.by_key[entry.key] = entry
            else:
                self.mark_unreadable(entry)
        self._sorted = None
        self._order = KeyOrder(self.by_key)
        self.last_change = revision
        # Followers first lose everything: the former objects may be of another history.
        for key in before:
            self.follower(key, None)
        for key, entry in self.by_key.items():
            self.follower(key, entry)

    def put(self, entry: Entry) -> Entry | None:
        """Store a version of an object; return the one before it."""
        key = entry.key
        old = self.by_key.get(key)
        if old is None:
            self._order.add(key)
            self.unreadable.discard(key)
        elif len(old.value) > _LARGE:
            old.release()
        self.by_key[key] = entry
        self._sorted = None
        self.follower(key, entry)
        return old

    def remove(self, key: str) -> Entry | None:
        """Remove an object, and return its last decodable version, None if there is none."""
        self.unreadable.discard(key)
        old = self.by_key.pop(key, None)
        if old is not None:
            self._order.remove(key)
            self._sorted = None
            self.follower(key, None)
        return old

    def mark_unreadable(self, entry: Entry) -> Entry | None:
        """Note an undecodable version of an object, which counts as removed; return the one before.

        It is logged once until the object can be decoded again.
        """
        known = entry.key in self.unreadable
        old = self.remove(entry.key)
        self.unreadable.add(entry.key)
        if not known:
            _log.warning("An object cannot be read", kind=entry.kind.name, name=entry.key)
        return old


class KeyOrder:
    """A set of keys; ``in_order`` lists them.

    Sorting 60,000 keys takes 40 ms, during which an API server answers no requests. So new keys are
    sorted alone and merged with the sorted rest: Python's sort detects the two runs.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._added: dict[str, None] = {}
        self._removed: set[str] = set()

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if key in self._removed:
            # It is still in the sorted list, and must not be there twice.
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
