"""Connections whose bytes cost much to parse, or whose requests have much beside their body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from podsched.lib.listening import REQUEST_SECONDS, Connection, Listener
from podsched.telemetry.http_protocol import (
    MAX_FRAMING,
    PIECE,
    FramingError,
    Protocol,
    ReadingTurns,
)
from podsched.telemetry.http_server import connection_of
from support.kube_client import MemoryTransport

pytestmark = pytest.mark.looptime

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
_CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_UPGRADE = _GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
_LONG_HEADER = b"X: " + b"a" * 5000 + b"\r\n"


class Client(MemoryTransport):
    """A client that keeps what it has to say while the server does not read."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.reading = True
        self._unsent = b""
        self._answered = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        super().write(data)
        self._answered.set()

    def close(self) -> None:
        super().close()
        self._answered.set()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        if self._unsent:
            said, self._unsent = self._unsent, b""
            asyncio.get_running_loop().call_soon(self.say, said)

    def say(self, data: bytes) -> None:
        if self.reading and not self.is_closing():
            self._connection.data_received(data)
        else:
            self._unsent += data

    async def ends(self) -> None:
        """Wait until the server has closed the connection, and not because of its age."""
        async with asyncio.timeout(REQUEST_SECONDS / 2):
            await self.closed.wait()

    @property
    def protocol(self) -> Protocol:
        """The server's side."""
        protocol = self._connection._protocol
        assert isinstance(protocol, Protocol)
        return protocol

    async def answers(self, count: int) -> int:
        """The answers with 200, of ``count`` that must come."""
        while self.sent.count(b"HTTP/1.1 200 ") < count:
            assert not self.is_closing()
            self._answered.clear()
            await self._answered.wait()
        return self.sent.count(b"HTTP/1.1 ")


def _clock(step: float) -> Callable[[], float]:
    """A clock on which the work between two looks has taken ``step`` seconds."""
    now = 0.0

    def look() -> float:
        nonlocal now
        now += step
        return now

    return look


def connected(answer: Answering, turns: ReadingTurns) -> Client:
    server = web.Server(answer)
    options = {"access_log": None, "read_bufsize": 32 << 10, "lingering_time": 0.0}
    listener = Listener(lambda: Protocol(server, turns, options), 9, None, 90.0)
    connection = Connection(listener)
    client = Client(connection)
    connection.connection_made(client)
    return client


async def read(request: web.BaseRequest) -> web.Response:
    """Answer with the length of the body."""
    size = 0
    while part := await request.content.readany():
        size += len(part)
    return web.Response(text=str(size))


def chunks(count: int, size: int) -> bytes:
    return (b"%x\r\n%b\r\n" % (size, b"a" * size)) * count


async def test_bytes_that_cost_much_are_parsed_a_piece_in_a_turn() -> None:
    parsed: list[int] = []

    async def count(request: web.BaseRequest) -> web.Response:
        while not request.content.is_eof():
            parsed.append(len(await request.content.readany()))
        return web.Response()

    client = connected(count, ReadingTurns(_clock(0.001)))
    client.say(_CHUNKED + chunks(10, 4000) + b"0\r\n\r\n")
    assert not client.reading
    began = asyncio.get_running_loop().time()
    await client.answers(1)
    assert (sum(parsed), max(parsed) <= PIECE) == (40_000, True)
    # A millisecond for each piece, at a fifth of the time; it has begun at once.
    assert asyncio.get_running_loop().time() - began > 0.04
    await asyncio.sleep(0.01)
    assert client.reading


async def test_turns_of_several_connections_follow_each_other() -> None:
    turns = ReadingTurns()
    assert [turns.after(0.001, 7.0) for _ in range(3)] == pytest.approx([7.005, 7.01, 7.015])
    assert turns.after(0.001, 9.0) == pytest.approx(9.005)


async def test_no_turn_is_far_away() -> None:
    turns = ReadingTurns()
    assert max(turns.after(0.1, 7.0) for _ in range(99)) == 8.0


async def test_a_connection_with_ordinary_requests_takes_no_turns() -> None:
    turns = ReadingTurns(_clock(0.00005))
    for _ in range(100):
        turns.after(1.0, asyncio.get_running_loop().time())
    client = connected(read, turns)
    for number in range(1, 50):
        client.say(_GET)
        assert client.reading
        assert await client.answers(number) == number
        await asyncio.sleep(0.02)


