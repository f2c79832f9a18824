"""Handlers of bytes as gRPC methods: who calls, decoding, errors, metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from podsched.api.reasons import StatusCode
from podsched.server import errors
from podsched.server.access.authentication import Authenticator, nobody_is_asked
from podsched.server.access.identity import Identity, caller, set_caller
from podsched.server.access.rights import UNASKED, Rights, set_rights
from podsched.server.audit.events import AuditedCall
from podsched.server.errors import ApiError
from podsched.server.fairness.gate import MAX_WATCHES, RETRY_AFTER, Gate
from podsched.server.fairness.turns import ITEM_SECONDS, Seat, set_seat
from podsched.server.request_ids import KEY as REQUEST_ID
from podsched.server.request_ids import request_id_of
from podsched.server.status import details, short
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

#: Seconds that a response of a stream may stay unread.
UNREAD_SECONDS = 30.0

#: Batches whose items are decoded with the request, and the field that they are in.
_ITEMS = {
    "PatchBatch": "patches",
    "BindPods": "bindings",
    "EvictPods": "evictions",
    "PatchPodStatuses": "patches",
}

_Request = TypeVar("_Request")


class CallObserver(Protocol):
    """Counts and traces calls."""

    def call_ended(
        self,
        method: str,
        request: Any,
        code: str,
        started: float,
        ended: float,
        parent: str,
        request_id: str,
    ) -> None:
        """Take note of a call that has ended.

        started, ended: monotonic seconds; code: name of the gRPC status; request:
        the decoded message, None if it could not be decoded; parent: a traceparent or "".
        """


class Auditor(Protocol):
    """Writes down who did what."""

    def record(self, call: AuditedCall) -> None:
        """Take a call that has ended; must return at once."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What every call to the API passes, in this order.

    Who makes it, what he may do, when it is its turn (``fairness``), its handler, its observer and
    the audit log. The handlers' parts ask ``access.rights.rights()`` for each object that they read
    or write.
    """

    observer: CallObserver | None = None
    authenticate: Authenticator = nobody_is_asked
    authorize: Callable[[Identity], Rights] = lambda _: UNASKED
    gate: Gate | None = None
    audit: Auditor | None = None


def unary(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], Awaitable[bytes]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one request and one response."""

    async def call(raw: bytes, context: Any) -> bytes:
        async with _Call(method, context, pipeline) as under_way:
            under_way.authenticate()
            await under_way.enter(len(raw))
            request = under_way.request = _decoded(parse, raw)
            under_way.charge_items()
            under_way.response = await handle(request)
            return under_way.response

    return grpc.unary_unary_rpc_method_handler(call)


