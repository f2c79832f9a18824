"""Adapts aiohttp: converts its requests for ``handling``, and sends the answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final
from urllib.parse import parse_qs, unquote

from aiohttp import ClientError, HttpVersion11, web

from podsched.lib.listening import Connection
from podsched.lib.network import is_loopback
from podsched.serve.server import errors
from podsched.serve.server.call_warnings import KEY as WARNING
from podsched.serve.server.call_warnings import header
from podsched.serve.server.errors import ApiError
from podsched.serve.server.kubelets.relay import Stream, relay
from podsched.serve.server.pipeline import Call
from podsched.serve.server.rest.failures import RestError, bad_request, failure
from podsched.serve.server.rest.handling import Handler
from podsched.serve.server.rest.messages import MAX_BODY_BYTES, Answer, Request, Upgrade
from podsched.telemetry.http_protocol import FramingError, Protocol
from podsched.telemetry.http_server import address_of, certificate_of, connection_of, peer_of

#: Seconds that a client may leave a piece of an answer unread; the same as for gRPC.
UNREAD_SECONDS: Final = 30.0
#: Seconds for which a body that nobody needs is read, and how much of it.
_DRAIN_SECONDS: Final = 1.0
_DRAIN_BYTES: Final = 1 << 20
#: Bytes written at a time.
_PIECE: Final = 64 << 10

_Headers = list[tuple[str, str]]


class RestApp:
    """Answers HTTP requests; many run concurrently."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        connection = connection_of(request)
        exchange = _Exchange(request, connection)
        try:
            with connection.in_use():
                await self._handler.handle(_request(request, exchange.body), exchange.send)
        except ApiError as error:
            # The seat is already released: a refused client that reads or sends slowly must not
            # hold one. Nor must it hold its body.
            _let_go(error)
            await exchange.fail(error)
        await exchange.drain()
        assert exchange.response is not None
        return exchange.response