async def test_what_parsing_has_cost_is_told_once() -> None:
    client = connected(read, ReadingTurns(_clock(0.001)))
    client.say(_CHUNKED + chunks(3, 4000) + b"0\r\n\r\n")
    await client.answers(1)
    assert client.protocol.take_cost() == pytest.approx(0.003)
    assert client.protocol.take_cost() == 0.0


async def test_many_small_pieces_cost_a_connection_its_turn_too() -> None:
    client = connected(read, ReadingTurns(_clock(0.00005)))
    client.say(_CHUNKED)
    for _ in range(5):
        client.say(chunks(1, 1))
    assert not client.reading


@pytest.mark.parametrize("step", [0.0, 0.001], ids=["light", "heavy"])
async def test_a_body_that_is_read_late_comes_whole(step: float) -> None:
    begun = asyncio.Event()

    async def late(request: web.BaseRequest) -> web.Response:
        await begun.wait()
        return await read(request)

    client = connected(late, ReadingTurns(_clock(step)))
    for _ in range(10):
        client.say(b"".join((_CHUNKED, chunks(40, 5000), b"0\r\n\r\n")))
        await asyncio.sleep(0.01)
    assert not client.reading
    begun.set()
    await client.answers(10)
    assert client.sent.count(b"200000") == 10


@pytest.mark.parametrize("whole", [True, False], ids=["at once", "between two chunks"])
async def test_a_body_in_many_chunks_that_is_read_late_ends_and_the_next_one_too(
    whole: bool,
) -> None:
    """aiohttp's parser stops behind 2,048 unread chunks, also if nothing is paused any more."""
    begun = asyncio.Event()

    async def late(request: web.BaseRequest) -> web.Response:
        await begun.wait()
        return await read(request)

    client = connected(late, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + chunks(2049, 10))
    rest = b"0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"
    if whole:
        client.say(rest)
    begun.set()
    await asyncio.sleep(0.1)
    if not whole:
        client.say(chunks(1, 1) + rest)
    async with asyncio.timeout(5):
        await client.answers(2)
    assert (b"20490" if whole else b"20491") in client.sent
    assert client.sent.endswith(b"\r\n5")


async def test_few_requests_are_parsed_before_the_answer_to_the_first() -> None:
    begun = asyncio.Event()
    asked = 0

    async def count(request: web.BaseRequest) -> web.Response:
        nonlocal asked
        asked += 1
        await begun.wait()
        return web.Response()

    client = connected(count, ReadingTurns(_clock(0.0)))
    long = _GET[:-2] + _LONG_HEADER + b"\r\n"
    client.say(long * 50)
    await asyncio.sleep(1)
    assert (asked, len(client.protocol._messages), client.reading) == (1, 1, False)
    begun.set()
    await client.answers(50)
    assert client.reading


