"""An API server without its transport: the parts, put together on a store."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import Callable

from podsched.api.reasons import StatusReason
from podsched.lib.backoff import Backoff
from podsched.server.cache_reflector import Feed
from podsched.server.compaction import Compactor
from podsched.server.errors import ApiError
from podsched.server.etcd_monitor import EtcdMonitor
from podsched.server.expiry import EventExpiry
from podsched.server.listing import Lister
from podsched.server.pods import PodOperations
from podsched.server.registry import Registry
from podsched.server.settings import ServerSettings
from podsched.server.storage import ObjectStorage
from podsched.server.watchcache import WatchCache
from podsched.server.watching import Watcher
from podsched.store.protocol import Store

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


def _random_uid() -> str:
    return str(uuid.uuid4())


class ServerCore:
    """What answers requests; its owner opens and closes the store.

    now: Unix time in seconds; new_uid: a random uid.
    """

    def __init__(
        self,
        settings: ServerSettings,
        store: Store,
        *,
        now: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = _random_uid,
    ) -> None:
        self.cache = WatchCache(max_events=settings.ring_events, max_bytes=settings.ring_bytes)
        self.feed = Feed(store, self.cache, settings)
        storage = ObjectStorage(store, self.cache, settings)
        self.lister = Lister(store, self.cache, self.feed, settings)
        self.watcher = Watcher(self.cache, self.feed, settings)
        self.registry = Registry(
            storage,
            self.cache,
            self.feed,
            self.lister,
            EventExpiry(store, self.cache, settings),
            settings,
            now=now,
            new_uid=new_uid,
        )
        self.compactor = Compactor(store, settings.compaction_interval_seconds)
        self.etcd = EtcdMonitor(store, settings.etcd_quota_bytes)
        self.pods = PodOperations(storage, self.cache, self.feed, now=now)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the store; returns when everything can be answered. Raises what ends it."""
        self._following = asyncio.create_task(self.feed.run(), name="follow etcd")
        ready = asyncio.create_task(self.feed.ready.wait(), name="await cache")
        await asyncio.wait([ready, self._following], return_when=asyncio.FIRST_COMPLETED)
        if not self.feed.ready.is_set():
            ready.cancel()
            await self._following
        await self._ensure_built_in()

    async def wait(self) -> None:
        """Until stopped; raises what ended following the store."""
        if self._following is not None:
            await asyncio.shield(self._following)

    async def stop(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            # What ended it before has been raised by `wait`.
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._following

    async def _ensure_built_in(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        while True:
            try:
                return await self.registry.ensure_built_in()
            except ApiError as error:
                if error.reason not in (StatusReason.UNAVAILABLE, StatusReason.OUTCOME_UNKNOWN):
                    raise
                await asyncio.sleep(backoff.next_delay())
