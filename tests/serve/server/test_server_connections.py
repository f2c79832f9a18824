"""Unused connections to an API server, and what others notice of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Unavailable
from podsched.serve.server import server as module
from podsched.serve.server.calls import MAX_HEADERS
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.api_servers import start_api_server
from support.eventually import PATIENCE, eventually

#: Types and a flag of HTTP/2's frames.
_HEADERS, _SETTINGS, _CONTINUATION = 1, 4, 9
_END_HEADERS = 4

pytestmark = pytest.mark.integration

_MOST = 10


@contextlib.contextmanager
def idle(port: int, count: int) -> Iterator[list[socket.socket]]:
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in opened:
        each.setblocking(False)
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


def closed(connections: list[socket.socket]) -> int:
    """How many of the connections the server has closed."""
    return sum(_is_closed(each) for each in connections)


def _is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1000):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


async def test_idle_connections_beyond_the_bound_are_closed_and_the_others_do_not_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 1.0)
    store = MemoryStore()
    server = await start_api_server(ServerSettings(max_connections=_MOST), store)
    client, other = ApiClient(server.address), ApiClient(server.address)
    try:
        await client.list("Node")
        with idle(server.port, 5 * _MOST) as connections:
            most = _MOST - 1  # one is the client's
            await eventually("most are closed", lambda: closed(connections) >= 5 * _MOST - most)
            await client.list("Node")
            await eventually("all are closed", lambda: closed(connections), 5 * _MOST)

        async def is_served() -> bool:
            with contextlib.suppress(Unavailable):
                await other.list("Node")
                return True
            return False

        await eventually("another client is served", is_served)
    finally:
        await client.close()
        await other.close()
        await server.stop(0)
        await store.close()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return head + struct.pack(">I", stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """A header in a frame, uncompressed."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def call_with(others: int) -> bytes:
    """A call with a number of further headers, of a client that acknowledges no settings."""
    own = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/podsched.v1.Objects/Get",
        b":authority": b"localhost",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    first = b"".join(header(*pair) for pair in own.items())
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(_SETTINGS, 0, 0)
        + frame(_HEADERS, 0, 1, first)
        + frame(_CONTINUATION, _END_HEADERS, 1, header(b"a", b"b") * others)
    )


async def test_a_client_that_does_not_acknowledge_the_settings_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 1.0)
    store = MemoryStore()
    server = await start_api_server(ServerSettings(), store)
    try:
        with idle(server.port, 1) as connections:
            connections[0].sendall(call_with(2 * MAX_HEADERS)[:-100])
            await eventually("it is closed", lambda: closed(connections), 1, within=20)
    finally:
        await server.stop(0)
        await store.close()


async def test_a_call_with_more_headers_than_announced_is_refused_before_they_are_read() -> None:
    """gRPC itself accepts 16 MiB of headers of a client that has not acknowledged the limit."""
    store = MemoryStore()
    server = await start_api_server(ServerSettings(), store)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(call_with(2 * MAX_HEADERS))
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"the headers are too many or too large")
    finally:
        writer.close()
        await server.stop(0)
        await store.close()
