"""Limits the number of Events, and those that a source may create about an object.

Shared etcd leases expire Events, and new ones replace the oldest. A lease per event would cost an
etcd write each. Events written within the same tenth of their TTL share one lease, so an event
lives between 1 and 1.1 times its TTL after its last change.

``EventRates`` is kube-apiserver's EventRateLimit: a token bucket for each user, source and object,
with client-go's burst. Events of a source that reports in a loop are refused one by one, all others
are stored. A repetition of a stored Event is a patch and needs no token.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import Event
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller
from podsched.serve.server.settings import ServerSettings
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Delete, Store

EVENT = KINDS["Event"]
#: Max removals by the write of a new Event, whose width they and its put make up (``GroupLimits``).
REMOVALS: Final = 7
#: Leases within one TTL.
_BUCKETS = 10
#: Size of a bucket, and seconds in which it gains a token.
BURST, EVERY = 25, 10.0
#: Number of recently used buckets kept: EventRateLimit's default.
KEPT: Final = 4096


class EventExpiry:
    """Provides leases for new events, and removes the oldest beyond a maximum number."""

    def __init__(self, store: Store, cache: WatchCache, settings: ServerSettings) -> None:
        self._store = store
        self._cache = cache
        self._ttl = settings.event_ttl_seconds
        self._most = settings.max_events
        self._lease = 0
        self._granted = 0.0
        self._granting = asyncio.Lock()
        #: Keys and create revisions.
        self._oldest: deque[tuple[str, int]] = deque()

    async def lease(self) -> int:
        """Return the lease for an event written now, granting one if needed. Raises ApiError."""
        # One grant at a time, else each event of a burst would get a lease of its own.
        async with self._granting:
            if not self._lease or time.monotonic() - self._granted > self._ttl / _BUCKETS:
                life = int(self._ttl + self._ttl / _BUCKETS) + 1
                try:
                    granted = await self._store.lease_grant(life)
                except StoreError as error:
                    raise errors.of_store(error) from error
                self._lease, self._granted = granted.id, time.monotonic()
            return self._lease

    def forget_lease(self, lease: int) -> None:
        """Drop a lease that has ended in etcd, unless another one has taken its place already."""
        if lease == self._lease:
            self._lease = 0

    def make_room(self, added: Sequence[str]) -> list[Delete]:
        """Return the deletions of the oldest events to be made when these new ones are stored.

        At most REMOVALS for each. They keep the number of events at the maximum. Other servers may
        delete the same ones, which has no effect and is made good later.
        """
        present = self._cache.objects(EVENT)
        excess = len(present) + len(added) - self._most
        if excess <= 0:
            return []
        if len(self._oldest) < excess:
            entries = sorted(present.values(), key=lambda entry: entry.created)
            # More than needed now, because sorting all events for each call would be slow.
            oldest = entries[: max(excess * 4, 1000)]
            self._oldest = deque((entry.key, entry.created) for entry in oldest)
        new, removals = set(added), list[Delete]()
        while self._oldest and len(removals) < min(excess, len(added) * REMOVALS):
            key, created = self._oldest.popleft()
            entry = present.get(key)
            # Else it is gone, or another one has its name or will have it.
            if entry is not None and entry.created == created and key not in new:
                removals.append(Delete(object_key(EVENT, key)))
        return removals


class EventRates:
    """The token buckets of one server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        # The time when the bucket will be full encodes its level in one number.
        self._full_at: OrderedDict[int, float] = OrderedDict()

    def admit(self, event: Event) -> None:
        """Take a token for an Event. Raises ApiError RESOURCE_EXHAUSTED if there is none."""
        about = event.involved_object
        source = event.source.component or event.reporting_controller
        what = about.uid or f"{about.kind}/{about.name}"
        # Not the texts themselves: a client may write a megabyte into each.
        key = hash((caller().user, source, about.namespace, what))
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now) + EVERY
        if full_at > now + BURST * EVERY:
            raise errors.too_many_requests(
                f"{source or 'this source'} reports too many Events about one object",
                full_at - now - BURST * EVERY,
            )
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > KEPT:
            self._full_at.popitem(last=False)
