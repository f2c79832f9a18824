"""Handlers as gRPC sees them: how a call ends, and what is observed of it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from podsched.api.kinds import KINDS
from podsched.api.trace_context import Metadata, of_metadata
from podsched.serve.client.http_terms import warnings_in
from podsched.serve.server import errors
from podsched.serve.server.access.identity import (
    SERVER,
    UNSECURED,
    Authentication,
    Identity,
    caller,
)
from podsched.serve.server.call_warnings import add_warnings
from podsched.serve.server.calls import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    bidirectional,
    oversized,
    streaming,
    unary,
    unknown,
)
from podsched.serve.server.fairness import usage
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.intake import READ_SECONDS
from podsched.serve.server.fairness.levels import GLOBAL_DEFAULT
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.server import reflection_handlers
from podsched.telemetry.tracing import NO_SPAN, Span
from podsched.v1.api_pb2 import GetRequest
from support.eventually import PATIENCE, eventually

REQUEST = GetRequest(kind="Pod", name="web").SerializeToString()


class Aborted(Exception):
    """What gRPC raises in a handler that has aborted its call."""


class Context:
    """A gRPC context that keeps how the call was ended."""

    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.metadata = metadata
        self.ended: tuple[grpc.StatusCode, str] | None = None
        self.trailers: dict[str, bytes] = {}
        self.all_trailers: tuple[Any, ...] = ()
        self.written: list[bytes] = []
        self.request = b""

    async def read(self) -> bytes:
        return self.request

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4711"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    def set_trailing_metadata(self, trailers: tuple[tuple[str, bytes], ...]) -> None:
        self.trailers = dict(trailers)
        self.all_trailers = trailers

    async def send_initial_metadata(self, _: Any) -> None:
        pass

    async def write(self, response: bytes) -> None:
        self.written.append(response)

    async def abort(self, code: grpc.StatusCode, message: str) -> None:
        self.ended = (code, message)
        self.aborted = Aborted(message)  # as gRPC keeps it
        raise self.aborted


async def ask(handler: Any, request: bytes, context: Context) -> Any:
    """Make one call."""
    context.request = request
    return await (handler.stream_unary or handler.stream_stream)(nothing(), context)


class Calls:
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.requests: list[Any] = []
        self.contexts: list[str] = []
        self.request_ids: list[str] = []

    def call_began(self, method: str, metadata: Metadata, started: float) -> Span:
        assert method == "Get"
        self.contexts.append(of_metadata(metadata))
        return NO_SPAN

    def call_ended(
        self,
        method: str,
        request: Any,
        code: str,
        started: float,
        ended: float,
        span: Span,
        request_id: str,
    ) -> None:
        assert method == "Get"
        assert started <= ended
        self.codes.append(code)
        self.requests.append(request)
        assert span is NO_SPAN
        self.request_ids.append(request_id)


async def answered(request: GetRequest) -> bytes:
    return request.name.encode()


async def refused(_: GetRequest) -> bytes:
    raise errors.not_found(KINDS["Pod"], "web")


async def broken(_: GetRequest) -> bytes:
    raise ZeroDivisionError("a secret")


async def cancelled(_: GetRequest) -> bytes:
    raise asyncio.CancelledError


async def two_then_refused(_: GetRequest) -> AsyncGenerator[bytes, None]:
    yield b"1"
    yield b"2"
    raise errors.expired("the history is gone")


async def none_then_refused(requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for _ in requests:
        yield b""
    raise errors.expired("the history is gone")


async def one_and_no_more(_: GetRequest) -> AsyncGenerator[bytes, None]:
    yield b"1"
    await asyncio.Event().wait()


async def test_an_answer_is_observed_with_its_request_and_the_callers_trace() -> None:
    calls = Calls()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(calls))
    answer = await ask(handler, REQUEST, Context(("traceparent", "00-a-b-01")))
    assert answer == b"web"
    assert (calls.codes, calls.contexts) == (["OK"], ["00-a-b-01"])
    assert calls.requests[0].name == "web"


async def test_a_refusal_is_a_status_with_details() -> None:
    calls, context = Calls(), Context()
    handler = unary("Get", GetRequest.FromString, refused, Pipeline(calls))
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.ended == (grpc.StatusCode.NOT_FOUND, 'pods "web" not found')
    assert b"NOT_FOUND" in context.trailers["grpc-status-details-bin"]
    assert calls.codes == ["NOT_FOUND"]


async def warned(_: GetRequest) -> bytes:
    for text in ('a "b"', "c\u00e4", 'a "b"'):
        add_warnings(text)
    return b""


async def test_a_call_that_grpc_has_ended_itself_leaves_no_traceback() -> None:
    """Such as for a message that is too large: gRPC would log any other exception."""

    class Ended(Context):
        async def abort(self, code: grpc.StatusCode, message: str) -> None:
            raise grpc.aio.InternalError("Failed execute_batch")

    handler = unary("Get", GetRequest.FromString, refused, Pipeline())
    with pytest.raises(asyncio.CancelledError):
        await ask(handler, REQUEST, Ended())


async def test_what_the_client_is_warned_of_goes_out_with_the_end_of_the_call() -> None:
    context, quiet = Context(), Context()
    await ask(unary("Get", GetRequest.FromString, warned, Pipeline()), REQUEST, context)
    await ask(unary("Get", GetRequest.FromString, answered, Pipeline()), REQUEST, quiet)
    assert [*warnings_in(context.all_trailers)] == ['a "b"', "c\\xe4"]
    assert "warning" not in quiet.trailers
    assert len(context.trailers["x-request-id"]) > 8


async def test_a_call_has_the_id_that_its_client_gave_it_or_one_of_its_own() -> None:
    calls, given, made = Calls(), Context(("x-request-id", "my-request-1")), Context()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(calls))
    for context in (given, made, Context(("x-request-id", "no good\n"))):
        await ask(handler, REQUEST, context)
    assert given.trailers == {"x-request-id": "my-request-1"}
    assert calls.request_ids[0] == "my-request-1"
    assert len(set(calls.request_ids)) == 3
    assert all(len(each) >= 8 and each.isprintable() for each in calls.request_ids)


async def test_an_error_names_the_request() -> None:
    context = Context(("x-request-id", "my-request-1"))
    handler = unary("Get", GetRequest.FromString, refused, Pipeline())
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert b"my-request-1" in context.trailers["grpc-status-details-bin"]
    assert context.trailers["x-request-id"] == "my-request-1"


async def test_bytes_that_are_no_request_are_a_bad_request() -> None:
    calls, context = Calls(), Context()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(calls))
    with pytest.raises(Aborted):
        await ask(handler, b"\xff\xff\xff", context)
    assert context.ended is not None
    assert context.ended[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert (calls.codes, calls.requests) == (["INVALID_ARGUMENT"], [None])


async def test_a_bug_tells_the_client_an_id_and_the_log_the_error() -> None:
    calls, context = Calls(), Context()
    handler = unary("Get", GetRequest.FromString, broken, Pipeline(calls))
    with capture_logs() as lines, pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.ended is not None
    code, message = context.ended
    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in message
    (line,) = lines
    assert line["incident"] in message
    assert isinstance(line["exc_info"], ZeroDivisionError)
    assert calls.codes == ["INTERNAL"]


async def test_a_call_that_the_client_cancels_is_observed_as_such() -> None:
    calls, context = Calls(), Context()
    handler = unary("Get", GetRequest.FromString, cancelled, Pipeline(calls))
    with pytest.raises(asyncio.CancelledError):
        await ask(handler, REQUEST, context)
    assert context.ended is None
    assert calls.codes == ["CANCELLED"]


async def test_a_stream_ends_with_the_status_of_its_error() -> None:
    calls, context = Calls(), Context()
    handler = streaming("Get", GetRequest.FromString, two_then_refused, Pipeline(calls))
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.written == [b"1", b"2"]
    assert context.ended is not None
    assert context.ended[0] is grpc.StatusCode.OUT_OF_RANGE
    assert calls.codes == ["OUT_OF_RANGE"]


async def test_a_stream_whose_client_does_not_read_takes_no_seat_from_others() -> None:
    class Unread(Context):
        async def write(self, response: bytes) -> None:
            held.append(gate.flows.held(GLOBAL_DEFAULT))
            await super().write(response)

    held: list[int] = []
    gate = Gate()
    pipeline = Pipeline(gate=gate)
    handler = streaming("Get", GetRequest.FromString, two_then_refused, pipeline)
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, Unread())
    assert held == [0, 0]


async def test_a_stream_that_the_client_leaves_is_observed_as_cancelled() -> None:
    calls, context = Calls(), Context()
    handler = streaming("Get", GetRequest.FromString, one_and_no_more, Pipeline(calls))
    under_way = asyncio.create_task(ask(handler, REQUEST, context))
    await asyncio.sleep(0)
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    assert context.written == [b"1"]
    assert context.ended is None
    assert calls.codes == ["CANCELLED"]


ALICE = Identity("alice", frozenset({"users"}), Authentication.CERTIFICATE)


async def users_name(_: GetRequest) -> bytes:
    return caller().user.encode()


async def users_names(_: GetRequest) -> AsyncGenerator[bytes, None]:
    yield caller().user.encode()
    yield caller().user.encode()


async def test_what_runs_within_a_call_sees_who_makes_it() -> None:
    handler = unary("Get", GetRequest.FromString, users_name, Pipeline(None, lambda _: ALICE))
    assert await asyncio.create_task(ask(handler, REQUEST, Context())) == b"alice"
    assert caller() is SERVER, "outside of a call"


async def test_a_stream_whose_connection_breaks_in_a_write_is_no_bug_of_the_server() -> None:
    calls, context = Calls(), Context()

    async def write(_: bytes) -> None:
        raise grpc.aio.InternalError('Failed "execute_batch"')

    context.write = write  # type: ignore[method-assign]
    handler = streaming("Get", GetRequest.FromString, two_then_refused, Pipeline(calls))
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await ask(handler, REQUEST, context)
    assert (calls.codes, logs) == (["CANCELLED"], [])


async def test_a_stream_sees_who_reads_it() -> None:
    context = Context()
    handler = streaming("Get", GetRequest.FromString, users_names, Pipeline(None, lambda _: ALICE))
    await asyncio.create_task(ask(handler, REQUEST, context))
    assert context.written == [b"alice", b"alice"]


async def test_without_authentication_everyone_is_the_same_user() -> None:
    handler = unary("Get", GetRequest.FromString, users_name, Pipeline())
    answer = await asyncio.create_task(ask(handler, REQUEST, Context()))
    assert answer == UNSECURED.user.encode()


async def test_an_unauthenticated_caller_is_refused_before_the_request_is_read() -> None:
    def refuse(_: Any) -> Identity:
        raise errors.unauthenticated("no token")

    calls, context = Calls(), Context()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(calls, refuse))
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.ended == (grpc.StatusCode.UNAUTHENTICATED, "Unauthorized: no token")
    assert (calls.codes, calls.requests) == (["UNAUTHENTICATED"], [None])


async def test_a_credential_that_has_expired_since_the_connection_began_is_refused() -> None:
    late = Identity("alice", frozenset(), Authentication.CERTIFICATE, expires=1.0)
    context = Context()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(None, lambda _: late))
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.ended is not None
    assert context.ended[0] is grpc.StatusCode.UNAUTHENTICATED


async def nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""


def stranger(_: Any) -> Identity:
    raise errors.unauthenticated("the call has no bearer token")


async def test_a_call_of_no_method_counts_for_the_flow_of_its_client() -> None:
    context, gate = Context(), Gate()
    found = unknown(Pipeline(gate=gate)).service(None)
    with pytest.raises(Aborted):
        await found.stream_stream(nothing(), context)
    assert context.ended == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    assert [flow.part(gate.clock()) > 0 for flow in gate.flows] == [True]


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ([("a", "b")] * MAX_HEADERS, False),
        ([("a", "b")] * (MAX_HEADERS + 1), True),
        ([("a", "b" * (MAX_HEADER_BYTES - 1))], False),
        ([("a-bin", b"b" * MAX_HEADER_BYTES)], True),
        ([], False),
    ],
)
async def test_a_call_with_too_many_or_too_large_headers_is_refused(
    headers: Any, refused: bool
) -> None:
    handler = oversized(Pipeline(gate=Gate())).service(SimpleNamespace(invocation_metadata=headers))
    assert (handler is not None) == refused
    if handler is not None:
        context = Context()
        with pytest.raises(Aborted):
            await handler.stream_stream(nothing(), context)
        why = "the headers are too many or too large"
        assert context.ended == (grpc.StatusCode.RESOURCE_EXHAUSTED, why)


async def test_strangers_are_refused_at_a_pace() -> None:
    """Ten refusals of one connection take half a second."""
    gate = Gate()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(None, stranger, gate=gate))
    clock = asyncio.get_running_loop().time
    began = clock()
    contexts = [Context() for _ in range(10)]
    await asyncio.gather(
        *(ask(handler, REQUEST, context) for context in contexts), return_exceptions=True
    )
    assert {context.ended and context.ended[0].name for context in contexts} == {"UNAUTHENTICATED"}
    assert clock() - began >= 0.4


async def test_reflection_is_for_those_who_may_call() -> None:
    details = SimpleNamespace(
        method="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    )
    context = Context()
    found = reflection_handlers(Pipeline(authenticate=stranger)).service(details)
    with pytest.raises(Aborted):
        await found.stream_stream(nothing(), context)
    assert context.ended is not None and context.ended[0] is grpc.StatusCode.UNAUTHENTICATED
    assert context.written == []


async def test_of_a_stranger_nothing_is_read() -> None:
    class Unread(Context):
        async def read(self) -> bytes:
            raise AssertionError("it was read")

    context = Unread()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline(None, stranger))
    with pytest.raises(Aborted):
        await ask(handler, REQUEST, context)
    assert context.ended is not None and context.ended[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_a_call_without_a_request_is_refused() -> None:
    context = Context()
    handler = unary("Get", GetRequest.FromString, answered, Pipeline())
    with pytest.raises(Aborted):
        await ask(handler, grpc.aio.EOF, context)
    assert context.ended == (grpc.StatusCode.INVALID_ARGUMENT, "the request is missing")


@pytest.mark.looptime
async def test_a_request_that_does_not_come_is_given_up_also_where_no_flow_limits_it() -> None:
    """Health checks have no flow: everyone may make them."""

    class Silent(Context):
        async def read(self) -> bytes:
            await asyncio.Event().wait()
            return b""

    context = Silent()
    handler = unary("Check", GetRequest.FromString, answered, Pipeline())
    with pytest.raises(Aborted):
        async with asyncio.timeout(2 * READ_SECONDS):
            await ask(handler, b"", context)
    why = f"the request has not come within {READ_SECONDS:g} s"
    assert context.ended == (grpc.StatusCode.INVALID_ARGUMENT, why)


async def echoed(requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield b""
    async for request in requests:
        yield request


async def silent() -> AsyncGenerator[bytes, None]:
    await asyncio.Event().wait()
    yield b""


async def test_a_client_has_only_so_many_streams_that_it_may_send_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each, a large request may be half in the memory of the server."""
    monkeypatch.setattr(usage, "MAX_UPLOADS", 2, raising=False)
    pipeline = Pipeline(authenticate=lambda _: ALICE, gate=Gate())
    handler = bidirectional("Get", echoed, pipeline).stream_stream
    contexts = [Context() for _ in range(2)]
    streams = [asyncio.ensure_future(handler(silent(), context)) for context in contexts]
    await eventually("two are open", lambda: [each.written for each in contexts], [[b""]] * 2)
    further = Context()
    with pytest.raises(Aborted):
        async with asyncio.timeout(PATIENCE):
            await handler(silent(), further)
    assert further.ended is not None and "2 streams of requests open" in further.ended[1]
    streams[0].cancel()
    await asyncio.gather(streams[0], return_exceptions=True)
    with pytest.raises(Aborted):
        await ask(bidirectional("Get", none_then_refused, pipeline), b"", again := Context())
    assert again.ended is not None and again.ended[0] is grpc.StatusCode.OUT_OF_RANGE
    streams[1].cancel()
    await asyncio.gather(streams[1], return_exceptions=True)


