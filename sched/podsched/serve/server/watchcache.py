"""Keeps all objects and their latest changes in memory, to answer lists and watches.

Guarantees:

- ``revision`` only grows, unless etcd is restored from a backup (``load``).
- The objects are exactly those of etcd at ``revision``.
- ``ring`` (``ChangeRing``) has every change after a revision.

Undecodable entries are excluded: an object that becomes undecodable counts as deleted.

``cache_reflector`` feeds the cache. Callers check rights; the cache does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from podsched.api.kinds import KINDS, Kind
from podsched.serve.server.cache_progress import CacheProgress
from podsched.serve.server.change_ring import Change, ChangeRing
from podsched.serve.server.entries import Entry
from podsched.serve.server.kind_objects import Follower, KindObjects
from podsched.serve.store.protocol import EventType, WatchBatch

T = TypeVar("T")
M = TypeVar("M")

#: Max writes in flight whose bytes are remembered, and max bytes of all that were noted since all
#: were forgotten (``WrittenNotes``).
_MAX_WRITTEN, _MAX_WRITTEN_BYTES = 20_000, 64 << 20


class WrittenNotes:
    """The bytes of this server's writes in flight, which the watch need not check."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], bytes] = {}
        self._noted_bytes = 0

    def note(self, kind: Kind, key: str, value: bytes) -> None:
        """Remember bytes that this server is about to write, so that the watch need not check them.

        Decoding each change again would take 3.5 µs of the 35 that a change costs the server. If
        the write fails, the note has no effect, but stays.
        """
        self._noted_bytes += len(value)
        if len(self._values) >= _MAX_WRITTEN or self._noted_bytes > _MAX_WRITTEN_BYTES:
            self._values.clear()  # notes only save time, so all may be dropped
            self._noted_bytes = len(value)
        self._values[kind.name, key] = value

    def is_readable(self, entry: Entry) -> bool:
        """Return whether an entry from the watch can be decoded; forget its note."""
        written = self._values.pop((entry.kind.name, entry.key), None)
        # By bytes: the change may be another server's, which came before this server's own write.
        return written == entry.value or entry.is_readable()


class WatchCache:
    """All objects by kind and local key, and a ring of changes. Used from one event loop."""

    def __init__(self, *, max_events: int, max_bytes: int) -> None:
        """Create an empty cache; max_events, max_bytes: of the ring, in changes and frames."""
        self.progress = CacheProgress()
        self.loads = 0
        """How often ``load`` was called."""
        self.ring = ChangeRing(max_events=max_events, max_bytes=max_bytes)
        self.written = WrittenNotes()
        self._kinds = {name: KindObjects() for name in KINDS}

    @property
    def revision(self) -> int:
        """The revision as of which these are etcd's objects."""
        return self.progress.revision

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

    def unreadable(self, kind: Kind) -> Collection[str]:
        """Return the local keys of a kind's undecodable entries."""
        return self._kinds[kind.name].unreadable

    def follow(self, kind: Kind, changed: Follower) -> None:
        """Call ``changed`` for each object of a kind that changes.

        For values derived from many objects that change often; for others see ``Derived``. One
        follower of a kind, before the first objects.
        """
        self._kinds[kind.name].follower = changed

    # ------------------------------------------------------------------ writing

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Replace everything by all objects as of a revision; watchers must list again.

        The revision is lower than the present one if etcd was restored from a backup.
        """
        self.loads += 1
        found: dict[str, list[Entry]] = {name: [] for name in KINDS}
        for entry in entries:
            found[entry.kind.name].append(entry)
        for name, objects in self._kinds.items():
            objects.load(found[name], revision)
        self.ring.restart(revision)
        self.progress.restart(revision)

    def apply(self, batch: WatchBatch) -> None:
        """Apply the changes that follow those applied before."""
        for event in batch.events:
            entry = Entry.of(event.kv)
            if entry is None:
                continue
            objects, revision = self._kinds[entry.kind.name], event.kv.mod_revision
            objects.last_change = revision
            new = None
            if event.type == EventType.DELETE:
                old = objects.remove(entry.key)
            elif self.written.is_readable(entry):
                new, old = entry, objects.put(entry)
            else:
                # Watchers cannot get an undecodable object, so for them it is deleted.
                old = objects.mark_unreadable(entry)
            if new is not None or old is not None:
                self.ring.add(Change(new, old, revision))
        # Only when the ring has all changes of a revision, because it drops whole revisions.
        self.ring.trim()
        self.progress.advance(batch.revision)


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
