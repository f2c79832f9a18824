"""Tells tasks how far the watch cache has come; they wait for a revision, or for any change."""

from __future__ import annotations

import asyncio
import contextlib

from podsched.lib.revisions import RevisionWaiters

#: Max seconds of ``settle``.
_SETTLE_SECONDS = 1.0


class CacheProgress:
    """The revision that the cache has reached, and the tasks that wait for a later one."""

    def __init__(self) -> None:
        self.revision = 0
        self._changed: asyncio.Future[None] | None = None
        self._waiters = RevisionWaiters()

    def restart(self, revision: int) -> None:
        """Go on from a revision.

        A revision lower than the present one means that etcd was restored from a backup. Tasks that
        wait for later revisions are then woken, because those may never come.
        """
        if revision < self.revision:
            self._waiters.release()
        self.revision = revision
        self.advance(revision)

    def advance(self, revision: int) -> None:
        """Wake the tasks that wait for a change, or for a revision up to this one."""
        self.revision = max(self.revision, revision)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None
        self._waiters.reached(self.revision)

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
