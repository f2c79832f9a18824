"""The store's contract in memory: the fake that unit tests of all layers run on.

Verified by the same contract suite as the etcd store. Leases count time on the event loop's
clock, so under a virtual-time loop they expire in virtual time. Several ``session()``s share
one set of keys, as several processes share one etcd, and each can be cut off by itself.

Not for production: nothing is durable, and scans cost O(keys).
"""

from __future__ import annotations

import asyncio
import itertools
import operator
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence

from podsched.serve.store.errors import (
    Closed,
    Compacted,
    InvalidRequest,
    LeaseNotFound,
    Restored,
    StoreError,
)
from podsched.serve.store.protocol import (
    Compare,
    CompareRelation,
    CompareTarget,
    Delete,
    EventType,
    Get,
    GetResult,
    KeyValue,
    LeaseGrant,
    Put,
    RangeResult,
    StoreStatus,
    TxnOp,
    TxnResult,
    WatchBatch,
    WatchEvent,
    Write,
    WriteOutcome,
    WriteResult,
)

MINIMUM_LEASE_TTL = 1


class _Lease:
    """A granted lease: its keys and the timer that ends it."""

    __slots__ = ("keys", "timer", "ttl")

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.keys: set[str] = set()
        self.timer: asyncio.TimerHandle | None = None


class _History:
    """All revisions of all keys, synchronous; shared by the sessions of one ``MemoryStore``."""

    def __init__(self) -> None:
        self.revision = 1  # as a fresh etcd
        self.compacted = 0
        self.leases = _Leases(self)
        self.wakers: set[asyncio.Event] = set()
        self._versions: dict[str, list[KeyValue]] = {}
        self._log: list[tuple[int, list[WatchEvent]]] = []

    def copy(self) -> _History:
        """Return these revisions as a history of their own; leases stay with the present one."""
        copied = _History()
        copied.revision, copied.compacted = self.revision, self.compacted
        copied._versions = {key: [*versions] for key, versions in self._versions.items()}
        copied._log = [*self._log]
        return copied

    def replace(self, backup: _History) -> None:
        """Have only the revisions of a backup, as etcd has after it was restored."""
        copied = backup.copy()
        self.revision, self.compacted = copied.revision, copied.compacted
        self._versions, self._log = copied._versions, copied._log
        self.wake()

    def wake(self) -> None:
        for waker in self.wakers:
            waker.set()

    def has(self, revision: int, events: list[WatchEvent]) -> bool:
        """Whether it has come to a revision, and has these events, the last seen up to it."""
        if revision > self.revision:
            return False
        if not events or events[0].kv.mod_revision < self.compacted:
            return True
        seen = events[0].kv.mod_revision
        return self.events_since(seen)[:1] == [(seen, events)]

    def at(self, key: str, revision: int | None = None) -> KeyValue | None:
        """Return the key as of a revision, None if it did not exist."""
        versions = self._versions.get(key, [])
        if revision is not None:
            cut = bisect_left(versions, revision + 1, key=lambda kv: kv.mod_revision)
            versions = versions[:cut]
        return versions[-1] if versions and versions[-1].version else None

    def select(self, prefix: str, revision: int | None) -> list[KeyValue]:
        """Return the keys under a prefix as of a revision, ascending."""
        keys = sorted(k for k in self._versions if k.startswith(prefix))
        return [kv for k in keys if (kv := self.at(k, revision))]

    def check_readable(self, revision: int | None) -> None:
        """Raise unless the revision can be read."""
        if revision is None:
            return
        if revision < self.compacted:
            raise Compacted
        if revision > self.revision:
            raise InvalidRequest(f"revision {revision} is in the future")

    def run(
        self, compares: Sequence[Compare], on_success: Sequence[TxnOp], on_failure: Sequence[TxnOp]
    ) -> TxnResult:
        """Run a transaction: compares and the ops of one branch in one step."""
        for branch in (on_success, on_failure):
            _check_written_once(branch)
        succeeded = all(_holds(c, self.at(c.key)) for c in compares)
        ops = on_success if succeeded else on_failure
        for op in ops:
            if isinstance(op, Put) and op.lease and op.lease not in self.leases.granted:
                raise LeaseNotFound(f"lease {op.lease} not found")
        revision = self.revision + 1
        events: list[WatchEvent] = []
        kvs: list[KeyValue | None] = []
        for op in ops:
            if isinstance(op, Get):
                kvs.append(self.at(op.key))
            else:
                events += self._change(op, revision)
        if events:
            self.revision = revision
            self._log.append((revision, events))
            self.wake()
        return TxnResult(succeeded, self.revision, tuple(kvs))

    def _change(self, op: Put | Delete, revision: int) -> Iterable[WatchEvent]:
        old = self.at(op.key)
        granted = self.leases.granted
        if old and old.lease in granted:
            granted[old.lease].keys.discard(op.key)
        if isinstance(op, Delete):
            if old is None:
                return
            kv = KeyValue(op.key, b"", 0, revision, 0)
            kind = EventType.DELETE
        else:
            created, version = (old.create_revision, old.version + 1) if old else (revision, 1)
            kv = KeyValue(op.key, bytes(op.value), created, revision, version, op.lease)
            kind = EventType.PUT
            if op.lease:
                granted[op.lease].keys.add(op.key)
        self._versions.setdefault(op.key, []).append(kv)
        yield WatchEvent(kind, kv)

    def events_since(self, revision: int) -> list[tuple[int, list[WatchEvent]]]:
        """Return the committed changes from a revision on."""
        if revision < self.compacted:
            raise Compacted(self.compacted)
        return self._log[bisect_left(self._log, revision, key=lambda entry: entry[0]) :]

    def compact(self, revision: int) -> None:
        """Make everything before revision unreadable."""
        self.check_readable(max(revision, self.compacted))
        self.compacted = max(self.compacted, revision)
        self.wake()


