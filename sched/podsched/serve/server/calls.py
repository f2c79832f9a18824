"""Handlers of bytes as gRPC methods: who calls, decoding, errors, metrics.

gRPC's context refers to the exception that ends its call, and that to the frames it went through.
So no frame here keeps a context, nor what gRPC reads the call from: all of a call that fails would
stay, 15 kB and its request, until the cyclic collector looks at it.
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

#: Seconds that a response of a stream may stay unread.
UNREAD_SECONDS = 30.0

#: What calls of methods that do not exist are counted as.
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
            under_way.tell_warnings()
            return response

    # To gRPC a stream of requests: it would read a single one before it calls the handler.
    return grpc.stream_unary_rpc_method_handler(call)


def streaming(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one request and many responses.

    A client that does not read them is cut off.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        under_way = _GrpcCall(method, context, pipeline)
        del requests, context
        async with under_way:
            under_way.request = _decoded(parse, await under_way.only_request())
            with under_way.stream():
                async with aclosing(handle(under_way.request)) as responses:
                    async for response in responses:
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

    The requests come undecoded, for each of them has an outcome of its own. A client that does
    not read the responses is cut off. ``told``: metadata that a client gets at first.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        under_way = _GrpcCall(method, context, pipeline)
        handled = handle(requests)
        del requests, context
        async with under_way:
            await under_way.arrive()
            await under_way.enter(0)
            with under_way.stream():
                under_way.leave_seat()  # a stream on which nothing comes needs none
                # The client learns that it may begin.
                await under_way.context.send_initial_metadata(told)
                async with aclosing(handled) as responses:
                    async for response in responses:
                        await under_way.write(response)
                        await under_way.sent(len(response))
                        under_way.authenticate()  # rights that were withdrawn meanwhile end

    return grpc.stream_stream_rpc_method_handler(call)


def unknown(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handler of all methods that do not exist.

    gRPC's own would answer without asking who calls, and as fast as the client likes.
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
    """A call of gRPC, which ends with a status and has its id in the trailing metadata."""

    __slots__ = ()

    def __init__(self, method: str, context: Any, pipeline: Pipeline) -> None:
        super().__init__(method, context, pipeline)
        # Goes out with the end of the call, however that comes.
        context.set_trailing_metadata(((REQUEST_ID, self.request_id),))

    def tell_warnings(self) -> None:
        """Have the end of the call say what the client is warned of."""
        if self.warnings:
            told = [(WARNING, header(text)) for text in self.warnings]
            self.context.set_trailing_metadata(((REQUEST_ID, self.request_id), *told))

    async def only_request(self) -> bytes:
        """Find out who calls, read what he asks for, and wait for his turn. Raises ApiError."""
        await self.arrive()
        raw = await self.receive(self._read)
        await self.enter(len(raw))
        return raw

    async def _read(self) -> bytes:
        raw = await self.context.read()
        if raw is grpc.aio.EOF:
            raise errors.bad_request("the request is missing")
        return raw  # type: ignore[no-any-return]

    async def write(self, response: bytes) -> None:
        """Send one response. Raises ApiError when the client leaves it unread for too long.

        gRPC holds the writer back while the client's window is full, so what a client does not read
        costs the server one response, but as long as it likes.
        """
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self.context.write(response)
        except TimeoutError:
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
    """End the call with a status; return the exception that gRPC wants to be raised then."""
    context.set_trailing_metadata(
        (("grpc-status-details-bin", details(error, request_id)), (REQUEST_ID, request_id))
    )
    try:
        await context.abort(grpc.StatusCode[error.code.name], short(error.message))
    except BaseException as aborted:
        return aborted.with_traceback(None)
    return error
