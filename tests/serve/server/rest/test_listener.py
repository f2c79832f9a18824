"""Connections whose clients mean no good, over sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import types
from collections.abc import AsyncIterator

import pytest

from podsched.lib import listening
from podsched.serve.server.fairness.levels import GLOBAL_DEFAULT
from podsched.serve.server.rest import app
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.telemetry.http_protocol import MAX_FRAMING
from podsched.testing.memory_store import MemoryStore
from support.api_objects import pod
from support.api_servers import start_api_server
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration

_MOST = 20
_WATCH = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n"
_HALF = b"GET /livez HTTP/1.1\r\nHost: "


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    store = MemoryStore()
    settings = ServerSettings(kube_listen="127.0.0.1:0", max_connections=_MOST)
    running = await start_api_server(settings, store)
    try:
        yield running
    finally:
        await running.stop(0.1)
        await store.close()


def connected(server: ApiServer, said: bytes = b"") -> socket.socket:
    """A connection whose client takes little at a time."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(PATIENCE)
    made.connect(("127.0.0.1", server.kube_port))
    made.sendall(said)
    return made


async def status(server: ApiServer) -> str:
    """What an ordinary client is answered, "" if it is refused."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.kube_port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    except OSError:
        return ""
    return answer[9:12].decode()


async def polled(server: ApiServer) -> str:
    """What a client is answered that keeps its connection, and closes it then itself."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.kube_port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return ""
    return head[9:12].decode()


async def test_a_connection_that_the_client_has_closed_is_gone(server: ApiServer) -> None:
    assert [await polled(server) for _ in range(3 * _MOST)] == ["200"] * (3 * _MOST)


async def test_half_a_request_keeps_no_client_out_and_does_not_last(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.3)
    opened = [connected(server, _HALF) for _ in range(_MOST)]
    assert await status(server) == "200"
    for each in opened:
        assert await asyncio.to_thread(_end, each) == b""


async def test_a_client_that_does_not_send_its_body_takes_no_seat_from_others(
    server: ApiServer,
) -> None:
    head = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    gate = server.gate
    with connected(server, head):
        await eventually("the call has come", lambda: any(flow.intake for flow in gate.flows))
        assert gate.flows.held(GLOBAL_DEFAULT) == 0


async def test_of_an_unneeded_body_only_a_part_is_read(server: ApiServer) -> None:
    """Chunks of one byte cost so much that a few clients would hold up all others."""
    head = b"GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    opened = connected(server, head)
    assert (await asyncio.to_thread(opened.recv, 12))[9:] == b"200"
    clock = asyncio.get_running_loop().time
    began = clock()
    with opened, pytest.raises(ConnectionError):
        while clock() - began < 8:  # aiohttp would read for 10 s
            await asyncio.to_thread(opened.sendall, b"1\r\na\r\n" * 1000)


