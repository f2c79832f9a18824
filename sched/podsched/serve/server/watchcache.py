"""Keeps all objects and their latest changes in memory, to answer lists and watches.

Guarantees:

- ``revision`` only grows, unless etcd is restored from a backup (``load``).
- The objects are exactly those of etcd at ``revision``.
- ``ring`` (``ChangeRing``) has every change after a revision.

Undecodable entries are excluded: an object that becomes undecodable counts as deleted.

``cache_reflector`` feeds the cache. Callers check rights; the cache does not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from podsched.api.kinds import KINDS, Kind
from podsched.lib.revisions import RevisionWaiters
from podsched.serve.server.change_ring import Change, ChangeRing
from podsched.serve.server.entries import Entry
from podsched.serve.store.protocol import EventType, WatchBatch, WatchEvent
from podsched.telemetry.logs import get_logger

_log = get_logger("watch-cache")

T = TypeVar("T")
M = TypeVar("M")

#: Max seconds of ``settle``.
_SETTLE_SECONDS = 1.0
#: When an object of more than this many bytes is replaced, its decoded form is dropped: the ring
#: keeps the old version, and decoded it would take ten times the memory of its bytes.
_LARGE = 4096
#: Max writes in flight whose bytes are remembered (``WrittenNotes``).
_MAX_WRITTEN = 20_000
#: Number of unmerged keys that triggers a merge, so that each merge takes only a few ms.
MAX_UNMERGED: Final = 4096


class WrittenNotes:
    """The bytes of this server's writes in flight, which the watch need not check."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], bytes] = {}

    def note(self, kind: Kind, key: str, value: bytes) -> None:
        """Remember bytes that this server is about to write, so that the watch need not check them.

        Decoding each change again would take 3.5 µs of the 35 that a change costs the server. If
        the write fails, the note has no effect.
        """
        if len(self._values) >= _MAX_WRITTEN:
            self._values.clear()  # notes only save time, so all may be dropped
        self._values[kind.name, key] = value

    def is_readable(self, entry: Entry) -> bool:
        """Return whether an entry from the watch can be decoded; forget its note."""
        written = self._values.pop((entry.kind.name, entry.key), None)
        return written == entry.value or entry.is_readable()