async def test_headers_of_a_request_have_a_limit_together() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(_GET[:-2] + _LONG_HEADER * 10 + b"\r\n")
    await client.answers(1)
    client.say(_GET[:-2] + _LONG_HEADER * (MAX_FRAMING // 5000 + 2) + b"\r\n")
    await client.ends()
    assert b"HTTP/1.1 431 " in client.sent


async def test_headers_of_the_first_bytes_have_the_limit_too() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(_GET[:-2] + _LONG_HEADER * 20)
    await client.ends()
    assert client.sent.startswith(b"HTTP/1.1 431 ")


async def test_too_many_headers_after_a_request_end_the_connection_with_its_answer() -> None:
    begun = asyncio.Event()

    async def late(request: web.BaseRequest) -> web.Response:
        await begun.wait()
        return web.Response(text="late")

    client = connected(late, ReadingTurns(_clock(0.0)))
    client.say(_GET)
    await asyncio.sleep(0.1)
    client.say(_GET[:-2] + _LONG_HEADER * 20)
    assert not client.reading
    begun.set()
    await client.ends()
    assert client.sent.startswith(b"HTTP/1.1 200 ") and client.sent.endswith(b"late")


async def test_a_body_in_many_tiny_chunks_is_refused() -> None:
    ended: list[Exception] = []

    async def attempt(request: web.BaseRequest) -> web.Response:
        try:
            return await read(request)
        except FramingError as error:
            ended.append(error)
            return web.Response()

    client = connected(attempt, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + chunks(10_000, 1))
    await asyncio.sleep(1)
    assert not ended
    client.say(chunks(10_000, 1))
    await client.ends()
    assert len(ended) == 1


async def test_a_malformed_chunk_ends_the_body_at_once() -> None:
    ended: list[float] = []

    async def attempt(request: web.BaseRequest) -> web.Response:
        try:
            return await read(request)
        except web.RequestPayloadError:
            ended.append(asyncio.get_running_loop().time())
            return web.Response()

    client = connected(attempt, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + chunks(1, 10))
    await asyncio.sleep(0.1)
    client.say(b"no size\r\n")
    now = asyncio.get_running_loop().time()
    await client.ends()
    assert ended == [pytest.approx(now, abs=0.1)]


async def test_a_request_without_end_ends_soon_after_one_that_cannot_be_parsed() -> None:
    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with connection_of(request).in_use():
            await asyncio.sleep(3600)
        return response

    client = connected(watch, ReadingTurns(_clock(0.001)))
    client.say(_GET)
    await asyncio.sleep(0.1)
    client.say(b"\0\0\r\n\r\n")
    began = asyncio.get_running_loop().time()
    await client.closed.wait()
    assert asyncio.get_running_loop().time() - began < 20


async def test_each_request_has_the_limit_of_what_is_not_body_for_itself() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + chunks(12_000, 5) + b"0\r\n\r\n")
    await client.answers(1)
    client.say(_GET[:-2] + _LONG_HEADER * 2)
    await asyncio.sleep(0.1)
    client.say(b"\r\n")
    await client.answers(2)


async def test_trailers_of_a_body_are_part_of_the_limit() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + b"0\r\n" + _LONG_HEADER * 20)
    await client.ends()
    assert b" 200 " not in client.sent


async def test_a_large_body_in_ordinary_chunks_is_read() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(_CHUNKED + chunks(768, 4096) + b"0\r\n\r\n")
    await client.answers(1)
    assert client.sent.endswith(b"3145728")


@pytest.mark.parametrize("step", [0.0, 0.001], ids=["light", "heavy"])
async def test_a_request_behind_a_declined_upgrade_has_its_own_body_and_limit(step: float) -> None:
    begun = asyncio.Event()

    async def decline(request: web.BaseRequest) -> web.Response:
        await begun.wait()
        return await read(request)

    client = connected(decline, ReadingTurns(_clock(step)))
    client.say(_UPGRADE + _CHUNKED + chunks(50, 5000) + b"0\r\n\r\n" + _GET)
    await asyncio.sleep(1)
    assert not client.reading
    begun.set()
    await client.answers(3)
    assert client.sent.count(b"\r\n250000HTTP/1.1 200 ") == 1


async def test_what_is_behind_a_declined_upgrade_is_parsed_in_turns() -> None:
    client = connected(read, ReadingTurns(_clock(0.001)))
    client.say(_UPGRADE + _CHUNKED + chunks(100, 1))
    await client.answers(1)
    assert client.protocol._unparsed and not client.protocol._messages


async def test_nothing_is_parsed_after_a_malformed_request() -> None:
    client = connected(read, ReadingTurns(_clock(0.0)))
    client.say(b"\0" * 300_000)
    assert len(client.protocol._messages) == 1
    await client.ends()
    assert client.sent.count(b"HTTP/1.0 400 ") == 1


async def test_a_connection_that_waits_for_its_turn_is_handed_over_reading() -> None:
    client = connected(read, ReadingTurns(_clock(0.001)))
    client.say(_CHUNKED + chunks(100, 100))
    assert not client.reading
    client.protocol.hand_over()
    assert client.reading
    client.pause_reading()
    await asyncio.sleep(5)
    assert not client.reading


async def test_a_client_that_goes_before_its_turn_leaves_nothing() -> None:
    client = connected(read, ReadingTurns(_clock(0.001)))
    client.say(_CHUNKED + chunks(100, 100))
    protocol = client.protocol
    assert protocol._turn is not None and protocol._unparsed and protocol._body
    client.close()
    await client.ends()
    assert protocol._turn is None and not protocol._unparsed
    assert protocol._body is None  # it refers to the protocol
