"""Limits the number of Events: shared etcd leases expire them, and new ones replace the oldest.

A lease per event would cost an etcd write each. Events created within the same tenth of their TTL
share one lease, so an event lives between 1 and 1.1 times its TTL.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.serve.server.settings import ServerSettings
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import Delete, Store

EVENT = KINDS["Event"]
#: Leases within one TTL.
_BUCKETS = 10


class EventExpiry:
    """Provides leases for new events, and removes the oldest beyond a maximum number."""

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        settings: ServerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._cache = cache
        self._ttl = settings.event_ttl_seconds
        self._most = settings.max_events
        self._clock = clock
        self._lease = 0
        self._granted = 0.0
        self._granting = asyncio.Lock()
        self._oldest: deque[str] = deque()

    def present_lease(self) -> int:
        """Return the lease for an event created now; 0 if none is granted yet."""
        return 0 if self._clock() - self._granted > self._ttl / _BUCKETS else self._lease

    async def lease(self) -> int:
        """Return the lease for an event created now, granting one if needed. Raises StoreError."""
        async with self._granting:
            if not self.present_lease():
                life = int(self._ttl + self._ttl / _BUCKETS) + 1
                granted = await self._store.lease_grant(life)
                self._lease, self._granted = granted.id, self._clock()
            return self._lease

    def forget_lease(self) -> None:
        """Drop the current lease, which expired in etcd; the next event gets a new one."""
        self._lease = 0

    def make_room(self, added: int) -> list[Delete]:
        """Return the deletions of the oldest events to be made when ``added`` new ones are stored.

        They keep the number of events at the maximum. Other servers may delete the same ones, which
        has no effect.
        """
        excess = len(self._cache.objects(EVENT)) + added - self._most
        if excess <= 0:
            return []
        if len(self._oldest) < excess:
            entries = sorted(self._cache.objects(EVENT).values(), key=lambda entry: entry.created)
            # More than needed now, because sorting all events for each call would be slow.
            self._oldest = deque(entry.key for entry in entries[: max(excess * 4, 1000)])
        return [
            Delete(object_key(EVENT, self._oldest.popleft()))
            for _ in range(min(excess, added, len(self._oldest)))
        ]