class WatchCache:
    """All objects by kind and local key, and a ring of changes. Used from one event loop."""

    def __init__(self, *, max_events: int, max_bytes: int) -> None:
        """Create an empty cache; max_events, max_bytes: of the ring, in changes and frames."""
        self.revision = 0
        self.ring = ChangeRing(max_events=max_events, max_bytes=max_bytes)
        self.written = WrittenNotes()
        self._objects: dict[str, dict[str, Entry]] = {name: {} for name in KINDS}
        self._sorted: dict[str, list[Entry] | None] = dict.fromkeys(KINDS, None)
        self._order = {name: KeyOrder() for name in KINDS}
        self._last_changes: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._unreadable: dict[str, set[str]] = {name: set() for name in KINDS}
        self._followers: dict[str, Callable[[str, Entry | None], None]] = {}
        self._changed: asyncio.Future[None] | None = None
        self._waiters = RevisionWaiters()

    # ------------------------------------------------------------------ reading

    def objects(self, kind: Kind) -> Mapping[str, Entry]:
        """Return the objects of a kind by local key.

        The mapping changes with the cache, so do not iterate over it across an ``await``.
        """
        return self._objects[kind.name]

    def messages(self, kind: Kind) -> Iterator[Any]:
        """Yield the decoded objects of a kind."""
        return (entry.message for entry in self._objects[kind.name].values())

    def get(self, kind: Kind, key: str) -> Entry | None:
        """Return one object, or None."""
        return self._objects[kind.name].get(key)

    def message(self, kind: Kind, key: str, of: type[M]) -> M | None:
        """Return an object, None if there is none; ``of``: its type."""
        entry = self._objects[kind.name].get(key)
        return entry.message if entry is not None and isinstance(entry.message, of) else None

    def in_order(self, kind: Kind) -> Sequence[Entry]:
        """Return the objects of a kind sorted by key; the list is never changed."""
        entries = self._sorted[kind.name]
        if entries is None:
            objects = self._objects[kind.name]
            entries = [objects[key] for key in self._order[kind.name].in_order()]
            self._sorted[kind.name] = entries
        return entries

    def last_change(self, kind: Kind) -> int:
        """Return the revision of the last change to an object of a kind."""
        return self._last_changes[kind.name]

    def keys(self, kind: Kind) -> Iterator[str]:
        """Yield the local keys of all stored objects of a kind, decodable or not."""
        yield from self._objects[kind.name]
        yield from self._unreadable[kind.name]

    def unreadable(self, kind: Kind) -> int:
        """Return the number of undecodable entries of a kind."""
        return len(self._unreadable[kind.name])

    def follow(self, kind: Kind, changed: Callable[[str, Entry | None], None]) -> None:
        """Call ``changed`` with key and entry of each object of a kind that changes; None: removed.

        For values derived from many objects that change often; for others see ``Derived``. One
        follower of a kind, before the first objects.
        """
        self._followers[kind.name] = changed

    # ------------------------------------------------------------------ writing

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Replace everything by all objects as of a revision; watchers must list again.

        A revision lower than the present one means that etcd was restored from a backup. Tasks that
        wait for later revisions are then woken, because those may never come.
        """
        if revision < self.revision:
            self._waiters.release()
        self.revision = revision
        before = {name: list(self._objects[name]) for name in self._followers}
        for name in KINDS:
            self._objects[name].clear()
            self._unreadable[name].clear()
        for entry in entries:
            if entry.is_readable():
                self._objects[entry.kind.name][entry.key] = entry
            else:
                self._mark_unreadable(entry)
        for name in KINDS:
            self._sorted[name] = None
            self._order[name] = KeyOrder(self._objects[name])
            self._last_changes[name] = revision
        for name, follower in self._followers.items():
            for key in before[name]:
                follower(key, None)
            for key, entry in self._objects[name].items():
                follower(key, entry)
        self.ring.restart(revision)
        self._advance(revision)

    def apply(self, batch: WatchBatch) -> None:
        """Apply the changes that follow those applied before."""
        for event in batch.events:
            change = self._change_of(event)
            if change is not None:
                self.ring.add(change)
        self.ring.trim()
        self._advance(batch.revision)

    def _change_of(self, event: WatchEvent) -> Change | None:
        """Apply one event to the objects; return the change, None if no object has changed."""
        kv = event.kv
        entry = Entry.of(kv)
        if entry is None:
            return None
        name = entry.kind.name
        self._last_changes[name] = kv.mod_revision
        change = self._stored_change(event, entry)
        if change is not None and name in self._followers:
            self._followers[name](entry.key, change.new)
        return change

    def _stored_change(self, event: WatchEvent, entry: Entry) -> Change | None:
        kv, name = event.kv, entry.kind.name
        objects = self._objects[name]
        deleted = event.type == EventType.DELETE
        # Watchers cannot get an undecodable object, so for them it is deleted.
        if not deleted and not self.written.is_readable(entry):
            self._mark_unreadable(entry)
            deleted = True
        elif self._unreadable[name]:
            self._unreadable[name].discard(entry.key)
        if deleted:
            old = objects.pop(entry.key, None)
            self._sorted[name] = None
            if old is not None:
                self._order[name].remove(entry.key)
            return Change(None, old, kv.mod_revision) if old is not None else None
        old = objects.get(entry.key)
        if old is not None and len(old.value) > _LARGE:
            old.release()
        objects[entry.key] = entry
        self._sorted[name] = None
        if old is None:
            self._order[name].add(entry.key)
        return Change(entry, old, kv.mod_revision)

    def _mark_unreadable(self, entry: Entry) -> None:
        """Record and log an undecodable entry, once until it is decodable again."""
        known = self._unreadable[entry.kind.name]
        if entry.key not in known:
            known.add(entry.key)
            _log.warning("An object cannot be read", kind=entry.kind.name, name=entry.key)

    # ------------------------------------------------------------------ waiting

    def _advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        self.wake()
        self._waiters.reached(self.revision)

    def wake(self) -> None:
        """Wake all tasks that wait for a change."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that the next change completes; shared, so do not cancel it."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    async def wait_for(self, revision: int) -> None:
        """Wait until ``self.revision`` is at least ``revision``."""
        if self.revision < revision:
            await self._waiters.wait_for(revision)

    async def settle(self, revision: int) -> None:
        """Wait until the cache has a revision that this server has written, at most a second.

        If the cache lags longer, this returns all the same: reads check their freshness themselves.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self.wait_for(revision)


class Derived(Generic[T]):
    """A value computed from the cached objects of some kinds, recomputed when one has changed."""

    def __init__(self, cache: WatchCache, make: Callable[[], T], *kinds: Kind) -> None:
        """make: computes the value from the cache's objects of ``kinds``."""
        self._cache = cache
        self._make = make
        self._kinds = kinds
        self._made_at: list[int] = []

    def __call__(self) -> T:
        """Return the current value."""
        changed_at = [self._cache.last_change(kind) for kind in self._kinds]
        if changed_at != self._made_at:
            self._value = self._make()
            self._made_at = changed_at
        return self._value


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