def streaming(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with one request and many responses.

    A client that does not read them is cut off.
    """

    async def call(raw: bytes, context: Any) -> None:
        async with _Call(method, context, pipeline) as under_way:
            under_way.authenticate()
            await under_way.enter(len(raw))
            request = under_way.request = _decoded(parse, raw)
            with under_way.stream():
                async with aclosing(handle(request)) as responses:
                    async for response in responses:
                        await _write(context, response)
                        await under_way.sent(len(response))

    return grpc.unary_stream_rpc_method_handler(call)


def conversing(
    method: str,
    handle: Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes, None]],
    pipeline: Pipeline,
) -> grpc.RpcMethodHandler:
    """Return the handler of a method with many requests and many responses.

    The requests come undecoded, for each of them has an outcome of its own. A client that does
    not read the responses is cut off.
    """

    async def call(requests: AsyncIterator[bytes], context: Any) -> None:
        async with _Call(method, context, pipeline) as under_way:
            under_way.authenticate()
            await under_way.enter(0)
            with under_way.stream():
                under_way.leave_seat()  # a stream on which nothing comes needs none
                await context.send_initial_metadata(())  # the client learns that it may begin
                async with aclosing(handle(requests)) as responses:
                    async for response in responses:
                        await _write(context, response)
                        await under_way.sent(len(response))
                        under_way.authenticate()  # rights that were withdrawn meanwhile end

    return grpc.stream_stream_rpc_method_handler(call)


class _Call:
    """One call while it is handled: its errors become statuses, and its end is observed.

    identity: who makes it, None until that is known; request: the decoded message, likewise.
    """

    __slots__ = (
        "_context",
        "_method",
        "_pipeline",
        "_received",
        "_request_id",
        "_seat",
        "_started",
        "identity",
        "request",
        "response",
    )

    def __init__(self, method: str, context: Any, pipeline: Pipeline) -> None:
        self._method = method
        self._context = context
        self._pipeline = pipeline
        self._started = time.monotonic()
        self._received = time.time() if pipeline.audit is not None else 0.0
        self._request_id = request_id_of(context.invocation_metadata() or ())
        # Goes out with the end of the call, however that comes.
        context.set_trailing_metadata(((REQUEST_ID, self._request_id),))
        self.identity: Identity | None = None
        self.request: Any = None
        #: Of a call with one response; kept for those who look at batches' outcomes.
        self.response = b""
        self._seat: Seat | None = None

    def authenticate(self) -> None:
        """Find out who calls and what he may do, for all that runs within. Raises ApiError."""
        identity = self._pipeline.authenticate(self._context)
        if identity.expires <= time.time():
            # Of a certificate, the handshake has seen the beginning of the connection only.
            raise errors.unauthenticated("the credential has expired")
        self.identity = identity
        set_caller(identity)
        set_rights(self._pipeline.authorize(identity))

    async def enter(self, size: int) -> None:
        """Wait until it is the call's turn; ``size``: bytes of the request. Raises ApiError."""
        gate = self._pipeline.gate
        if gate is not None and self.identity is not None:
            peer = self._context.peer()
            self._seat = await gate.enter(self.identity, peer, self._method, size)
            set_seat(self._seat)

    def charge_items(self) -> None:
        """Account for a batch whose items are not measured one by one."""
        field = _ITEMS.get(self._method)
        if field is not None and self._seat is not None:
            self._seat.charge(len(getattr(self.request, field)) * ITEM_SECONDS)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count the call as a stream of its flow for the block. Raises ApiError for too many."""
        seat = self._seat
        if seat is None:
            yield
            return
        if seat.flow.watches >= MAX_WATCHES:
            raise errors.too_many_requests(
                f"this client has {MAX_WATCHES} watches open already", RETRY_AFTER
            )
        seat.flow.watches += 1
        try:
            yield
        finally:
            seat.flow.watches -= 1

    def leave_seat(self) -> None:
        """Let another call have the seat."""
        if self._seat is not None:
            self._seat.leave()

    async def sent(self, size: int) -> None:
        """Account for a response of a stream, which needs no seat once it has begun."""
        if self._seat is not None:
            self._seat.leave()
            await self._seat.sent(size)

    async def __aenter__(self) -> _Call:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any
    ) -> None:
        code = _code_of(error)
        self.leave_seat()
        try:
            if isinstance(error, ApiError):
                raise await _abort(self._context, error, self._request_id) from None
            if isinstance(error, Exception):
                incident = _incident(self._method, error, self._request_id)
                raise await _abort(self._context, incident, self._request_id) from None
        finally:
            if self._pipeline.audit is not None:
                self._audit(self._pipeline.audit, code, error)
            if self._pipeline.observer is not None:
                self._observe(self._pipeline.observer, code)

    def _observe(self, observer: CallObserver, code: StatusCode) -> None:
        metadata = self._context.invocation_metadata() or ()
        parent = next((value for key, value in metadata if key == "traceparent"), "")
        ended = time.monotonic()
        observer.call_ended(
            self._method, self.request, code.name, self._started, ended, parent, self._request_id
        )

    def _audit(self, audit: Auditor, code: StatusCode, error: BaseException | None) -> None:
        metadata = self._context.invocation_metadata() or ()
        audit.record(
            AuditedCall(
                method=self._method,
                request=self.request,
                response=self.response,
                identity=self.identity,
                peer=self._context.peer(),
                user_agent=next((value for key, value in metadata if key == "user-agent"), ""),
                request_id=self._request_id,
                code=code,
                error=error if isinstance(error, ApiError) else None,
                received=self._received,
                completed=self._received + time.monotonic() - self._started,
            )
        )


def _code_of(error: BaseException | None) -> StatusCode:
    if error is None:
        return StatusCode.OK
    if isinstance(error, ApiError):
        return error.code
    if isinstance(error, asyncio.CancelledError):
        return StatusCode.CANCELLED
    return StatusCode.INTERNAL


async def _write(context: Any, response: bytes) -> None:
    """Send one response. Raises ApiError when the client leaves it unread for too long.

    gRPC holds the writer back while the client's window is full, so what a client does not read
    costs the server one response, but as long as it likes.
    """
    try:
        async with asyncio.timeout(UNREAD_SECONDS):
            await context.write(response)
    except TimeoutError:
        raise errors.expired(f"the client has not read for {UNREAD_SECONDS:g} s") from None


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
        return aborted
    return error


def _incident(method: str, error: Exception, incident: str) -> ApiError:
    user = caller()
    _log.error(
        "Internal error",
        incident=incident,
        method=method,
        user=user.user,
        authentication=user.how,
        exc_info=error,
    )
    return errors.internal(incident)
