"""Read, write and watch the lock in background tasks for the elector.

Every answer becomes an event. The timeout of a read or a renewal is two heartbeat intervals; after
each failure it is doubled, up to the lock's timeout. So renewals continue soon after a disturbance
of etcd, and a slow etcd does not make all of them fail. Other writes have the lock's timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from podsched.lib.tasks import TaskSet
from podsched.serve.store.errors import Compacted, Restored, StoreError
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import ElectionLock, Stored
from podsched.term.election.events import (
    Event,
    HistoryLost,
    Observed,
    Refused,
    Renew,
    TryAcquire,
    Unanswered,
    Write,
    Written,
)
from podsched.term.election.record import Snapshot

_log = get_logger("election")


class GrowingTimeout:
    """The timeout of a kind of call, in seconds: twice as long after each failure in a row."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = min(shortest, longest), longest
        self.seconds = self._shortest

    def answered(self) -> None:
        self.seconds = self._shortest

    def failed(self) -> None:
        self.seconds = min(2 * self.seconds, self._longest)


class LockIO:
    """Reports events to ``post``; on_renewal: see ``ElectionCallbacks``."""

    def __init__(
        self,
        lock: ElectionLock,
        tasks: TaskSet,
        *,
        longest: float,
        shortest: float,
        post: Callable[[Event], None],
        on_renewal: Callable[[str, float], None],
    ) -> None:
        """``longest``: max seconds for a read or a write; also the pause before watching again.

        ``shortest``: max seconds for a read or a renewal after a successful one.
        """
        self._lock = lock
        self._tasks = tasks
        self._longest = longest
        self._for_reads = GrowingTimeout(shortest, longest)
        self._for_renewals = GrowingTimeout(shortest, longest)
        self._post = post
        self._on_renewal = on_renewal
        self._reading = self._read_again = False

    def watch(self) -> None:
        """Watch the lock, and read it whenever it changes or a watch begins."""
        # Most changes only cause a read: a watch shows one key, a read shows all of them.
        for name, changes in self._lock.watches().items():
            self._tasks.start(self._watch(name, changes), f"election: watch {name}", endless=True)

    def write(self, write: Write) -> None:
        """Start a write; it results in Written, Refused or Unanswered."""
        self._tasks.start(self._write(write), "election: write")

    def read(self) -> None:
        """Start a read; if one is running, another follows it."""
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        self._tasks.start(self._read(), "election: read")

    async def _write(self, write: Write) -> None:
        renewals = self._for_renewals if isinstance(write, Renew) else None
        if isinstance(write, TryAcquire):
            _log.info("Claiming the lock", identity=write.record.holder_identity)
        try:
            async with asyncio.timeout(renewals.seconds if renewals else self._longest):
                stored = await (
                    self._renew(write) if isinstance(write, Renew) else self._lock.write(write)
                )
        # The store may have applied it, or may still do so.
        except (StoreError, TimeoutError) as error:
            if renewals:
                renewals.failed()
            _log.warning("Could not write the lock", error=_text(error))
            self._post(Unanswered(write.attempt))
            return
        if renewals:
            renewals.answered()
        self._post(Written(write.attempt, *stored) if stored else Refused(write.attempt))

    async def _renew(self, write: Renew) -> Stored:
        clock = asyncio.get_running_loop().time
        outcome, began = "error", clock()
        try:
            stored = await self._lock.write(write)
            outcome = "renewed" if stored else "refused"
            return stored
        finally:
            self._on_renewal(outcome, clock() - began)

    async def _read(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._for_reads.seconds):
                snapshot = await self._lock.read()
            self._for_reads.answered()
            self._post(Observed(snapshot, asked_at))
        except (StoreError, TimeoutError) as error:
            self._for_reads.failed()
            self._read_again = False  # the timer tries again
            _log.warning("Could not read the lock", error=_text(error))
        finally:
            self._reading = False
        # The change that requested it may have happened after the read that has just ended.
        if self._read_again:
            self._read_again = False
            self.read()

    async def _watch(
        self, name: str, changes: Callable[[], AsyncIterator[Snapshot | None]]
    ) -> None:
        while True:
            try:
                async for seen in changes():
                    if seen is None:
                        self.read()
                    else:
                        self._post(Observed(seen))
            except Restored as error:
                if name == "record":  # report it once, not for each watch
                    _log.error("etcd was restored from a backup, racing anew", error=str(error))
                    self._post(HistoryLost())
            except Compacted:
                continue  # the new watch begins with a read, which shows missed changes
            except StoreError as error:
                _log.error("Could not watch the lock, polling only", of=name, error=_text(error))
                await asyncio.sleep(self._longest)


def _text(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)