class Large:
    """Stands for a large request; unlike bytes, it can be watched as it goes."""

    def __len__(self) -> int:
        return 1 << 24


def too_large(_: bytes) -> GetRequest:
    raise errors.too_large("the request is too large")


@pytest.mark.parametrize(
    "handler",
    [
        unary("Get", GetRequest.FromString, refused, Pipeline()),
        streaming("Get", GetRequest.FromString, two_then_refused, Pipeline()),
        bidirectional("Get", none_then_refused, Pipeline()),
        unknown(Pipeline()).service(None),
        oversized(Pipeline()).service(SimpleNamespace(invocation_metadata=[("", "")] * 1000)),
    ],
    ids=["unary", "streaming", "bidirectional", "unknown", "oversized"],
)
async def test_a_call_that_failed_leaves_nothing_to_the_cyclic_collector(handler: Any) -> None:
    context: Any = Context()
    context.request = REQUEST
    gone = weakref.ref(context)
    call = handler.stream_unary or handler.stream_stream
    gc.disable()
    try:
        with pytest.raises(Aborted):
            await call(nothing(), context)
        del context
        assert gone() is None
    finally:
        gc.enable()


async def test_a_refused_request_is_freed_at_once() -> None:
    """Not when garbage is collected: fifty of 3 MiB would stay until then."""
    context: Any = Context()
    context.request = Large()
    gone = weakref.ref(context.request)
    handler = unary("Get", too_large, answered, Pipeline(Calls(), gate=Gate()))
    gc.disable()
    try:
        with pytest.raises(Aborted) as refused:
            await handler.stream_unary(nothing(), context)
        context.request = b""
        assert refused.value is not None  # as gRPC holds it for a while
        assert gone() is None
    finally:
        gc.enable()
