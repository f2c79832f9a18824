"""Where the page gets its data from: a replica's informer, or an API server's watch cache."""

from __future__ import annotations

import re
from collections.abc import Collection

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Lease, seconds_of
from podsched.app.leader_requests import REASON, pause_name
from podsched.app.load import load_of
from podsched.app.replica_lease import NAMESPACE, PREFIX, STALE_AFTER, lease_name
from podsched.client.cluster import InformerPort
from podsched.client.informer import Batch
from podsched.server.errors import ApiError
from podsched.server.watchcache import ExpiredError, WatchCache
from podsched.web import sources
from podsched.web.sources import Change, Replica, Sighting, Source

#: Changes noted at most; the page begins anew past them.
_MOST_CHANGES = 200_000
DEFAULT_LOCK = "kube-system/kube-scheduler"
#: Keys of the replicas' own Leases.
_REPLICAS = f"{NAMESPACE}/{lease_name('')}"


class InformerSource:
    """A ``Source`` of what an informer delivers; ``handle`` costs nothing while nobody looks."""

    def __init__(self, informer: InformerPort) -> None:
        self._informer = informer
        self._changed: set[Change] | None = None

    def handle(self, batch: Batch) -> None:
        """Note what a batch changes."""
        noted = self._changed
        if noted is not None and len(noted) <= _MOST_CHANGES:
            noted.update((event.kind, event.key) for event in batch.events)

    def follow(self) -> None:
        """See ``Source``."""
        self._changed = set()

    def unfollow(self) -> None:
        """See ``Source``."""
        self._changed = None

    def keys(self, kind: str) -> list[str]:
        """See ``Source``. A scheduler does not follow events."""
        return [] if kind == "Event" else list(self._informer.objects(kind))

    def get(self, kind: str, key: str) -> AnyObject | None:
        """See ``Source``."""
        return None if kind == "Event" else self._informer.get(kind, key)

    def changed(self) -> Collection[Change] | None:
        """See ``Source``."""
        found = self._changed
        self._changed = set()
        if found is None or len(found) > _MOST_CHANGES:
            return None
        return [change for change in found if change[0] in sources.KINDS]


class WatchCacheSource:
    """A ``Source`` that reads the ring of an API server's watch cache when it is asked."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._position = 0

    def follow(self) -> None:
        """See ``Source``."""
        self._position = self._cache.end

    def unfollow(self) -> None:
        """See ``Source``."""

    def keys(self, kind: str) -> list[str]:
        """See ``Source``."""
        return list(self._cache.objects(KINDS[kind]))

    def get(self, kind: str, key: str) -> AnyObject | None:
        """See ``Source``. Decoded anew each time: kept, all pods would take their room twice."""
        entry = self._cache.get(KINDS[kind], key)
        try:
            return entry.decode() if entry is not None else None
        except ApiError:
            return None

    def changed(self) -> Collection[Change] | None:
        """See ``Source``."""
        found: set[Change] = set()
        try:
            while changes := self._cache.changes_from(self._position, _MOST_CHANGES):
                self._position += len(changes)
                for change in changes:
                    if change.kind.name in sources.KINDS:
                        shown = change.new or change.old
                        assert shown is not None
                        found.add((change.kind.name, shown.key))
        except ExpiredError:
            return None
        return found


class LeaseSight:
    """A ``Sight`` of what replicas write into Leases: the lock's, their own, and the pause."""

    def __init__(self, source: Source, lock: str = "") -> None:
        """``lock``: "" for the one that replicas race for, kube-scheduler's if there are more."""
        self._source = source
        self._lock = lock

    def __call__(self, now: float) -> Sighting:
        """Return who leads."""
        # Others are heartbeats of nodes, thousands of them.
        names = (key for key in self._source.keys("Lease") if key.startswith(_REPLICAS))
        leases = [lease for key in names if (lease := self._lease(key)) is not None]
        found = {lease.metadata.annotations.get(f"{PREFIX}lock", "") for lease in leases} - {""}
        lock = self._lock or (DEFAULT_LOCK if DEFAULT_LOCK in found else min(found, default=""))
        record = self._lease(lock) or Lease()
        holder = record.spec.holder_identity
        pause = self._lease(f"{lock.partition('/')[0]}/{pause_name(lock)}") if lock else None
        return Sighting(
            lock,
            holder,
            seconds_of(record.spec.acquire_time),
            record.spec.lease_transitions,
            _paused(pause),
            tuple(
                _replica(lease, holder, now)
                for lease in sorted(leases, key=lambda lease: lease.spec.holder_identity)
                if lease.metadata.annotations.get(f"{PREFIX}lock") == lock
            ),
        )

    def _lease(self, key: str) -> Lease | None:
        found = self._source.get("Lease", key)
        return found if isinstance(found, Lease) else None


def _paused(pause: Lease | None) -> str:
    """Return who has paused the leader and why, "" if nobody has."""
    if pause is None:
        return ""
    why = pause.metadata.annotations.get(REASON, "")
    return f"{pause.spec.holder_identity}: {why}" if why else pause.spec.holder_identity


def _replica(lease: Lease, holder: str, now: float) -> Replica:
    about = {k.removeprefix(PREFIX): v for k, v in lease.metadata.annotations.items()}
    identity, state = lease.spec.holder_identity, about.get("state", "")
    if now - seconds_of(lease.spec.renew_time) > STALE_AFTER:
        state = "gone"
    elif state == "leading" and identity != holder:
        state = "deposed"  # killed or deposed, and its own lease does not say so yet
    term = about.get("term", "")
    number = int(term) if state == "leading" and re.fullmatch("[0-9]{1,18}", term) else 0
    page = about.get("page", "")
    return Replica(identity, state, number, page, load_of(about.get("load", "")))
