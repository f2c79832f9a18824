"""Links that are broken on purpose do what cut cables and slow networks do."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from podsched.lib.network import free_port
from podsched.lib.relay import LinkState, Relay
from podsched.lib.tasks import TaskSet
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration

CUT = LinkState(forward=False, backward=False)
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """A server that sends backward what it gets, behind a relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.got = b""
        self._open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            self.got += data
            writer.write(data)
        writer.close()

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.relay.port)
        self._open.append(writer)
        return reader, writer

    def close(self) -> None:
        for writer in self._open:
            writer.close()


def relay_to(port: int, tasks: TaskSet) -> Relay:
    return Relay(f"127.0.0.1:{port}", tasks, random.Random(7).random)


@asynccontextmanager
async def echo() -> AsyncIterator[Echo]:
    tasks = TaskSet("test")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await running.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    running = Echo(relay_to(server.sockets[0].getsockname()[1], tasks))
    try:
        yield running
    finally:
        running.close()
        running.relay.close()
        await tasks.stop()
        server.close()


async def says(connection: Connection, text: bytes) -> None:
    connection[1].write(text)
    await connection[1].drain()


async def hears(connection: Connection, within: float = PATIENCE) -> bytes:
    """What comes within the seconds; b"" when the connection ends. Raises TimeoutError."""
    async with asyncio.timeout(within):
        return await connection[0].read(100)


async def test_what_is_sent_over_a_cut_link_arrives_once_it_is_mended() -> None:
    async with echo() as server:
        connection = await server.connect()
        await says(connection, b"one")
        assert await hears(connection) == b"one"
        server.relay.link.impair(CUT)
        await says(connection, b"two")
        with pytest.raises(TimeoutError):
            await hears(connection, within=0.2)
        assert server.got == b"one"
        server.relay.link.restore(CUT)
        assert await hears(connection) == b"two"


async def test_a_new_connection_over_a_cut_link_is_neither_refused_nor_answered() -> None:
    async with echo() as server:
        server.relay.link.impair(CUT)
        await asyncio.sleep(0)
        connection = await server.connect()
        await says(connection, b"one")
        with pytest.raises(TimeoutError):
            await hears(connection, within=0.2)
        server.relay.link.restore(CUT)
        assert await hears(connection) == b"one"


async def test_over_a_half_open_link_requests_arrive_and_answers_do_not() -> None:
    async with echo() as server:
        half_open = LinkState(backward=False)
        connection = await server.connect()
        server.relay.link.impair(half_open)
        await says(connection, b"one")
        await eventually("the request arrives", lambda: server.got, b"one")
        with pytest.raises(TimeoutError):
            await hears(connection, within=0.2)
        server.relay.link.restore(half_open)
        assert await hears(connection) == b"one"


async def test_a_link_that_is_broken_twice_stays_broken_until_both_are_mended() -> None:
    async with echo() as server:
        slow = LinkState(delay=0.01)
        connection = await server.connect()
        for state in (CUT, slow):
            server.relay.link.impair(state)
        server.relay.link.restore(slow)
        await says(connection, b"one")
        with pytest.raises(TimeoutError):
            await hears(connection, within=0.2)
        server.relay.link.restore(CUT)
        assert await hears(connection) == b"one"


@pytest.mark.parametrize("state", [LinkState(delay=0.15), LinkState(loss=0.999)])
async def test_a_slow_or_lossy_link_delays_bytes(state: LinkState) -> None:
    async with echo() as server:
        connection = await server.connect()
        server.relay.link.impair(state)
        began = asyncio.get_running_loop().time()
        await says(connection, b"one")
        assert await hears(connection) == b"one"
        assert asyncio.get_running_loop().time() - began >= 0.3


async def test_a_reset_ends_connections_and_new_ones_are_taken() -> None:
    async with echo() as server:
        connection = await server.connect()
        await says(connection, b"one")
        assert await hears(connection) == b"one"
        server.relay.reset()
        with contextlib.suppress(ConnectionError):
            assert await hears(connection) == b""
        again = await server.connect()
        await says(again, b"two")
        assert await hears(again) == b"two"


async def is_refused(relay: Relay) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    except ConnectionError:  # Reset, if the relay stops listening just now.
        return True
    writer.close()
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's shutdown of a listener")
async def test_connections_are_refused_while_the_target_does_not_listen() -> None:
    tasks, port = TaskSet("test"), free_port()
    relay = relay_to(port, tasks)
    try:
        await eventually("the relay refuses", partial(is_refused, relay), True)
        relay.link.impair(CUT)
        await eventually("a cut link refuses nothing", partial(is_refused, relay), False)
        relay.link.restore(CUT)
        await eventually("the relay refuses again", partial(is_refused, relay), True)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
        await eventually("the target listens", partial(is_refused, relay), False)
        server.close()
    finally:
        relay.close()
        await tasks.stop()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(100))
    writer.close()


async def answered(relay: Relay) -> bytes:
    try:
        connection = await asyncio.open_connection("127.0.0.1", relay.port)
        await says(connection, b"hello")
        found = await hears(connection)
        connection[1].close()
    except OSError:
        return b""
    return found


async def test_connections_pass_after_several_were_refused_at_once() -> None:
    tasks, port = TaskSet("test"), free_port()
    relay = relay_to(port, tasks)
    try:
        for _ in range(3):
            await asyncio.gather(*(is_refused(relay) for _ in range(6)))
        server = await asyncio.start_server(answer, "127.0.0.1", port)
        await eventually("bytes pass", partial(answered, relay), b"hello")
        server.close()
    finally:
        relay.close()
        await tasks.stop()
