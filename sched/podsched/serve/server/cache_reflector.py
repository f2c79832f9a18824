"""Keeps the watch cache in sync with etcd, and delays reads until the cache is fresh enough.

A read must see every write that was completed before it through any API server (linearizability).
So a read asks etcd for its current revision and waits until the cache has reached it. One request
for the revision serves all reads that were waiting when it was sent. A later read waits for the
next request, because etcd may have answered the one in flight before a write that the reader knows
of. kube-apiserver's watch cache does the same ("consistent reads from cache", KEP-2340).

    _reading   the request in flight; serves the reads that came before it was sent
    _queued    the next request, for later reads; sent when the one in flight is answered
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from itertools import groupby

from podsched.api import etcd_keys
from podsched.lib.backoff import Backoff
from podsched.lib.event_loop import Turn
from podsched.lib.list_watch import list_and_watch
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import Compacted, InvalidRequest, Restored, StoreError, Unavailable
from podsched.serve.store.protocol import Put, Store, WatchBatch, Write
from podsched.telemetry.logs import get_logger

_log = get_logger("watch-cache")

# Keys of one request of the initial list.
_PAGE = 2000
# Changes applied without a pause: 1 to 2 ms.
_AT_ONCE = 100
# Max seconds that a read waits for the cache: less than the clients' deadline of 10 s, so that they
# get the cause and can try another server.
_FRESHNESS_TIMEOUT = 4.0
# Seconds to wait for the watch before ``_nudge``. Long enough for a change in flight. If the cache
# is still behind then, the newer revisions changed keys outside its prefix (such as another user's
# of the same etcd), and the watch will not deliver them.
_NUDGE_SECONDS = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class CacheReflector:
    """Fills the cache by a list and one watch of all of podsched's keys in etcd."""

    def __init__(
        self, store: Store, cache: WatchCache, on_restored: Callable[[], None] = lambda: None
    ) -> None:
        """on_restored: called when etcd turns out to have another history."""
        self._store = store
        self._cache = cache
        self._reading: asyncio.Task[int] | None = None
        self._queued: asyncio.Task[int] | None = None
        self._nudging = asyncio.Lock()
        #: Revision of the last ``_nudge``.
        self._nudged = 0
        self.ready = asyncio.Event()
        self._on_restored = on_restored

    async def run(self) -> None:
        """Follow etcd until cancelled or the store is closed."""
        following = list_and_watch(
            self._stream,
            self._on_error,
            transient=(Compacted, Unavailable),
            backoff=Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random),
        )
        try:
            async with contextlib.aclosing(following) as batches:
                async for batch in batches:
                    await self._apply(batch)
        finally:
            for task in (self._reading, self._queued):
                if task is not None:
                    task.cancel()

    async def _stream(self) -> AsyncGenerator[WatchBatch | None, None]:
        await self._load()
        self.ready.set()
        yield None  # the list has worked; its objects are in the cache already
        async for batch in self._store.watch(
            etcd_keys.ROOT, start_revision=self._cache.revision + 1
        ):
            yield batch

    def _on_error(self, error: StoreError) -> None:
        if isinstance(error, Restored):
            self._on_restored()
            _log.error(
                "etcd was restored from a backup, listing again: changes since then are lost",
                error=str(error),
            )
        elif isinstance(error, Compacted):
            _log.warning("The watch fell behind etcd's compaction, listing again", error=str(error))
        else:
            _log.warning("etcd is unavailable, trying again", error=str(error))

    async def _apply(self, batch: WatchBatch) -> None:
        """Apply a batch, yielding to other calls: it may have thousands of changes."""
        if len(batch.events) > _AT_ONCE:
            turn = Turn()
            await turn.wait()
            # Only whole revisions: a list or watch that runs in between tells its client that it
            # has seen the cache's revision.
            for revision, events in groupby(batch.events, lambda event: event.kv.mod_revision):
                self._cache.apply(WatchBatch(revision, list(events)))
                if turn.is_over:
                    await turn.give_way()
            batch = batch._replace(events=())
        self._cache.apply(batch)

    async def _load(self) -> None:
        """List all objects, in pages at one revision, and replace the cache's content."""
        page = await self._store.range(etcd_keys.OBJECTS, limit=_PAGE)
        revision = page.revision
        kvs = page.kvs
        while page.more:
            after = page.kvs[-1].key
            try:
                page = await self._store.range(
                    etcd_keys.OBJECTS, limit=_PAGE, start_after=after, revision=revision
                )
            except InvalidRequest as error:  # the revision has become a future one
                raise Unavailable("etcd was restored from a backup between two pages") from error
            kvs += page.kvs
        self._nudged = 0  # It may be of another history.
        self._cache.load([e for e in map(Entry.of, kvs) if e is not None], revision)

    async def _current_revision(self) -> int:
        """Return a revision of etcd that includes every write completed before this call."""
        if self._queued is None:
            self._queued = asyncio.create_task(self._ask(self._reading), name="read revision")
            self._queued.add_done_callback(_retrieve)
        # Other readers wait for it, too, so the cancellation of one must not cancel it.
        return await asyncio.shield(self._queued)

    async def _ask(self, before: asyncio.Task[int] | None) -> int:
        """Read etcd's revision once the request before has been answered.

        The key need not exist: every linearizable answer has the store's revision. Raises
        Unavailable while the cache is of a history that etcd has lost.
        """
        if before is not None:
            await asyncio.wait([before])
        # Before sending: readers who come from now on must not get this request's answer.
        self._reading, self._queued = self._queued, None
        reached = self._cache.revision
        revision = (await self._store.get(etcd_keys.SYNC)).revision
        if revision < reached:
            raise Unavailable("etcd was restored from a backup and has to be listed again")
        return revision

    async def wait_until_fresh(self) -> None:
        """Wait until the cache shows every write completed before this call.

        Raises ApiError UNAVAILABLE when etcd does not answer or the watch stays behind.
        """
        try:
            async with asyncio.timeout(_FRESHNESS_TIMEOUT):
                revision = await self._current_revision()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_NUDGE_SECONDS):
                        return await self._cache.progress.wait_for(revision)
                await self._nudge(revision)
                return await self._cache.progress.wait_for(revision)
        except TimeoutError:
            raise errors.unavailable("the watch cache stays behind etcd") from None
        except StoreError as error:
            raise errors.of_store(error) from error

    async def _nudge(self, revision: int) -> None:
        """Write a key under the watched prefix, so that the watch delivers a revision or later.

        One write serves all reads that wait: writes of one key cannot share a transaction.
        """
        async with self._nudging:
            if max(self._nudged, self._cache.revision) < revision:
                with contextlib.suppress(StoreError):
                    write = Write((), (Put(etcd_keys.SYNC, b""),))
                    self._nudged = (await self._store.write(write)).revision


def _retrieve(task: asyncio.Task[int]) -> None:
    """Retrieve the error of a task without waiters, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
