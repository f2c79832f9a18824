"""Listeners of a bounded number of connections, on sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podsched.lib import listening
from podsched.lib.listening import Connection, Listener, connection_limit, raise_file_limit
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from support.certificates import make_certificates
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration


class Shout(asyncio.Protocol):
    """Says again what it hears: a whole request, half of one, or with "x" one that lasts.

    Asked "limit?", it says how many bytes may wait to be sent.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.requests = contextlib.ExitStack()

    def data_received(self, data: bytes) -> None:
        connection = self.transport.get_protocol()
        assert isinstance(connection, Connection)
        if data == b"limit?":
            data = b"%d" % self.transport.get_write_buffer_limits()[1]
        if data == b"x":
            self.requests.enter_context(connection.in_use())
        elif data != b"half":
            self.requests.close()
            with connection.in_use():
                self.transport.write(data.upper())
                return
        self.transport.write(data.upper())


@contextlib.asynccontextmanager
async def listener_of(
    most: int, tls: ssl.SSLContext | None = None, idle_seconds: float = 60.0
) -> AsyncIterator[Listener]:
    """A listener; half of ``most`` connections may be this test's, which has one address."""
    listener = Listener(Shout, most, tls, idle_seconds)
    await listener.start("127.0.0.1", 0)
    try:
        yield listener
    finally:
        listener.close()