class _Exchange:
    """One HTTP request and the response to it.

    It does not keep the ``Request``, which keeps ``body``: in a cycle, both and the connection
    would stay in memory until a garbage collection.
    """

    def __init__(self, asked: web.BaseRequest, connection: Connection) -> None:
        self._asked = asked
        self._connection = connection
        expect = asked.headers.get("Expect", "").lower()
        #: True if the client sends the body only after "100 Continue".
        self._expects_continue = expect == "100-continue" and asked.version >= HttpVersion11
        self._unread_seconds = UNREAD_SECONDS
        #: None until the response has begun.
        self.response: web.StreamResponse | None = None

    async def body(self) -> bytes:
        """Read and return the body. Raises ApiError."""
        asked = self._asked
        parts: list[bytes] = []
        size = 0
        try:
            if self._expects_continue:
                self._expects_continue = False
                await asked.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            async for part in asked.content.iter_any():
                size += len(part)
                if size > MAX_BODY_BYTES:
                    text = f"Request entity too large: limit is {MAX_BODY_BYTES}"
                    raise RestError(413, "RequestEntityTooLarge", text)
                parts.append(part)
        except ConnectionError as error:
            _let_go(error)
            raise _client_disconnected() from None
        except FramingError as error:
            _let_go(error)
            raise bad_request("the chunks of the request's body are too small") from None
        except (web.RequestPayloadError, ClientError) as error:
            _let_go(error)
            raise bad_request("the request's body does not end as its headers say") from None
        return b"".join(parts)

    async def send(self, answer: Answer, call: Call) -> None:
        """Send an answer as part of a call. Raises ApiError when it cannot be sent."""
        body = answer.body
        headers = _headers(answer)
        headers += [(WARNING, header(text)) for text in call.warnings]
        headers.append(("Audit-Id", call.request_id))
        if isinstance(body, bytes):
            await self._whole(answer.status, headers, body)
            return
        if isinstance(body, Upgrade):
            await self._switch(body, call)
            return
        if answer.patient:
            self._unread_seconds = answer.seconds
        response = web.StreamResponse(status=answer.status, headers=headers)
        await self._unread(self._begin(response))
        await self._stream(response, body, answer.seconds, call)
        await self._unread(response.write_eof())

    async def fail(self, error: ApiError) -> None:
        """Answer with an error; if a response has already begun, only end it."""
        if self.response is not None:
            # Its status is sent; only by this does the client notice that the body is incomplete.
            self._connection.abort()
            return
        answer = failure(error)
        assert isinstance(answer.body, bytes)
        with contextlib.suppress(ApiError):
            await self._whole(answer.status, _headers(answer), answer.body)

    async def drain(self) -> None:
        """Read a part of the body if the handler has not: the client may have to send it first.

        If it has more, the connection is closed, so that strangers cannot do much work here.
        """
        content = self._asked.content
        if self._expects_continue or content.is_eof():
            return  # the client sends no body, or all of it has been read
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                most = content.total_bytes + _DRAIN_BYTES
                while not content.is_eof() and content.total_bytes < most:
                    await content.readany()
        except (TimeoutError, ConnectionError, web.RequestPayloadError, ClientError) as error:
            _let_go(error)

    async def _whole(self, status: int, headers: _Headers, body: bytes) -> None:
        if len(body) <= _PIECE or self._asked.method == "HEAD":
            await self._unread(self._small(web.Response(status=status, headers=headers, body=body)))
            return
        headers.append(("Content-Length", str(len(body))))
        response = web.StreamResponse(status=status, headers=headers)
        await self._unread(self._begin(response))
        await self._unread(self._write(response, body))
        await self._unread(response.write_eof())

    async def _small(self, response: web.Response) -> None:
        """Send an answer with its headers in one piece."""
        await self._begin(response)
        await response.write_eof()

    async def _begin(self, response: web.StreamResponse) -> None:
        self.response = response
        if self._expects_continue:
            # The client has not been told to continue. It may send the body or another request
            # next, and the server could not tell which.
            response.force_close()
        await response.prepare(self._asked)

    async def _stream(
        self,
        response: web.StreamResponse,
        body: AsyncGenerator[bytes, None],
        seconds: float,
        call: Call,
    ) -> None:
        """Send a stream until it ends, times out, or the client disconnects.

        It ends only between two pieces: half of an event could not be decoded.
        """
        end = asyncio.get_running_loop().time() + seconds
        async with aclosing(body):
            while (piece := await self._next(body, end)) is not None:
                call.usage.leave_seat()
                if piece:
                    await self._unread(self._write(response, piece))
                    await call.usage.sent(len(piece))

    async def _next(self, body: AsyncGenerator[bytes, None], end: float) -> bytes | None:
        """Return the next piece of a stream, None if there is none until ``end``."""
        if self._connection.is_lost:
            return None
        try:
            async with asyncio.timeout_at(end) as limit:
                self._connection.on_lost = lambda: _expire(limit)
                return await anext(body, None)
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            self._connection.on_lost = None

    async def _switch(self, upgrade: Upgrade, call: Call) -> None:
        """Pass all bytes between the client's connection and another one until one of them ends."""
        self.response = _Switched()
        _protocol_of(self._asked).hand_over()
        reader = asyncio.StreamReader(_PIECE // 2)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = self._connection.take_over(protocol)
        if transport is None:
            upgrade.stream.abort()
            raise _client_disconnected()
        loop = asyncio.get_running_loop()
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        writer.write(upgrade.head)
        await relay(Stream(reader, writer), upgrade.stream, call.usage.sent)

    async def _write(self, response: web.StreamResponse, body: bytes) -> None:
        """Write a body in pieces, each after the client has taken the one before.

        In one piece, TLS would encrypt all of it into a buffer that the connection keeps. Over TLS,
        aiohttp learns only a round of the loop later that the client has gone.
        """
        whole = memoryview(body)
        for start in range(0, len(body), _PIECE):
            if self._connection.is_lost:
                raise ConnectionResetError
            await response.write(whole[start : start + _PIECE])

    async def _unread(self, writing: Awaitable[object]) -> None:
        """Await a write, which may wait for the client. Raises ApiError if that takes too long."""
        try:
            async with asyncio.timeout(seconds := self._unread_seconds):
                await writing
        except TimeoutError:
            # Otherwise the unsent data would stay in memory until the client reads or disconnects.
            self._connection.abort()
            raise errors.expired(f"the client has not read for {seconds:g} s") from None
        except ConnectionError as error:
            _let_go(error)
            raise _client_disconnected() from None


class _Switched(web.StreamResponse):
    """Stands for the answer on a connection that no longer speaks HTTP: sends nothing."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        pass

    async def write_eof(self, data: bytes = b"") -> None:
        pass


def _let_go(error: BaseException | None) -> None:
    """Free the frames that an error passed, which hold the body and may refer to the error.

    aiohttp's reader keeps the error of a request's body, and a frame keeps that of a write. The
    body would stay until a garbage collection, and for ever if many clients go at once: what
    survives in numbers is frozen (``podsched.lib.memory``). 200 broken uploads left 40 MB.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _client_disconnected() -> ApiError:
    return errors.expired("the client has gone")


def _headers(answer: Answer) -> _Headers:
    return [
        ("Content-Type", answer.content_type),
        ("Cache-Control", "no-cache, private"),
        ("X-Content-Type-Options", "nosniff"),
        ("Server", "podsched"),  # in place of aiohttp's name and version
        *answer.headers.items(),
    ]


def _expire(limit: asyncio.Timeout) -> None:
    with contextlib.suppress(RuntimeError):
        limit.reschedule(asyncio.get_running_loop().time())


def _protocol_of(asked: web.BaseRequest) -> Protocol:
    protocol = asked.protocol
    assert isinstance(protocol, Protocol)
    return protocol


def _request(asked: web.BaseRequest, body: Callable[[], Awaitable[bytes]]) -> Request:
    headers: dict[str, str] = {}
    lines = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in asked.raw_headers]
    for name, value in lines:
        headers.setdefault(name.lower(), value)
    target = asked.raw_path.encode("utf-8", "surrogateescape").decode("latin-1")
    if not target.startswith("/"):
        # http://HOST/PATH: meant for proxies, but every server has to take it (RFC 9112, 3.2.2).
        target = f"/{target.partition('://')[2].partition('/')[2]}"
    path, _, query = target.partition("?")
    values = parse_qs(query, keep_blank_values=True)
    return Request(
        method=asked.method,
        path=unquote(path),
        query={name: found[0] for name, found in values.items()},
        headers=headers,
        target=target,
        connection=peer_of(asked),
        certificate=certificate_of(asked),
        receive=body,
        cost=_protocol_of(asked).take_cost,
        values=values,
        header_lines=lines,
        over_loopback=not asked.secure and is_loopback(address_of(asked)),
    )
