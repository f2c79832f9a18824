"""What the HTTP servers do with requests that mean no good."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import types
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web, web_protocol

from podsched.lib.listening import Connection, Listener
from podsched.telemetry.http_protocol import protocols
from podsched.telemetry.http_server import (
    HttpServer,
    RequestTurns,
    in_turns,
    serve_application,
)
from podsched.telemetry.logs import get_logger
from support.kube_client import MemoryTransport

_LONG = b"a" * 100_000
_PARSES = web_protocol.RequestHandler.data_received.__code__


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\nHost: a\r\nX: " + _LONG, b"\x16\x03\x01" + _LONG],
    ids=["a long header", "no HTTP"],
)
async def test_a_malformed_request_leaves_no_cycle(said: bytes) -> None:
    async def unasked(request: web.BaseRequest) -> web.Response:
        raise AssertionError

    server = web.Server(unasked)
    gc.collect()
    gc.disable()
    try:
        connection = Connection(Listener(protocols(server, {}), 1, None, 90.0))
        transport = MemoryTransport(connection)
        connection.connection_made(transport)
        connection.data_received(said)
        await transport.closed.wait()
        assert transport.sent.startswith(b"HTTP/1.0 400 Bad Request")
        frames = [o for o in gc.get_objects() if type(o) is types.FrameType]
        assert [f for f in frames if f.f_code is _PARSES] == []
    finally:
        gc.enable()


async def _gone(_: web.BaseRequest) -> web.Response:
    raise ConnectionResetError


async def _broken(_: web.BaseRequest) -> web.Response:
    raise KeyError


@pytest.mark.parametrize(
    ("handler", "said", "logged"),
    [
        (_gone, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
        (_broken, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 0),
        (_broken, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1),
    ],
    ids=["a client that has gone", "a malformed request", "an error of the server"],
)
async def test_only_errors_of_the_server_are_logged(
    handler: Callable[[web.BaseRequest], Awaitable[web.Response]],
    said: bytes,
    logged: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection = Connection(Listener(protocols(web.Server(handler), {}), 1, None, 90.0))
    transport = MemoryTransport(connection)
    connection.connection_made(transport)
    connection.data_received(said)
    await transport.closed.wait()
    assert len(caplog.records) == logged


def _connection(address: str) -> Connection:
    connection = Connection(Listener(asyncio.Protocol, 1, None, 90.0))
    connection.address = address
    return connection


@pytest.mark.looptime
async def test_a_flood_of_requests_is_spaced_and_another_client_waits_for_two_turns() -> None:
    turns, clock = RequestTurns(), asyncio.get_running_loop().time
    flood = [asyncio.create_task(turns.take(_connection("10.0.0.1"))) for _ in range(520)]
    await asyncio.sleep(0)
    await turns.take(_connection("10.0.0.2"))
    assert clock() < 0.005
    await asyncio.gather(*flood)
    assert 0.49 < clock() < 0.51


@pytest.mark.looptime
async def test_one_request_begins_in_a_round_of_the_loop_as_each_may_take_long() -> None:
    turns, begun, most = RequestTurns(), 0, 0

    async def request() -> None:
        nonlocal begun
        await turns.take(_connection("10.0.0.1"))
        begun += 1

    requests = [asyncio.create_task(request()) for _ in range(15)]
    while begun < len(requests):
        before = begun
        await asyncio.sleep(0)
        most = max(most, begun - before)
    assert most == 1


@pytest.mark.looptime
async def test_requests_of_lost_connections_take_no_turn() -> None:
    turns, clock = RequestTurns(), asyncio.get_running_loop().time
    connections = [_connection("10.0.0.1") for _ in range(520)]
    flood = [asyncio.create_task(turns.take(connection)) for connection in connections]
    await asyncio.sleep(0)
    for connection in connections:
        connection.connection_lost(None)
    await turns.take(_connection("10.0.0.1"))
    assert clock() < 0.005
    assert sum(task.cancelled() for task in flood) >= 490


@pytest.mark.looptime
async def test_a_server_handles_requests_in_turns() -> None:
    async def empty(_: web.BaseRequest) -> web.Response:
        return web.Response()

    server, clock = web.Server(in_turns(empty)), asyncio.get_running_loop().time
    for _ in range(120):
        connection = Connection(Listener(protocols(server, {}), 1, None, 90.0))
        transport = MemoryTransport(connection)
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.0\r\n\r\n")
        await transport.closed.wait()
    assert 0.09 < clock() < 0.11


@pytest.mark.integration
async def test_a_compressed_body_is_not_unfolded() -> None:
    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application()
    app.router.add_post("/", length)
    server = await serve_application(
        app, "127.0.0.1", 0, None, get_logger("test"), what="this", shutdown_seconds=1.0
    )
    body = gzip.compress(bytes(1_000_000))
    headers = {"Content-Encoding": "gzip"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.url, data=body, headers=headers) as answer,
    ):
        assert await answer.text() == str(len(body))
    await server.stop()


@pytest.mark.parametrize(
    ("host", "named"),
    [("0.0.0.0", socket.gethostname()), ("::1", "[::1]"), ("a.example", "a.example")],
)
def test_the_url_of_a_server_at_every_address_has_the_machines_name(host: str, named: str) -> None:
    runner = web.AppRunner(web.Application())
    listener = Listener(asyncio.Protocol, 1, None, 90.0)
    assert HttpServer(runner, listener, host, "https").url == f"https://{named}:0"
