"""The ASGI application: from a connection's events to requests, and from answers to events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import unquote

from podsched.server import errors
from podsched.server.errors import ApiError
from podsched.server.pipeline import Call
from podsched.server.rest.failures import RestError, failure
from podsched.server.rest.handling import Handler
from podsched.server.rest.messages import DRY_RUN, MAX_BODY_BYTES, Answer, Request, query_of

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
SendEvent = Callable[[Event], Awaitable[None]]

#: Seconds that a piece of an answer may stay unread, as gRPC's responses.
UNREAD_SECONDS: Final = 30.0
#: Seconds for a body to come.
BODY_SECONDS: Final = 30.0
#: Characters of a warning, which may quote what the client has sent.
_WARNING_LENGTH: Final = 256
#: What is read of a body beyond the limit, so that its sender gets to see the answer.
_DISCARDED_BYTES: Final = 16 << 20


class RestApp:
    """One request after the other, many at once."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: SendEvent) -> None:
        """Answer one request of ASGI."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        exchange = _Exchange(scope, receive, send)
        try:
            await self._handler.handle(exchange.request, exchange.send)
        except ApiError as error:
            await exchange.fail(error)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: SendEvent) -> None:
        self._receive = receive
        self._send = send
        self._begun = False
        self._read = False
        self.request = _request(scope, self._body)
        self._head = scope["method"] == "HEAD"

    async def _body(self) -> bytes:
        """Return the body. Raises ApiError."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    event = await self._receive()
                    if event["type"] == "http.disconnect":
                        raise errors.expired("the client has gone")
                    size += len(event["body"])
                    if size <= MAX_BODY_BYTES:
                        parts.append(event["body"])
                    elif size > _DISCARDED_BYTES:
                        self._read = True
                        break
                    if not event.get("more_body"):
                        self._read = True
                        break
        except TimeoutError:
            raise RestError(408, "Timeout", "the request's body did not come in time") from None
        if size > MAX_BODY_BYTES:
            text = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            raise RestError(413, "RequestEntityTooLarge", text)
        return b"".join(parts)

    async def send(self, answer: Answer, call: Call) -> None:
        """Send an answer as part of a call."""
        body = answer.body
        headers = self._headers(answer)
        headers.append((b"audit-id", call.request_id.encode()))
        if isinstance(body, bytes):
            headers.append((b"content-length", str(len(body)).encode()))
            await self._begin(answer, headers)
            await self._piece(b"" if self._head else body, more=False)
            return
        await self._begin(answer, headers)
        await self._stream(body, answer.seconds, call)
        await self._piece(b"", more=False)

    async def fail(self, error: ApiError) -> None:
        """Answer with an error, unless an answer has begun already: then it just ends."""
        if self._begun:
            return
        if not self._read and self.request.method not in ("GET", "HEAD"):
            with contextlib.suppress(ApiError):
                await self._body()  # who is still sending would not see the answer
        answer = failure(error)
        assert isinstance(answer.body, bytes)
        headers = self._headers(answer)
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await self._begin(answer, headers)
        await self._piece(answer.body, more=False)

    async def _stream(self, body: AsyncGenerator[bytes, None], seconds: float, call: Call) -> None:
        """Send a stream until it ends, its time is over, or the client has gone."""
        gone = asyncio.ensure_future(self._disconnected())
        try:
            async with asyncio.timeout(seconds) as limit:
                gone.add_done_callback(lambda _: _expire(limit))
                async with aclosing(body):
                    async for piece in body:
                        if piece:
                            await self._piece(piece, more=True)
                            await call.sent(len(piece))
                        else:
                            call.leave_seat()
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            gone.cancel()

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _begin(self, answer: Answer, headers: list[tuple[bytes, bytes]]) -> None:
        self._begun = True
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        async with asyncio.timeout(UNREAD_SECONDS):
            await self._send(start)

    async def _piece(self, body: bytes, *, more: bool) -> None:
        event = {"type": "http.response.body", "body": body, "more_body": more}
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self._send(event)
        except TimeoutError:
            raise errors.expired(f"the client has not read for {UNREAD_SECONDS:g} s") from None

    def _headers(self, answer: Answer) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"content-type", answer.content_type.encode()),
            (b"cache-control", b"no-cache, private"),
            (b"x-content-type-options", b"nosniff"),
        ]
        headers += [
            (name.lower().encode(), value.encode()) for name, value in answer.headers.items()
        ]
        for text in answer.warnings:
            headers.append(
                (b"warning", f'299 - "{_quoted(text[:_WARNING_LENGTH])}"'.encode("ascii"))
            )
        return headers


def _quoted(text: str) -> str:
    """Return a text as a header may quote it: names of unknown fields may hold any character."""
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _expire(limit: asyncio.Timeout) -> None:
    with contextlib.suppress(RuntimeError):
        limit.reschedule(asyncio.get_running_loop().time())


def _request(scope: Mapping[str, Any], body: Callable[[], Awaitable[bytes]]) -> Request:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    raw_path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    path = unquote(raw_path.decode("latin-1"))
    uri = raw_path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    values = query_of(query)
    dry_run = values.get(DRY_RUN, [])
    return Request(
        method=scope["method"],
        path=path,
        query={name: found[0] for name, found in values.items()},
        headers=headers,
        uri=uri[:2000],
        connection=scope["state"]["peer"],
        certificate=scope["state"]["certificate"],
        receive=body,
        dry_run=dry_run,
        contradiction=next((n for n, v in values.items() if n != DRY_RUN and len({*v}) > 1), ""),
    )