async def test_a_body_in_chunks_of_one_byte_is_refused(server: ApiServer) -> None:
    """It would cost the event loop a second for each MB."""
    head = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: a\r\n"
    opened = connected(server, head + b"Transfer-Encoding: chunked\r\n\r\n")
    # Little more than the limit: what is not read when the connection is closed resets it.
    opened.sendall(b"1\r\na\r\n" * (MAX_FRAMING // 5 + 1000))
    answer = await asyncio.to_thread(_end, opened)
    assert answer[9:12] == b"400"
    assert b"chunks of the request's body are too small" in answer


async def test_a_small_unneeded_body_leaves_the_connection_in_use(
    server: ApiServer,
) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"
    with connected(server, head) as opened:
        for _ in range(3):
            assert (await asyncio.to_thread(opened.recv, 2000))[9:12] == b"200"
            opened.sendall(b"abc" + head)


async def test_half_a_request_after_a_whole_one_does_not_last_either(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.3)
    opened = connected(server, b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await asyncio.to_thread(opened.recv, 1)
    opened.sendall(_HALF)
    assert (await asyncio.to_thread(_end, opened)).endswith(b"ok")


def _end(connection: socket.socket) -> bytes:
    """Whatever comes until the connection ends."""
    said = b""
    with connection:
        try:
            while more := connection.recv(1 << 16):
                said += more
        except ConnectionError:
            pass
    return said


async def test_unread_watches_are_ended_and_little_waits_for_their_clients(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "UNREAD_SECONDS", 0.5)
    large = [pod(f"p{number}") for number in range(40)]
    for item in large:
        item.metadata.annotations["padding"] = "x" * 200_000
    await server.core.creator.create_many(large)
    watcher = server.core.watcher
    opened = [connected(server, _WATCH) for _ in range(5)]
    await eventually("they are served", lambda: watcher.watching == 5)
    await eventually("they have ended", lambda: watcher.watching == 0)
    # Of 8 MB: what the kernel holds for both ends, and two pieces that the watch has made.
    for each in opened:
        assert len(await asyncio.to_thread(_end, each)) < 1_000_000


@contextlib.asynccontextmanager
async def _client_that_goes(server: ApiServer, said: bytes) -> AsyncIterator[socket.socket]:
    """A client that goes after the block; then no error keeps frames, which would hold a body."""

    def handled() -> bool:
        return any("RequestHandler" in str(task.get_coro()) for task in asyncio.all_tasks())

    gc.collect()
    gc.disable()
    try:
        with connected(server, said) as client:
            yield client
        await eventually("its request is no longer handled", lambda: not handled())
        frames = [o for o in gc.get_objects() if type(o) is types.FrameType]
        assert [f for f in frames if f.f_code.co_filename == app.__file__] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("asked", ["POST / HTTP/1.1", "GET /api/v1/pods HTTP/1.1"])
async def test_a_connection_that_has_ended_leaves_no_cycle(server: ApiServer, asked: str) -> None:
    def connections() -> list[object]:
        return [o for o in gc.get_objects() if type(o) is listening.Connection]

    gc.collect()
    gc.disable()
    try:
        said = f"{asked}\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        with connected(server, said) as client:
            assert await asyncio.to_thread(client.recv, 1)
        await eventually("nothing keeps the connection", lambda: not connections())
    finally:
        gc.enable()


async def test_what_was_read_of_a_body_is_let_go_when_its_client_goes(server: ApiServer) -> None:
    head = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    flows = server.gate.flows
    async with _client_that_goes(server, head + b"{"):
        await eventually("the call has come", lambda: any(flow.intake for flow in flows))


async def test_an_answer_is_let_go_when_its_client_goes(server: ApiServer) -> None:
    large = [pod(f"p{number}") for number in range(40)]
    for item in large:
        item.metadata.annotations["padding"] = "x" * 200_000
    await server.core.creator.create_many(large)
    async with _client_that_goes(server, b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert await asyncio.to_thread(client.recv, 1)


async def test_streams_of_http_2_are_not_opened(server: ApiServer) -> None:
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    # SETTINGS with an initial window of 0.
    settings = b"\0\0\6\4\0\0\0\0\0" + struct.pack(">HI", 4, 0)
    opened = connected(server, greeting + settings)
    assert b" 400 " in await asyncio.to_thread(_end, opened)


async def test_a_watch_ends_when_its_client_goes(server: ApiServer) -> None:
    opened = connected(server, _WATCH)
    assert await asyncio.to_thread(opened.recv, 1)
    assert server.core.watcher.watching == 1
    opened.close()
    await eventually("it has ended", lambda: server.core.watcher.watching == 0)


async def test_one_address_leaves_room_for_another(server: ApiServer) -> None:
    opened = [connected(server, _WATCH) for _ in range(_MOST)]
    await eventually("half are served", lambda: server.core.watcher.watching == _MOST // 2)
    assert await status(server) == ""
    other = socket.create_connection(
        ("127.0.0.1", server.kube_port), timeout=PATIENCE, source_address=("127.0.0.2", 0)
    )
    other.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert b" 200 " in await asyncio.to_thread(_end, other)
    for each in opened:
        each.close()
