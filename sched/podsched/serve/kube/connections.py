"""Sends HTTP/1.1 requests over pooled connections, with one request at a time on each.

It does only what requests to a kube-apiserver need: no redirects, cookies or compression, and the
whole answer in memory. httptools, the parser of uvicorn, parses the answers in C.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

import httptools

from podsched.serve.client.errors import Unavailable

#: Seconds after which an unused connection is not used again: less than servers keep it open.
_KEPT: Final = 60.0
#: Max MiB of an answer: a page of a list has 500 objects, of which etcd permits 1.5 MiB each but
#: the largest known, full ResourceSlices, have less than 0.5.
_MAX_ANSWER: Final = 256


class Answer(NamedTuple):
    """An answer to a request; names of headers are written as in Retry-After."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BrokenConnectionError(Exception):
    """The connection broke before the answer was whole, so the outcome is unknown."""


class Connections:
    """Connections to one server; ``close`` them after use."""

    def __init__(self, host: str, port: int, server_hostname: str, connect_timeout: float) -> None:
        """server_hostname: the name in the server's certificate, "" if it is the host's."""
        self._host = host
        self._port = port
        self._server_hostname = server_hostname or host
        self._connect_timeout = connect_timeout
        self._idle: list[_Connection] = []

    async def exchange(
        self, request: bytes, tls: ssl.SSLContext | None, before: Callable[[], None] | None = None
    ) -> Answer:
        """Send a request and return its answer; ``before`` is called right before, and may raise.

        Raises Unavailable if nothing was sent, BrokenConnectionError if the request may have been
        executed. The connection of a cancelled call is closed.
        """
        connection = self._kept(tls) or await self._connect(tls)
        try:
            if before is not None:
                # Not before the wait for room or for a connection: then 130 to 141 bindings of a
                # busy leader came after its lease was taken, the last after 1.6 s, now 44 to 64.
                before()
            answer = await connection.exchange(request)
        except BaseException:
            connection.abort()
            # The idle ones may be dead, too: if the server's machine is gone, or its address has
            # moved to another, that shows only when they are used.
            self.close()
            raise
        if connection.is_reusable:
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    def close(self) -> None:
        """Close the unused connections."""
        while self._idle:
            self._idle.pop().abort()

    def _kept(self, tls: ssl.SSLContext | None) -> _Connection | None:
        """Return the connection that was used last, of those that can be used again."""
        oldest = asyncio.get_running_loop().time() - _KEPT
        while self._idle:
            connection = self._idle.pop()
            # Changed certificates come in another context, and must be used from the next request
            # on.
            if connection.is_reusable and connection.tls is tls and connection.used_at > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, tls: ssl.SSLContext | None) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(tls),
                    self._host,
                    self._port,
                    ssl=tls,
                    server_hostname=self._server_hostname if tls else None,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError as error:
            raise Unavailable("the server did not accept the connection in time") from error
        except OSError as error:  # SSLError is one
            raise Unavailable(f"cannot connect to {self._host}:{self._port}: {error}") from error
        return connection


class _Connection(asyncio.Protocol):
    """A connection, with one request at a time."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.used_at = 0.0
        self.is_reusable = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answers = _Answers(self._finish)
        self._answered: asyncio.Future[Answer] | None = None
        #: Bytes of the answer so far.
        self._received = 0

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and return its answer. Raises BrokenConnectionError."""
        assert self._transport is not None
        self._answered = self._loop.create_future()
        self._received = 0
        self.is_reusable = False
        self._transport.write(request)
        return await self._answered

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answered is None:  # nothing was asked
            self.abort()
            return
        self._received += len(data)
        if self._received > _MAX_ANSWER << 20:
            self._fail(f"the answer has more than {_MAX_ANSWER} MiB")
            self.abort()
            return
        try:
            self._answers.feed(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable = False
        if exc is None:
            self._answers.end()
        self._fail(str(exc or "the server closed it"))

    def _finish(self, answer: Answer, is_reusable: bool) -> None:
        answered, self._answered = self._answered, None
        # Without a request, it is a second answer to the last one.
        self.is_reusable = is_reusable and answered is not None
        if answered is not None and not answered.done():
            self.used_at = self._loop.time()
            answered.set_result(answer)

    def _fail(self, reason: str) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(BrokenConnectionError(reason))
        self._answered = None


class _Answers:
    """Reads the answers on a connection; ``on_...`` are the callbacks of the parser."""

    def __init__(self, whole: Callable[[Answer, bool], None]) -> None:
        """whole: called with each answer, and whether the connection can be used again."""
        self._whole = whole
        self._parser = httptools.HttpResponseParser(self)
        self.feed: Callable[[bytes], None] = self._parser.feed_data
        """Reads some bytes. Raises HttpParserError."""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        #: Whether an answer without a length has begun, whose body ends with the connection.
        self._ends_with_connection = False

    def end(self) -> None:
        """End an answer without a length: the server has closed the connection."""
        if self._ends_with_connection:
            self._whole(self._answer(), False)

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []
        self._ends_with_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        has_length = "Content-Length" in self._headers or "Transfer-Encoding" in self._headers
        self._ends_with_connection = not has_length

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._ends_with_connection = False
        if self._parser.get_status_code() >= 200:  # the others announce the answer
            self._whole(self._answer(), self._parser.should_keep_alive())

    def _answer(self) -> Answer:
        return Answer(self._parser.get_status_code(), self._headers, b"".join(self._body))


def encode(method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a request's bytes. Raises ValueError for a line break in its target or a header."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    head = "\r\n".join((*lines, f"Content-Length: {len(body)}"))
    if head.count("\n") != len(lines) or head.count("\r") != len(lines):
        raise ValueError("a line break in a request's target or in one of its headers")
    return head.encode() + b"\r\n\r\n" + body
