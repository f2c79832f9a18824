"""Keeps the watch cache at etcd's state, and tells when it is fresh enough to answer a read.

A read that must see every completed write, made through whichever API server, asks etcd for its
current revision and waits until the cache has come that far. One such question serves all reads
that were waiting when it was sent; a read that comes later waits for the next one, because a
question already on its way may have been answered before a write that the reader knows of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random

from podsched.api import etcd_keys
from podsched.lib.backoff import Backoff
from podsched.server.entries import Entry
from podsched.server.settings import ServerSettings
from podsched.server.watchcache import WatchCache
from podsched.store.errors import Compacted, StoreError, Unavailable
from podsched.store.protocol import Put, Store, Write

log = logging.getLogger(__name__)

_PAGE = 2000
# Long enough for a change on its way; a cache that is still behind is waiting for changes outside
# its prefix, which will never come.
_NUDGE_SECONDS = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class Feed:
    """Fills the cache from a list and one watch of everything podsched keeps in etcd."""

    def __init__(self, store: Store, cache: WatchCache, settings: ServerSettings) -> None:
        self._store = store
        self._cache = cache
        self._timeout = settings.freshness_timeout_seconds
        self._reading: asyncio.Task[int] | None = None
        self._queued: asyncio.Task[int] | None = None
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follow etcd until cancelled or until the store is closed."""
        try:
            await self._follow()
        finally:
            for task in (self._reading, self._queued):
                if task is not None:
                    task.cancel()

    async def _follow(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        while True:
            try:
                await self._load()
                backoff.reset()
                self.ready.set()
                async for batch in self._store.watch(
                    etcd_keys.ROOT, start_revision=self._cache.revision + 1
                ):
                    self._cache.apply(batch)
            except Compacted as error:
                log.warning("the watch fell behind etcd's compaction, listing again: %s", error)
            except Unavailable as error:
                log.warning("etcd is unavailable, trying again: %s", error)
                await asyncio.sleep(backoff.next_delay())

    async def _load(self) -> None:
        page = await self._store.range(etcd_keys.OBJECTS, limit=_PAGE)
        revision = page.revision
        kvs = page.kvs
        while page.more:
            page = await self._store.range(
                etcd_keys.OBJECTS, limit=_PAGE, start_after=page.kvs[-1].key, revision=revision
            )
            kvs += page.kvs
        self._cache.load([e for e in map(Entry.of, kvs) if e is not None], revision)

    async def current_revision(self) -> int:
        """Return a revision of etcd not older than any write completed before this call."""
        if self._queued is None:
            self._queued = asyncio.create_task(self._ask(self._reading), name="read revision")
            self._queued.add_done_callback(_heard)
        return await asyncio.shield(self._queued)

    async def _ask(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait([before])
        self._reading, self._queued = self._queued, None
        return (await self._store.get(etcd_keys.SYNC)).revision

    async def fresh(self) -> None:
        """Wait until the cache shows every write completed before this call.

        Raises StoreError: Unavailable when etcd does not answer or the watch stays behind.
        """
        try:
            async with asyncio.timeout(self._timeout):
                revision = await self.current_revision()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_NUDGE_SECONDS):
                        return await self._cache.reached(revision)
                await self._nudge()
                return await self._cache.reached(revision)
        except TimeoutError:
            raise Unavailable("the watch cache stays behind etcd") from None

    async def _nudge(self) -> None:
        """Write a key under the watched prefix, whose change the watch must deliver."""
        with contextlib.suppress(StoreError):
            await self._store.write(Write((), (Put(etcd_keys.SYNC, b""),)))


def _heard(task: asyncio.Task[int]) -> None:
    """Readers who have given up meanwhile do not hear of the fault; it is not a lost one."""
    if not task.cancelled():
        task.exception()
