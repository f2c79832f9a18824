"""Wraps handlers of bytes as gRPC methods: authentication, decoding, errors, metrics.

gRPC's context refers to the exception that ends its call, and the exception to the frames that it
passed. So no frame here keeps a context or the request iterator: the cycle would keep every failed
call in memory, 15 kB and its request, until the garbage collector runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from podsched.serve.server import errors
from podsched.serve.server.call_warnings import KEY as WARNING
from podsched.serve.server.call_warnings import header
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Call, Pipeline
from podsched.serve.server.request_ids import KEY as REQUEST_ID
from podsched.serve.server.status import details, short

#: Seconds that a client may leave a response of a stream unread.
UNREAD_SECONDS = 30.0

#: Bytes of a response that is not counted while unread.
_SMALL = 16 << 10

#: Method name under which calls of unknown methods are counted.
_UNKNOWN = "unknown"

_Request = TypeVar("_Request")


def unary(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], Awaitable[bytes]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one request and one response."""

    async def call(requests: AsyncIterator[bytes], context: Any) -> bytes:
        under_way = _GrpcCall(method, context, pipeline)
        del requests, context
        async with under_way:
            under_way.request = _decoded(parse, await under_way.only_request())
            under_way.charge_items()
            response = under_way.response = await handle(under_way.request)
            under_way.count_unread(response)
            under_way.tell_warnings()
            return response

    # Registered as a stream of requests: gRPC would read a single one before calling the handler.
    return grpc.stream_unary_rpc_method_handler(call)


def streaming(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one request and many responses.

    A client that does not read them is disconnected.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        under_way = _GrpcCall(method, context, pipeline)
        del requests, context
        async with under_way:
            under_way.request = _decoded(parse, await under_way.only_request())
            with under_way.stream():
                # By itself: beside an unread first response, it would keep the call from ending.
                await under_way.context.send_initial_metadata(())
                async with aclosing(handle(under_way.request)) as responses:
                    async for response in responses:
                        under_way.leave_seat()
                        await under_way.write(response)
                        await under_way.sent(len(response))

    return grpc.stream_stream_rpc_method_handler(call)


def conversing(
    method: str,
    handle: Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
    told: Sequence[tuple[str, str]] = (),
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with many requests and many responses.

    The requests are not decoded, since each has its own outcome. A client that does not read the
    responses is disconnected. ``told``: initial metadata for the client.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        under_way = _GrpcCall(method, context, pipeline)
        handled = handle(requests)
        del requests, context
        async with under_way:
            await under_way.arrive()
            await under_way.enter(0)
            with under_way.stream():
                under_way.leave_seat()  # an idle stream needs none
                # Tells the client that it may begin.
                await under_way.context.send_initial_metadata(told)
                async with aclosing(handled) as responses:
                    async for response in responses:
                        await under_way.write(response)
                        await under_way.sent(len(response))
                        under_way.authenticate()  # rights may have been withdrawn meanwhile

    return grpc.stream_stream_rpc_method_handler(call)


def unknown(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handler of all unknown methods.

    gRPC's own would answer without authentication and without any rate limit.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        under_way = _GrpcCall(_UNKNOWN, context, pipeline)
        del requests, context
        async with under_way:
            await under_way.arrive()
            await under_way.enter(0)
            raise errors.unknown_method()

    handler = grpc.stream_stream_rpc_method_handler(call)

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return handler

    return Handler()


class _GrpcCall(Call):
    """A gRPC call; it ends with a status, and its trailing metadata has its id."""

    __slots__ = ()

    def __init__(self, method: str, context: Any, pipeline: Pipeline) -> None:
        super().__init__(method, context, pipeline)
        # Sent at the end of the call, on success and failure.
        context.set_trailing_metadata(((REQUEST_ID, self.request_id),))

    def tell_warnings(self) -> None:
        """Add the warnings to the trailing metadata."""
        if self.warnings:
            told = [(WARNING, header(text)) for text in self.warnings]
            self.context.set_trailing_metadata(((REQUEST_ID, self.request_id), *told))

    async def only_request(self) -> bytes:
        """Authenticate the caller, read the request, and wait for a seat. Raises ApiError."""
        await self.arrive()
        raw = await self.receive(self._read)
        await self.enter(len(raw))
        return raw

    async def _read(self) -> bytes:
        raw = await self.context.read()
        if raw is grpc.aio.EOF:
            raise errors.bad_request("the request is missing")
        return raw  # type: ignore[no-any-return]

    def count_unread(self, response: bytes) -> None:
        """Count a large response to the flow until gRPC has sent it or the call is gone."""
        intake, size = self._intake, len(response)
        if intake is not None and size > _SMALL:
            intake.hold(size)
            self.context.add_done_callback(lambda _: intake.let_go(size))

    async def write(self, response: bytes) -> None:
        """Send one response. Raises ApiError if the client leaves it unread for too long.

        gRPC blocks the writer while the client's flow-control window is full. So a client that does
        not read occupies one response, but without the limit it could do so forever.
        """
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self.context.write(response)
        except TimeoutError:
            self.count_unread(response)
            raise errors.expired(f"the client has not read for {UNREAD_SECONDS:g} s") from None

    async def fail(self, error: ApiError) -> BaseException:
        """See ``Call``."""
        return await _abort(self.context, error, self.request_id)


def _decoded(parse: Callable[[bytes], _Request], raw: bytes) -> _Request:
    try:
        return parse(raw)
    except DecodeError:
        raise errors.bad_request("the request cannot be decoded") from None


async def _abort(context: Any, error: ApiError, request_id: str) -> BaseException:
    """End the call with a status; return the exception that gRPC expects the handler to raise."""
    context.set_trailing_metadata(
        (("grpc-status-details-bin", details(error, request_id)), (REQUEST_ID, request_id))
    )
    try:
        await context.abort(grpc.StatusCode[error.code.name], short(error.message))
    except BaseException as aborted:
        return aborted.with_traceback(None)
    return error
