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
from typing import Any, Generic, TypeVar

from podsched.api.kinds import KINDS, Kind
from podsched.lib.revisions import RevisionWaiters
from podsched.serve.server.change_ring import Change, ChangeRing
from podsched.serve.server.entries import Entry
from podsched.serve.server.kind_objects import Follower, KindObjects
from podsched.serve.store.protocol import EventType, WatchBatch, WatchEvent

T = TypeVar("T")
M = TypeVar("M")

#: Max seconds of ``settle``.
_SETTLE_SECONDS = 1.0
#: Max writes in flight whose bytes are remembered (``WrittenNotes``).
_MAX_WRITTEN = 20_000


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
        self.loads = 0
        """How often ``load`` was called."""
        self.ring = ChangeRing(max_events=max_events, max_bytes=max_bytes)
        self.written = WrittenNotes()
        self._kinds = {name: KindObjects() for name in KINDS}
        self._changed: asyncio.Future[None] | None = None
        self._waiters = RevisionWaiters()

    # ------------------------------------------------------------------ reading

    def objects(self, kind: Kind) -> Mapping[str, Entry]:
        """Return the objects of a kind by local key.

        The mapping changes with the cache, so do not iterate over it across an ``await``.
        """
        return self._kinds[kind.name].by_key

    def messages(self, kind: Kind) -> Iterator[Any]:
        """Yield the decoded objects of a kind."""
        return (entry.message for entry in self._kinds[kind.name].by_key.values())

    def get(self, kind: Kind, key: str) -> Entry | None:
        """Return one object, or None."""
        return self._kinds[kind.name].by_key.get(key)

    def message(self, kind: Kind, key: str, of: type[M]) -> M | None:
        """Return an object, None if there is none; ``of``: its type."""
        entry = self._kinds[kind.name].by_key.get(key)
        return entry.message if entry is not None and isinstance(entry.message, of) else None

    def in_order(self, kind: Kind) -> Sequence[Entry]:
        """Return the objects of a kind sorted by key; the list is never changed."""
        return self._kinds[kind.name].in_order()

    def last_change(self, kind: Kind) -> int:
        """Return the revision of the last change to an object of a kind."""
        return self._kinds[kind.name].last_change

    def keys(self, kind: Kind) -> Iterator[str]:
        """Yield the local keys of all stored objects of a kind, decodable or not."""
        yield from self._kinds[kind.name].by_key
        yield from self._kinds[kind.name].unreadable

    def unreadable(self, kind: Kind) -> int:
        """Return the number of undecodable entries of a kind."""
        return len(self._kinds[kind.name].unreadable)

    def follow(self, kind: Kind, changed: Follower) -> None:
        """Call ``changed`` for each object of a kind that changes.

        For values derived from many objects that change often; for others see ``Derived``. One
        follower of a kind, before the first objects.
        """
        self._kinds[kind.name].follower = changed

    # ------------------------------------------------------------------ writing

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Replace everything by all objects as of a revision; watchers must list again.

        A revision lower than the present one means that etcd was restored from a backup. Tasks that
        wait for later revisions are then woken, because those may never come.
        """
        if revision < self.revision:
            self._waiters.release()
        self.revision = revision
        self.loads += 1
        found: dict[str, list[Entry]] = {name: [] for name in KINDS}
        for entry in entries:
            found[entry.kind.name].append(entry)
        for name, objects in self._kinds.items():
            objects.load(found[name], revision)
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
        entry = Entry.of(event.kv)
        if entry is None:
            return None
        objects, revision = self._kinds[entry.kind.name], event.kv.mod_revision
        objects.last_change = revision
        if event.type == EventType.DELETE:
            old = objects.remove(entry.key)
        elif self.written.is_readable(entry):
            return Change(entry, objects.put(entry), revision)
        else:
            # Watchers cannot get an undecodable object, so for them it is deleted.
            old = objects.mark_unreadable(entry)
        return Change(None, old, revision) if old is not None else None

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
        cache = self._cache
        # After a restore of etcd from a backup, other changes may have the same revisions.
        changed_at = [cache.loads, *(cache.last_change(kind) for kind in self._kinds)]
        if changed_at != self._made_at:
            self._value = self._make()
            self._made_at = changed_at
        return self._value