class _Leases:
    """The leases that are granted, by id."""

    def __init__(self, history: _History) -> None:
        self._history = history
        self.granted: dict[int, _Lease] = {}
        self._ids = itertools.count(7587000)

    def grant(self, ttl: int) -> LeaseGrant:
        lease_id = next(self._ids)
        self.granted[lease_id] = _Lease(max(ttl, MINIMUM_LEASE_TTL))
        return LeaseGrant(lease_id, self.keep_alive(lease_id))

    def keep_alive(self, lease_id: int) -> int:
        """Start the lease's time anew."""
        lease = self._lease(lease_id)
        if lease.timer:
            lease.timer.cancel()
        loop = asyncio.get_running_loop()
        lease.timer = loop.call_later(lease.ttl, self.end, lease_id)
        return lease.ttl

    def end(self, lease_id: int) -> None:
        """End the lease: delete its keys in one revision."""
        lease = self._lease(lease_id)
        if lease.timer:
            lease.timer.cancel()
        self._history.run((), [Delete(key) for key in sorted(lease.keys)], ())
        del self.granted[lease_id]

    def _lease(self, lease_id: int) -> _Lease:
        try:
            return self.granted[lease_id]
        except KeyError:
            raise LeaseNotFound(f"lease {lease_id} not found") from None


