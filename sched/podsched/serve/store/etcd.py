"""Implements the store on a real etcd (3.5 or later)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
from aetcd.rpc import rpc_pb2

from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.errors import Compacted, LeaseNotFound, StoreError, Unavailable
from podsched.serve.store.groupcommit import GroupCommit, GroupLimits, Member
from podsched.serve.store.protocol import (
    Compare,
    GetResult,
    LeaseGrant,
    Put,
    RangeResult,
    StoreStatus,
    TxnOp,
    TxnResult,
    WatchBatch,
    Write,
    WriteOutcome,
    WriteResult,
)
from podsched.serve.store.watching import follow
from podsched.serve.store.wire import (
    counted_against_quota,
    decode_group,
    decode_kv,
    decode_txn,
    encode_txn,
    encode_write,
    prefix_range,
)

__all__ = ["EtcdOptions", "EtcdStore", "connect"]


async def connect(options: EtcdOptions) -> EtcdStore:
    """Open a store; raises ``Unavailable`` if no endpoint answers, ``Unauthorized`` if refused."""
    store = EtcdStore(options)
    try:
        await store.status()
    except BaseException:
        await store.close()
        raise
    return store


class EtcdStore:
    """A ``Store`` on etcd; open it with ``connect``. Belongs to the event loop it is created on."""

    def __init__(self, options: EtcdOptions) -> None:
        self._endpoints = Endpoints(options, lambda: self._group_commit.elects())
        self._group_commit = GroupCommit(self._commit, encode_write, GroupLimits())

    @property
    def raft_term(self) -> int:
        return self._endpoints.raft_term

    async def get(self, key: str, *, revision: int | None = None) -> GetResult:
        request = rpc_pb2.RangeRequest(key=key.encode(), revision=revision or 0)
        answer = await self._endpoints.call(lambda c: c.kv.Range, request, safe=True)
        kv = decode_kv(answer.kvs[0]) if answer.kvs else None
        return GetResult(kv, answer.header.revision)

    async def range(
        self,
        prefix: str,
        *,
        limit: int = 0,
        start_after: str | None = None,
        revision: int | None = None,
    ) -> RangeResult:
        key, range_end = prefix_range(prefix)
        if start_after is not None:
            key = max(key, start_after.encode() + b"\0")
        request = rpc_pb2.RangeRequest(
            key=key, range_end=range_end, limit=limit, revision=revision or 0
        )
        answer = await self._endpoints.call(lambda c: c.kv.Range, request, safe=True)
        kvs = [decode_kv(kv) for kv in answer.kvs]
        return RangeResult(kvs, answer.more, answer.count, answer.header.revision)

    async def write(self, write: Write) -> WriteResult:
        (outcome,) = await self._group_commit.submit((write,))
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        return await self._group_commit.submit(writes)

    async def _commit(self, group: Sequence[Member]) -> list[WriteResult]:
        """Send a group of writes as one transaction; return their results. Raises StoreError."""
        request = b"".join([member.encoded for member in group])
        puts = (op.key for member in group for op in member.write.ops if isinstance(op, Put))
        if (key := next(puts, None)) is not None:
            request += counted_against_quota(key)
        answer = await self._endpoints.call(lambda c: c.txn_encoded, request, safe=False)
        return decode_group(answer, [member.write for member in group])

    async def txn(
        self,
        compares: Sequence[Compare],
        on_success: Sequence[TxnOp],
        on_failure: Sequence[TxnOp] = (),
    ) -> TxnResult:
        request = encode_txn(compares, on_success, on_failure)
        return decode_txn(await self._endpoints.call(lambda c: c.txn_encoded, request, safe=False))

    def watch(
        self, prefix: str | Sequence[str], *, start_revision: int = 0
    ) -> AsyncIterator[WatchBatch]:
        prefixes = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        return follow(self._endpoints, prefixes, start_revision)

    async def lease_grant(self, ttl: int) -> LeaseGrant:
        request = rpc_pb2.LeaseGrantRequest(TTL=ttl)
        # Safe to repeat: a lease whose answer was lost has no keys and expires.
        answer = await self._endpoints.call(lambda c: c.lease.LeaseGrant, request, safe=True)
        return LeaseGrant(answer.ID, answer.TTL)

    async def lease_keep_alive(self, lease_id: int) -> int:
        request = rpc_pb2.LeaseKeepAliveRequest(ID=lease_id)
        answer = await self._endpoints.call(_keep_alive_once, request, safe=True)
        if answer.TTL <= 0:
            raise LeaseNotFound(f"lease {lease_id} not found")
        return int(answer.TTL)

    async def lease_revoke(self, lease_id: int) -> None:
        request = rpc_pb2.LeaseRevokeRequest(ID=lease_id)
        await self._endpoints.call(lambda c: c.lease.LeaseRevoke, request, safe=False)

    async def compact(self, revision: int) -> None:
        request = rpc_pb2.CompactionRequest(revision=revision)
        try:
            await self._endpoints.call(lambda c: c.kv.Compact, request, safe=True)  # safe to repeat
        except Compacted:
            return

    async def status(self) -> StoreStatus:
        endpoint = ""

        def status_of(connection: Connection) -> Any:
            nonlocal endpoint
            endpoint = connection.endpoint  # by the time of the answer another one may be in use
            return connection.maintenance.Status

        answer = await self._endpoints.call(status_of, rpc_pb2.StatusRequest(), safe=True)
        return StoreStatus(
            endpoint=endpoint,
            revision=answer.header.revision,
            db_size=answer.dbSize,
            raft_term=answer.raftTerm,
        )

    async def wait(self) -> None:
        """Wait until the writing task ends, which only a bug causes. Raises its error."""
        await self._group_commit.wait()

    async def close(self) -> None:
        await self._group_commit.close()
        await self._endpoints.close()


def _keep_alive_once(connection: Connection) -> Any:
    """Return a call that renews a lease once, on its own stream: etcd has no unary method."""

    async def call(request: Any, *, timeout: float, metadata: Any) -> Any:
        stream = connection.lease.LeaseKeepAlive(timeout=timeout, metadata=metadata)
        try:
            await connection.write_first(stream, request)
            answer = await stream.read()
            if answer is grpc.aio.EOF:
                raise Unavailable("etcd ended the keep-alive stream without an answer")
            return answer
        finally:
            stream.cancel()

    return call
