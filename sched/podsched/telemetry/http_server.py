"""Serve an aiohttp application at an address, over TLS if there are certificates."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger

from podsched.lib.groups import Groups
from podsched.lib.listening import Connection, Listener
from podsched.lib.network import reachable_host
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.telemetry.http_protocol import protocols
from podsched.telemetry.logs import Logger, keeps_certificates

#: Connections at once.
MAX_CONNECTIONS: Final = 500
#: Seconds without a request after which a connection is closed: longer than scrapes are apart.
_IDLE_SECONDS: Final = 75.0
#: Seconds of the event loop that a small request takes, the share of the loop for requests, and
#: seconds that may be taken in advance.
_REQUEST_SECONDS: Final = 0.25e-3
_SHARE: Final = 0.25
_ADVANCE: Final = 0.02


def _is_of_server(record: logging.LogRecord) -> bool:
    """Return whether a record is not about a malformed request or a client that has gone.

    Clients, strangers among them, could cause those at any rate, each with a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (HttpProcessingError, ConnectionError))


server_logger.addFilter(_is_of_server)


class RequestTurns:
    """Spaces the requests of a server, in turn by client address, at most 1,000 a second.

    Otherwise 500 connections of strangers, each with a request, would hold up everything else in
    the process for 0.1 s again and again: a leader could not renew its lock.
    """

    def __init__(self) -> None:
        #: By address, in the order of the next turns.
        self._waiting = Groups[str, asyncio.Future[None], None]()
        self._timer: asyncio.Handle | None = None
        #: When the turns taken so far are paid for.
        self._paid = -math.inf

    async def take(self, connection: Connection) -> None:
        """Wait for a turn. Raises CancelledError if the connection is lost meanwhile."""
        loop = asyncio.get_running_loop()
        if self._timer is None and self._paid - _ADVANCE <= loop.time():
            self._pay(loop)
            # Others in this round of the loop wait, as requests may take longer than is paid for:
            # 200 of the page's for a node came in one round, which took 0.4 s.
            self._timer = loop.call_soon(self._next, loop)
            return
        turn, address = loop.create_future(), connection.address
        self._waiting.put(address, turn, None)
        self._plan(loop)
        connection.on_lost = turn.cancel
        try:
            await turn
        finally:
            connection.on_lost = None
            self._waiting.drop(address, turn)

    def _pay(self, loop: asyncio.AbstractEventLoop) -> None:
        self._paid = max(self._paid, loop.time()) + _REQUEST_SECONDS / _SHARE

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and self._waiting:
            self._timer = loop.call_at(self._paid - _ADVANCE, self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if not self._waiting:
            return
        turn = self._waiting.next_in_turn()
        if not turn.done():
            turn.set_result(None)
            self._pay(loop)
        self._plan(loop)


def connection_of(request: web.BaseRequest) -> Connection:
    """Return a request's connection. Raises ConnectionResetError if it is already lost."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    connection = transport.get_protocol()
    assert isinstance(connection, Connection)
    return connection


def address_of(request: web.BaseRequest) -> str:
    """Return the client's address, "" for one without."""
    return str((request.get_extra_info("peername") or ("",))[0])


def peer_of(request: web.BaseRequest) -> str:
    """Return the client's address in gRPC's form, such as "ipv4:127.0.0.1:40000"."""
    address = request.get_extra_info("peername") or ("", 0)
    host, port = address[0], address[1]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def certificate_of(request: web.BaseRequest) -> bytes:
    """Return the client's certificate in PEM, which the handshake has verified; b"" if none."""
    tls = request.get_extra_info("ssl_object")
    found = tls.getpeercert(binary_form=True) if tls is not None else None
    return ssl.DER_cert_to_PEM_cert(found).encode() if found else b""


class HttpServerError(Exception):
    """The server cannot listen on the host and port that the user chose."""


class HttpServer:
    """A running server, listening on ``host`` and ``port``."""

    def __init__(self, runner: web.AppRunner, listener: Listener, host: str, scheme: str) -> None:
        self._runner = runner
        self._listener = listener
        self._scheme = scheme
        self.host = host
        self.port = listener.port

    @property
    def url(self) -> str:
        """The address without a path, such as "http://127.0.0.1:10259", or a Unix socket's."""
        if self.host.startswith("/"):
            return f"unix:{self.host}"
        host = reachable_host(self.host)
        host = f"[{host}]" if ":" in host else host
        return f"{self._scheme}://{host}:{self.port}"

    async def stop(self) -> None:
        """Stop listening and close all connections; requests in progress get their time."""
        self._listener.close()
        await self._runner.cleanup()


async def serve_application(
    app: web.Application,
    host: str,
    port: int,
    tls: TlsFiles | None,
    log: Logger,
    *,
    what: str,
    shutdown_seconds: float,
    cancel_handlers: bool = False,
) -> HttpServer:
    """Serve ``app``; port 0 picks a free port.

    ``what`` is the server's name in errors. ``shutdown_seconds``: how long requests in progress may
    take when it stops. ``cancel_handlers``: whether the handler of a request is cancelled if its
    client disconnects.

    Raises ``HttpServerError`` if the address cannot be used, ``CertificateError`` if the
    certificates cannot.
    """
    context = ServingContext(tls, keeps_certificates(log)).context if tls else None
    runner = web.AppRunner(
        app, shutdown_timeout=shutdown_seconds, handler_cancellation=cancel_handlers
    )
    await runner.setup()
    server = runner.server
    assert server is not None
    server.request_handler = in_turns(server.request_handler)
    # Nothing here reads bodies, and unfolding those that are compressed would block the event loop:
    # ten of 1 MB, 1 GB each unfolded, blocked it for half a minute.
    options = {"access_log": None, "auto_decompress": False, "lingering_time": 0.0}
    listener = Listener(protocols(server, options), MAX_CONNECTIONS, context, _IDLE_SECONDS)
    try:
        await listener.start(host, port)
    except OSError as error:
        await runner.cleanup()
        reason = error.strerror or str(error)
        raise HttpServerError(f"cannot serve {what} on {host}:{port}: {reason}") from error
    return HttpServer(runner, listener, host, "https" if tls else "http")


def in_turns(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return a handler that waits for a turn; then the connection is in use."""
    turns = RequestTurns()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(request)
        # Not in use meanwhile, so that it gives way to new connections.
        await turns.take(connection)
        with connection.in_use():
            return await handler(request)

    return handle
