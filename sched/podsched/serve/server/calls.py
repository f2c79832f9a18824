"""Wraps functions as gRPC methods that run the steps of ``pipeline`` and decode requests.

gRPC's context refers to the exception that ends its call, and the exception's traceback to the
frames that it passed. If a frame kept the context or the request iterator, this cycle would keep
each failed call, 15 kB and its request, until a garbage collection. So the frames here delete both
(``del requests, context``).
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
from podsched.serve.server.fairness.intake import SMALL_RESPONSE
from podsched.serve.server.pipeline import Call, Pipeline
from podsched.serve.server.request_ids import KEY as REQUEST_ID
from podsched.serve.server.request_ids import request_id_of
from podsched.serve.server.status import details, short

#: Seconds that a client may leave a response of a stream unread.
UNREAD_SECONDS = 30.0

#: Max headers of a call, and bytes of all of them: gRPC's own limit is 16 KiB, with 32 bytes added
#: for each header. But gRPC applies it only when the client has acknowledged it, and 16 MiB before.
MAX_HEADERS = 512
MAX_HEADER_BYTES = 16 << 10

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
        grpc_call = _GrpcCall(method, context, pipeline)
        del requests, context
        async with grpc_call:
            grpc_call.request = _decoded(parse, await grpc_call.only_request())
            grpc_call.charge_items()
            response = grpc_call.response = await handle(grpc_call.request)
            # No await since it was encoded: the flow's next large response must wait for this one.
            grpc_call.count_unread(response)
            grpc_call.add_warnings_to_trailers()
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
        grpc_call = _GrpcCall(method, context, pipeline)
        del requests, context
        async with grpc_call:
            grpc_call.request = _decoded(parse, await grpc_call.only_request())
            with grpc_call.usage.stream():
                # Sent separately: gRPC would otherwise send it with the first response, and if the
                # client does not read that one, the call could not be ended.
                await grpc_call.context.send_initial_metadata(())
                async with aclosing(handle(grpc_call.request)) as responses:
                    async for response in responses:
                        # Before the write: else a hundred unread streams take all seats of a level.
                        grpc_call.usage.leave_seat()
                        await grpc_call.write(response)
                        await grpc_call.usage.sent(len(response))

    return grpc.stream_stream_rpc_method_handler(call)


def bidirectional(
    method: str,
    handle: Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
    initial_metadata: Sequence[tuple[str, str]] = (),
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with many requests and many responses.

    ``handle`` decodes the requests itself, because an undecodable one must not end the stream. A
    client that does not read the responses is disconnected.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        grpc_call = _GrpcCall(method, context, pipeline)
        handled = handle(requests)
        del requests, context
        async with grpc_call:
            await grpc_call.arrive()
            await grpc_call.enter(0)
            with grpc_call.usage.stream(uploads=True):
                grpc_call.usage.leave_seat()  # an idle stream needs none
                # By this the client learns that it may begin.
                await grpc_call.context.send_initial_metadata(initial_metadata)
                async with aclosing(handled) as responses:
                    async for response in responses:
                        await grpc_call.write(response)
                        await grpc_call.usage.sent(len(response))
                        grpc_call.authenticate()  # rights may have been withdrawn meanwhile

    return grpc.stream_stream_rpc_method_handler(call)


def unknown(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handler of all unknown methods.

    gRPC's own handler would answer without authentication and without any rate limit.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        grpc_call = _GrpcCall(_UNKNOWN, context, pipeline)
        del requests, context
        async with grpc_call:
            await grpc_call.arrive()
            await grpc_call.enter(0)
            raise errors.unknown_method()

    handler = grpc.stream_stream_rpc_method_handler(call)

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return handler

    return Handler()


def oversized(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handler of all calls whose headers are too many or too large; it refuses them.

    It has to be the first: each look at the headers converts all of them to Python's objects, and
    490,000 take half a second, without a credential.
    """

    async def refuse(requests: AsyncIterator[bytes], context: Any) -> None:
        del requests
        if pipeline.gate is not None:
            await pipeline.gate.delay_refusal(context.peer())
        error = errors.too_large("the headers are too many or too large")
        refused = await _abort(context, error, request_id_of(()))
        del context
        raise refused

    handler = grpc.stream_stream_rpc_method_handler(refuse)

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            headers = call.invocation_metadata or ()
            return handler if _are_too_large(headers) else None

    return Handler()


def _are_too_large(headers: Sequence[tuple[str, str | bytes]]) -> bool:
    if len(headers) > MAX_HEADERS:
        return True
    return sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES


class _GrpcCall(Call):
    """A ``Call`` over gRPC; its trailing metadata has the request's id."""

    __slots__ = ()

    def __init__(self, method: str, context: Any, pipeline: Pipeline) -> None:
        super().__init__(method, context, pipeline)
        # Sent at the end of the call, on success and failure.
        context.set_trailing_metadata(((REQUEST_ID, self.request_id),))

    def add_warnings_to_trailers(self) -> None:
        """Add the warnings to the trailing metadata."""
        if self.warnings:
            warnings = [(WARNING, header(text)) for text in self.warnings]
            self.context.set_trailing_metadata(((REQUEST_ID, self.request_id), *warnings))

    async def only_request(self) -> bytes:
        """Authenticate the caller, read the request, and wait for a seat. Raises ApiError."""
        await self.arrive()
        # Read before it has a seat: clients that never send their requests would keep out others.
        raw = await self.usage.receive(self._read)
        await self.enter(len(raw))
        return raw

    async def _read(self) -> bytes:
        raw = await self.context.read()
        if raw is grpc.aio.EOF:
            raise errors.bad_request("the request is missing")
        return raw  # type: ignore[no-any-return]

    def count_unread(self, response: bytes) -> None:
        """Count a large response as held by the flow until the call has ended.

        gRPC keeps the response until the client has read it or disconnects.
        """
        intake, size = self.usage.intake, len(response)
        if intake is not None and size > SMALL_RESPONSE:
            intake.hold(size)
            self.context.add_done_callback(lambda _: intake.release(size))

    async def write(self, response: bytes) -> None:
        """Send one response. Raises ApiError if the client does not read for UNREAD_SECONDS.

        Raises CancelledError if the connection has just broken; usually gRPC cancels the call.

        gRPC blocks the writer while the client's flow-control window is full. So a client that does
        not read occupies the memory of one response; the timeout bounds how long. (300 unread
        watches took 1.8 GB and were never ended.)
        """
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self.context.write(response)
        except TimeoutError:
            self.count_unread(response)
            raise errors.expired(f"the client has not read for {UNREAD_SECONDS:g} s") from None
        except grpc.aio.InternalError as error:
            raise asyncio.CancelledError("the connection has broken") from error

    async def fail(self, error: ApiError) -> BaseException:
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
    except grpc.aio.InternalError:
        # gRPC has ended the call itself, such as for a message that is too large. It would log any
        # other exception with its traceback, as often as a client likes.
        return asyncio.CancelledError("the call has ended")
    except BaseException as aborted:
        return aborted.with_traceback(None)
    return error