async def answer(
    listener: Listener, tls: ssl.SSLContext | None = None, saying: bytes = b"hello"
) -> bytes:
    """What an ordinary client gets, b"" if it is refused."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=tls)
        writer.write(saying)
        return await reader.read(10)
    except OSError:
        return b""
    finally:
        if writer is not None:
            writer.close()


@contextlib.contextmanager
def sockets(
    listener: Listener, count: int, saying: bytes = b"", *, addresses: int = 1
) -> Iterator[list[socket.socket]]:
    """Connections of addresses in turn, the first of which is that of ``answer``."""
    there = ("127.0.0.1", listener.port)
    opened = [
        socket.create_connection(there, source_address=(f"127.0.0.{1 + number % addresses}", 0))
        for number in range(count)
    ]
    try:
        for each in opened:
            each.sendall(saying)
        yield opened
    finally:
        for each in opened:
            each.close()


async def test_silent_connections_give_way_to_one_that_comes() -> None:
    async with listener_of(20) as listener:
        with sockets(listener, 50):
            await eventually("as many are open as may be", lambda: len(listener.silent) == 10)
            assert await answer(listener) == b"HELLO"


async def test_connections_in_use_stay_and_those_beyond_the_bound_are_refused() -> None:
    async with listener_of(20) as listener:
        with sockets(listener, 10, b"x") as used:
            assert {await asyncio.to_thread(each.recv, 1) for each in used} == {b"X"}
            assert await answer(listener) == b""
            used[0].sendall(b"y")
            assert await asyncio.to_thread(used[0].recv, 1) == b"Y"
        await eventually("there is room again", lambda: answer(listener), b"HELLO")


async def test_of_those_without_a_request_the_one_that_has_waited_for_longest_gives_way() -> None:
    async with listener_of(4) as listener:
        with sockets(listener, 2, b"hello") as [first, second]:
            assert await asyncio.to_thread(first.recv, 5) == b"HELLO"
            assert await asyncio.to_thread(second.recv, 5) == b"HELLO"
            first.sendall(b"again")
            assert await asyncio.to_thread(first.recv, 5) == b"AGAIN"
            assert await answer(listener) == b"HELLO"
            first.sendall(b"still")
            assert await asyncio.to_thread(first.recv, 5) == b"STILL"
            assert await asyncio.to_thread(_is_reset, second)


async def test_one_without_any_request_gives_way_before_those_that_have_made_one() -> None:
    async with listener_of(4) as listener:
        with sockets(listener, 1, b"hello") as [idle], sockets(listener, 1) as [silent]:
            assert await asyncio.to_thread(idle.recv, 5) == b"HELLO"
            await eventually("both have come", lambda: listener.open == 2)
            assert await answer(listener) == b"HELLO"
            assert await asyncio.to_thread(_is_reset, silent)
            idle.sendall(b"still")
            assert await asyncio.to_thread(idle.recv, 5) == b"STILL"


async def test_an_address_that_has_its_half_takes_the_place_of_none_of_another() -> None:
    async with listener_of(4) as listener:
        with socket.create_connection(
            ("127.0.0.1", listener.port), timeout=PATIENCE, source_address=("127.0.0.2", 0)
        ) as other:
            other.sendall(b"hello")
            assert await asyncio.to_thread(other.recv, 5) == b"HELLO"
            with sockets(listener, 2, b"hello") as own:
                assert {await asyncio.to_thread(each.recv, 5) for each in own} == {b"HELLO"}
                assert await answer(listener) == b"HELLO"
            other.sendall(b"still")
            assert await asyncio.to_thread(other.recv, 5) == b"STILL"


async def test_all_addresses_together_have_no_more_than_the_bound() -> None:
    async with listener_of(4) as listener:
        with sockets(listener, 4, b"x", addresses=2) as used:
            assert {await asyncio.to_thread(each.recv, 1) for each in used} == {b"X"}
            there = ("127.0.0.1", listener.port)
            with socket.create_connection(there, source_address=("127.0.0.3", 0)) as another:
                assert await asyncio.to_thread(_is_reset, another)


def _is_reset(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


async def test_what_is_not_asked_for_anything_any_more_is_closed() -> None:
    async with listener_of(20, idle_seconds=0.05) as listener:
        with sockets(listener, 1, b"hello") as [idle]:
            assert await asyncio.to_thread(idle.recv, 5) == b"HELLO"
            assert await asyncio.to_thread(_is_reset, idle)
            assert listener.open == 0


async def test_a_request_that_stops_half_way_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 1.0)
    async with listener_of(20) as listener:
        with sockets(listener, 1, b"hello") as [slow]:
            assert await asyncio.to_thread(slow.recv, 5) == b"HELLO"
            slow.sendall(b"half")
            assert await asyncio.to_thread(slow.recv, 5) == b"HALF"
            assert await asyncio.to_thread(_is_reset, slow)


async def test_half_of_everything_is_for_other_addresses() -> None:
    async with listener_of(4) as listener:
        with sockets(listener, 2, b"x") as used:
            assert {await asyncio.to_thread(each.recv, 1) for each in used} == {b"X"}
            assert await answer(listener) == b""
            with socket.create_connection(
                ("127.0.0.1", listener.port), timeout=PATIENCE, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(b"hello")
                assert await asyncio.to_thread(other.recv, 5) == b"HELLO"


@pytest.mark.parametrize(("addresses", "left"), [(1, 4), (4, 8)])
async def test_few_are_silent_at_a_time_and_half_of_them_of_one_address(
    monkeypatch: pytest.MonkeyPatch, addresses: int, left: int
) -> None:
    monkeypatch.setattr(listening, "_MAX_SILENT", 8)
    async with listener_of(100) as listener:
        with sockets(listener, 20, addresses=addresses) as opened:
            for gone in opened[: 20 - left]:
                assert await asyncio.to_thread(_is_reset, gone)
            assert len(listener.silent) == listener.open == left


async def test_one_that_is_silent_does_not_give_way_to_many_of_other_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "_MAX_SILENT", 8)
    async with listener_of(100) as listener:
        there = ("127.0.0.1", listener.port)
        with (
            socket.create_connection(there, source_address=("127.0.0.9", 0)) as ordinary,
            sockets(listener, 20, addresses=4),
        ):
            await eventually("all have come", lambda: len(listener.silent) == 8)
            ordinary.sendall(b"hello")
            assert await asyncio.to_thread(ordinary.recv, 5) == b"HELLO"


async def test_silent_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 1.0)
    async with listener_of(20) as listener:
        with sockets(listener, 5):
            await eventually("they have come", lambda: len(listener.silent) == 5)
            await eventually("they are closed", lambda: not listener.silent)
        assert await answer(listener) == b"HELLO"


async def test_handshakes_that_never_end_give_way_and_are_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    files = TlsFiles("", str(made.cert), str(made.key))
    client = ssl.create_default_context(cafile=str(made.ca))
    async with listener_of(20, ServingContext(files, pytest.fail).context) as listener:
        with sockets(listener, 50, b"\x16\x03\x01"):
            await eventually("as many are open as may be", lambda: len(listener.silent) == 10)
            assert await answer(listener, client) == b"HELLO"
        with sockets(listener, 5, b"\x16\x03\x01"):
            with monkeypatch.context() as hasty:
                hasty.setattr(listening, "REQUEST_SECONDS", 0.05)
                hasty.setattr("asyncio.constants.SSL_HANDSHAKE_TIMEOUT", 3600.0)
                await eventually("they are closed", lambda: not listener.silent)
            assert await answer(listener, client) == b"HELLO"


async def test_a_listener_that_greets_does_not_wait_for_a_request() -> None:
    class Greeting(Shout):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"welcome")

    listener = Listener(Greeting, 20, None, 60.0, greets=True)
    await listener.start("127.0.0.1", 0)
    with sockets(listener, 1) as [client]:
        assert await asyncio.to_thread(client.recv, 10) == b"welcome"
    listener.close()


async def test_little_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    files = TlsFiles("", str(made.cert), str(made.key))
    client = ssl.create_default_context(cafile=str(made.ca))
    async with listener_of(20, ServingContext(files, pytest.fail).context) as listener:
        assert await answer(listener, client, b"limit?") == b"65536"


async def test_closing_ends_connections_that_are_silent() -> None:
    async with listener_of(20) as listener:
        with sockets(listener, 1) as [silent]:
            await eventually("it has come", lambda: len(listener.silent) == 1)
            listener.close()
            silent.settimeout(PATIENCE)
            reading = asyncio.to_thread(silent.recv, 1)
            with contextlib.suppress(ConnectionResetError):
                assert await reading == b""


def test_a_listener_has_a_share_of_the_files_and_the_process_all_that_it_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [(800, 4000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.append(wanted))
    assert connection_limit(2000) == 100
    raise_file_limit()
    assert limits[-1] == (4000, 4000)
    assert connection_limit(2000) == 500
    assert connection_limit(300) == 300


class Wire(asyncio.Transport):
    """A transport without a socket, which notes when it is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted_at: float | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.aborted_at = asyncio.get_running_loop().time()