class MemoryStore:
    """A ``Store`` in memory.

    fault: when set, every call raises it (watches stall instead, as they do on a real
    outage) until it is set to None again: how a test cuts this session off.
    """

    def __init__(self, _history: _History | None = None) -> None:
        self._history = _history or _History()
        self._fault: StoreError | None = None
        self._closed = False
        self.raft_term = 1

    def session(self) -> MemoryStore:
        """Return another store over the same keys, as another process has it."""
        return MemoryStore(self._history)

    def backup(self) -> _History:
        """Return a snapshot, for ``restore``."""
        return self._history.copy()

    def restore(self, backup: _History) -> None:
        """Go back to a snapshot, for all sessions, as when etcd is restored under them."""
        self._history.replace(backup)

    @property
    def fault(self) -> StoreError | None:
        """The error that every call raises now; None: calls succeed."""
        return self._fault

    @fault.setter
    def fault(self, fault: StoreError | None) -> None:
        self._fault = fault
        self._history.wake()

    async def _enter(self) -> _History:
        """Give way once, so that tests meet the interleavings of real I/O. Raises the fault."""
        await asyncio.sleep(0)
        if self._closed:
            raise Closed("the store is closed")
        if self._fault:
            raise self._fault
        return self._history

    async def get(self, key: str, *, revision: int | None = None) -> GetResult:
        history = await self._enter()
        history.check_readable(revision)
        return GetResult(history.at(key, revision), history.revision)

    async def range(
        self,
        prefix: str,
        *,
        limit: int = 0,
        start_after: str | None = None,
        revision: int | None = None,
    ) -> RangeResult:
        history = await self._enter()
        history.check_readable(revision)
        kvs = history.select(prefix, revision)
        if start_after is not None:
            kvs = [kv for kv in kvs if kv.key > start_after]
        page = kvs[:limit] if limit else kvs
        return RangeResult(page, len(page) < len(kvs), len(kvs), history.revision)

    async def write(self, write: Write) -> WriteResult:
        [outcome] = await self.write_many([write])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        try:
            history = await self._enter()
        except StoreError as fault:
            return [fault for _ in writes]
        return [_outcome(history, write) for write in writes]

    async def txn(
        self,
        compares: Sequence[Compare],
        on_success: Sequence[TxnOp],
        on_failure: Sequence[TxnOp] = (),
    ) -> TxnResult:
        return (await self._enter()).run(compares, on_success, on_failure)

    async def watch(
        self, prefix: str | Sequence[str], *, start_revision: int = 0
    ) -> AsyncIterator[WatchBatch]:
        prefixes = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        history = self._history
        following = start_revision or history.revision + 1
        last: list[WatchEvent] = []
        waker = asyncio.Event()
        history.wakers.add(waker)
        try:
            if not start_revision:
                yield WatchBatch(following - 1, ())
            while not self._closed:
                waker.clear()
                if self._fault is None:
                    if not history.has(following - 1, last):
                        raise Restored(following - 1, "a backup was restored")
                    for revision, events in history.events_since(following):
                        following, last = revision + 1, events
                        if mine := [e for e in events if e.kv.key.startswith(prefixes)]:
                            yield WatchBatch(revision, mine)
                await waker.wait()
            raise Closed("the store is closed")
        finally:
            history.wakers.discard(waker)

    async def lease_grant(self, ttl: int) -> LeaseGrant:
        return (await self._enter()).leases.grant(ttl)

    async def lease_keep_alive(self, lease_id: int) -> int:
        return (await self._enter()).leases.keep_alive(lease_id)

    async def lease_revoke(self, lease_id: int) -> None:
        (await self._enter()).leases.end(lease_id)

    async def compact(self, revision: int) -> None:
        (await self._enter()).compact(revision)

    async def status(self) -> StoreStatus:
        revision = (await self._enter()).revision
        return StoreStatus("memory", revision, 0, self.raft_term)

    async def close(self) -> None:
        self._closed = True
        self._history.wake()


def _outcome(history: _History, write: Write) -> WriteOutcome:
    try:
        result = history.run(write.compares, write.ops, ())
    except StoreError as fault:
        return fault
    current = {} if result.succeeded else {c.key: history.at(c.key) for c in write.compares}
    return WriteResult(result.succeeded, result.revision, current)


def _check_written_once(ops: Sequence[TxnOp]) -> None:
    written = [op.key for op in ops if not isinstance(op, Get)]
    if len(set(written)) < len(written):
        raise InvalidRequest("a key is written twice in one transaction")


def _holds(compare: Compare, kv: KeyValue | None) -> bool:
    # A key that does not exist has version, revisions and lease 0, and no value.
    actual = getattr(kv, compare.target.name.lower()) if kv else 0
    if kv is None and compare.target is CompareTarget.VALUE:
        return False
    return bool(_RELATIONS[compare.relation](actual, compare.operand))


_RELATIONS = {
    CompareRelation.EQUAL: operator.eq,
    CompareRelation.NOT_EQUAL: operator.ne,
    CompareRelation.GREATER: operator.gt,
    CompareRelation.LESS: operator.lt,
}
