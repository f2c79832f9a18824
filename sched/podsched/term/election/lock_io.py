"""The elector's reads, writes and watches of the lock, each a background task.

Every answer becomes an event. A read or write may take retryPeriod; one without an answer by then
counts as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from podsched.serve.store.errors import Compacted, Restored, StoreError
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import ElectionLock, Stored
from podsched.term.election.events import (
    Event,
    HistoryLost,
    Observed,
    Refused,
    Release,
    Renew,
    TryAcquire,
    Unanswered,
    Written,
)

_log = get_logger("election")


class BackgroundTasks:
    """The tasks of one elector, all named and cancelled together."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run it until it ends or is cancelled; what it raises ends the group."""
        task = self._group.create_task(work, name=f"election:{name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancel all of them."""
        for task in self._running:
            task.cancel()


class LockIO:
    """Reports to ``post``; on_renewal: see ``ElectionCallbacks``."""

    def __init__(
        self,
        lock: ElectionLock,
        tasks: BackgroundTasks,
        *,
        patience: float,
        post: Callable[[Event], None],
        on_renewal: Callable[[str, float], None],
    ) -> None:
        """patience: seconds that a read or a write may take, and between tries to watch."""
        self._lock = lock
        self._tasks = tasks
        self._patience = patience
        self._post = post
        self._on_renewal = on_renewal
        self._reading = self._read_again = False

    def watch(self) -> None:
        """Read the lock whenever it changes, and when a watch begins."""
        for name, changes in self._lock.watches().items():
            self._tasks.start(self._watch(name, changes), f"watch-{name}")

    def write(self, write: TryAcquire | Renew | Release) -> None:
        """Make the write; it ends in Written, Refused or Unanswered."""
        self._tasks.start(self._write(write), "write")

    def read(self) -> None:
        """Read the lock, one read at a time; a request that comes meanwhile causes another read."""
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        self._tasks.start(self._read(), "read")

    async def _write(self, write: TryAcquire | Renew | Release) -> None:
        try:
            async with asyncio.timeout(self._patience):
                stored = await self._store_write(write)
        except (StoreError, TimeoutError) as error:
            _log.warning("Could not write the lock", error=repr(error))
            self._post(Unanswered(write.attempt))
            return
        self._post(Written(write.attempt, *stored) if stored else Refused(write.attempt))

    async def _store_write(self, write: TryAcquire | Renew | Release) -> Stored:
        match write:
            case TryAcquire():
                _log.info("Claiming the lock", identity=write.record.holder_identity)
                return await self._lock.acquire(write)
            case Renew():
                return await self._renew(write)
            case Release():
                return await self._lock.release(write)

    async def _renew(self, write: Renew) -> Stored:
        clock = asyncio.get_running_loop().time
        outcome, began = "error", clock()
        try:
            stored = await self._lock.renew(write)
            outcome = "renewed" if stored else "refused"
            return stored
        finally:
            self._on_renewal(outcome, clock() - began)

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                snapshot = await self._lock.read()
            self._post(Observed(snapshot))
        except (StoreError, TimeoutError) as error:
            self._read_again = False  # the timer tries again
            _log.warning("Could not read the lock", error=repr(error))
        finally:
            self._reading = False
        if self._read_again:
            self._read_again = False
            self.read()

    async def _watch(self, name: str, changes: Callable[[], AsyncIterator[None]]) -> None:
        while True:
            try:
                async for _ in changes():
                    self.read()
            except Restored as error:
                if name == "record":  # once, whatever else is watched
                    _log.error("etcd was restored from a backup, racing anew", error=str(error))
                    self._post(HistoryLost())
            except Compacted:
                continue  # from now on; the read that this causes sees what was missed
            except StoreError as error:
                _log.error("Could not watch the lock, polling only", of=name, error=repr(error))
                await asyncio.sleep(self._patience)