def connected(idle_seconds: float) -> tuple[Connection, Wire]:
    """A connection that has just been accepted."""
    connection, wire = Connection(Listener(Shout, 10, None, idle_seconds)), Wire()
    wire.set_protocol(connection)
    connection.connection_made(wire)
    return connection, wire


@pytest.mark.looptime
@pytest.mark.parametrize("idle_seconds", [3.0, 10.0, 60.0])
@pytest.mark.parametrize("requests", [1, 5])
async def test_a_connection_is_closed_once_it_has_been_idle_for_its_time(
    idle_seconds: float, requests: int
) -> None:
    connection, wire = connected(idle_seconds)
    for _ in range(requests):
        await asyncio.sleep(2)
        connection.data_received(b"hello")
    await asyncio.sleep(200)
    assert wire.aborted_at == pytest.approx(2 * requests + idle_seconds)


@pytest.mark.looptime
async def test_half_a_request_has_its_time_from_its_first_bytes_on() -> None:
    connection, wire = connected(60.0)
    connection.data_received(b"hello")
    await asyncio.sleep(25)
    for _ in range(5):
        connection.data_received(b"half")
        await asyncio.sleep(2)
    await asyncio.sleep(200)
    assert wire.aborted_at == pytest.approx(25 + listening.REQUEST_SECONDS)


@pytest.mark.looptime
async def test_a_request_may_be_worked_on_for_any_time() -> None:
    connection, wire = connected(3.0)
    connection.data_received(b"x")
    await asyncio.sleep(500)
    assert wire.aborted_at is None
    connection.data_received(b"y")
