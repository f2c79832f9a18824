"""Watches etcd's keys, and resumes a watch after a broken connection.

    connecting --stream open--> following --stream broken--> connecting (at the position)
    connecting, following --compacted, not permitted, store closed--> ended (raises)
    connecting --what was delivered is not in etcd's history--> ended (raises Restored)

The position is the first revision not yet delivered. It moves only when a revision is complete. So
if a stream breaks between two fragments of a revision, that revision is sent again from its start,
and nothing is delivered twice.

If etcd was restored from a backup, a resumed watch would wait until the revisions have reached its
position again, and miss the writes until then. So before each stream that resumes at a position, a
linearizable read checks that etcd still has the last event delivered, with its revision and value.

``Assembler`` turns responses into batches (pure); ``follow`` opens streams and feeds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
from aetcd.rpc import rpc_pb2

from podsched.lib.backoff import exponential
from podsched.lib.list_watch import list_and_watch
from podsched.serve.store.connection import Connection
from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.errors import (
    Closed,
    Compacted,
    InvalidRequest,
    Restored,
    StoreError,
    Unauthorized,
    Unavailable,
)
from podsched.serve.store.protocol import WatchBatch
from podsched.serve.store.translate import FUTURE_REVISION, STALE_TOKEN, translate
from podsched.serve.store.wire import covering_range, decode_event

#: Seconds for a member to answer the read before a stream is opened again, and to open it; doubled
#: after each failure. What was asked while etcd elects a leader may never be answered; with the
#: request timeout the API servers would see no event for 5 s.
FIRST_ANSWER = 0.25


class Assembler:
    """Assembles batches from etcd's watch responses.

    etcd splits revisions only into fragments, which are joined here.
    """

    def __init__(self, prefixes: Sequence[str], start_revision: int) -> None:
        self.position = start_revision
        self._prefixes = tuple(prefix.encode() for prefix in prefixes)
        self._filters = len(prefixes) > 1
        self._fragments: list[Any] = []
        self._cluster = 0
        self._last: Any = None

    def reset(self) -> None:
        """Drop an incomplete revision after a broken stream; the next stream sends it again."""
        self._fragments.clear()

    def feed(self, response: Any) -> WatchBatch | None:
        """Return the batch that a response completes, or None. Raises StoreError, as Compacted."""
        self._cluster = response.header.cluster_id or self._cluster
        if response.canceled or response.compact_revision:
            raise _refusal(response)
        if response.created:
            return self._created(response.header.revision)
        if not response.events and not response.fragment and not self._fragments:
            return self._progress(response.header.revision)
        events: Any = response.events
        if response.fragment or self._fragments:
            self._fragments.extend(events)
            if response.fragment:
                return None
            events, self._fragments = self._fragments, []
        self._last = events[-1]
        revision = self._last.kv.mod_revision
        self.position = revision + 1
        if self._filters:
            events = [e for e in events if e.kv.key.startswith(self._prefixes)]
        return WatchBatch(revision, [decode_event(e) for e in events]) if events else None

    def proof(self) -> Any:
        """Return the read request by which ``check`` detects that etcd was restored from a backup.

        It reads the key of the last delivered event at its revision.
        """
        if self._last is None:
            return rpc_pb2.RangeRequest(key=self._prefixes[0], keys_only=True)
        kv = self._last.kv
        return rpc_pb2.RangeRequest(key=kv.key, revision=kv.mod_revision)

    def check(self, answer: Any) -> None:
        """Raise Restored if the answer to ``proof`` shows another history."""
        header, seen = answer.header, self.position - 1
        if self._cluster and header.cluster_id not in (0, self._cluster):
            raise Restored(seen, "it is another cluster")
        if header.revision < seen:
            raise Restored(seen, f"it has come to {header.revision}")
        if self._last is not None and _found(answer) != _expected(self._last):
            raise Restored(seen, "that revision holds another change")

    def _created(self, revision: int) -> WatchBatch | None:
        if self.position:
            return None
        self.position = revision + 1
        return WatchBatch(revision, ())

    def _progress(self, revision: int) -> WatchBatch | None:
        if revision < self.position:
            return None  # nothing new: the watch begins in the future, or stands still
        self.position = revision + 1
        return WatchBatch(revision, ())


def _expected(event: Any) -> tuple[int, bytes] | None:
    kv = event.kv
    return (kv.mod_revision, kv.value) if event.type == event.PUT else None


def _found(answer: Any) -> tuple[int, bytes] | None:
    return (answer.kvs[0].mod_revision, answer.kvs[0].value) if answer.kvs else None


def _refusal(response: Any) -> StoreError:
    if response.compact_revision:
        return Compacted(response.compact_revision)
    reason = response.cancel_reason
    if "permission denied" in reason or any(part in reason for part in STALE_TOKEN):
        return Unauthorized(f"etcd: {reason}")
    return Unavailable(f"etcd ended the watch: {reason}")


def follow(
    endpoints: Endpoints, prefixes: Sequence[str], start_revision: int
) -> AsyncGenerator[WatchBatch, None]:
    """Yield the batches of a watch, reconnecting as needed."""
    if not prefixes:
        raise InvalidRequest("no prefix to watch")
    assembler = Assembler(prefixes, start_revision)
    backoff, authenticated_anew = endpoints.backoff(), False

    def on_error(error: Exception) -> None:
        nonlocal authenticated_anew
        authenticated_anew = authenticated_anew and backoff.failures > 0
        if isinstance(error, Unauthorized):
            # etcd reports an expired token as missing permission: retry once with a new token.
            if authenticated_anew or not endpoints.token.forget():
                raise error
            authenticated_anew = True

    return list_and_watch(
        lambda: _one_stream(endpoints, prefixes, assembler, backoff.failures),
        on_error,
        transient=(Unauthorized, Unavailable, TimeoutError),
        backoff=backoff,
    )


async def _one_stream(
    endpoints: Endpoints, prefixes: Sequence[str], assembler: Assembler, failures: int
) -> AsyncGenerator[WatchBatch | None, None]:
    """Yield the batches of one stream, until it ends or breaks; None for an incomplete one.

    ``failures``: of the streams before it; the more, the longer the member may take to answer.
    """
    patience = exponential(FIRST_ANSWER, endpoints.options.request_timeout, failures + 1)
    connection = await endpoints.connected()
    try:
        if assembler.position:
            # Before each stream, because etcd may have been restored while there was none.
            await _check_history(endpoints, connection, assembler, patience)
        stream = _responses(endpoints, connection, prefixes, assembler.position, patience)
        async with aclosing(stream):
            async for response in stream:
                yield assembler.feed(response)
        raise Unavailable("etcd ended the stream")
    except (asyncio.CancelledError, grpc.aio.UsageError):
        if endpoints.closed:  # closing the channels cancels the calls and streams on them
            raise Closed("the store is closed") from None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Unavailable("another member of etcd is used") from None
    except grpc.aio.AioRpcError as error:
        fault = translate(error, safe=True)
        if fault.retryable:
            endpoints.members.leave(connection)
        raise fault from error
    except (Unavailable, TimeoutError):
        endpoints.members.leave(connection)
        raise
    except Restored:
        endpoints.begin_anew()
        raise
    finally:
        assembler.reset()


async def _check_history(
    endpoints: Endpoints, connection: Connection, assembler: Assembler, timeout: float
) -> None:
    """Raise Restored if etcd does not have the last delivered event."""
    request = assembler.proof()
    try:
        with connection.failing():
            metadata = await endpoints.token.metadata(connection)
            answer = await connection.kv.Range(request, timeout=timeout, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        if FUTURE_REVISION in (error.details() or ""):
            raise Restored(assembler.position - 1, "it has not come so far") from error
        if not isinstance(translate(error, safe=True), Compacted):
            raise
        return  # the last event is compacted, so the history cannot be checked
    assembler.check(answer)


async def _responses(
    endpoints: Endpoints,
    connection: Connection,
    prefixes: Sequence[str],
    position: int,
    timeout: float,
) -> AsyncGenerator[Any, None]:
    """Yield the responses of one stream, the first of them within ``timeout`` seconds."""
    key, range_end = covering_range(prefixes)
    # One watch over all prefixes, and events of others are dropped (Assembler): etcd does not keep
    # separate watches in step, so a revision could be split between batches.
    create = rpc_pb2.WatchCreateRequest(
        key=key, range_end=range_end, start_revision=position, progress_notify=True, fragment=True
    )
    with connection.failing():
        metadata = await endpoints.token.metadata(connection)
    stream = connection.watch.Watch(metadata=metadata)
    connection.watches.add(stream)
    try:
        async with asyncio.timeout(timeout):
            with connection.failing():
                await connection.write_first(stream, rpc_pb2.WatchRequest(create_request=create))
                response = await stream.read()
        while response is not grpc.aio.EOF:
            yield response
            with connection.failing():
                response = await stream.read()
    finally:
        connection.watches.discard(stream)
        stream.cancel()
