"""The listener: connections of HTTP/1.1 and HTTP/2, with TLS where the gRPC port has it.

Hypercorn speaks the protocols. Its connections are made here, one by one, so that certificates are
read anew when they change and the client's is known to its requests. A client may show a
certificate or bring a token; who brings neither is refused by the pipeline.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from podsched.lib.listening import Listener
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.server.rest.app import RestApp
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

_IDLE_SECONDS: Final = 300.0
_ALPN: Final = ["h2", "http/1.1"]


def _config() -> Config:
    silent = logging.Logger("hypercorn")
    silent.addHandler(logging.NullHandler())
    return Config.from_mapping(
        {
            "keep_alive_timeout": _IDLE_SECONDS,
            "keep_alive_max_requests": 10_000_000,
            "include_server_header": False,
            "h2_max_concurrent_streams": 250,
            "h2_max_inbound_frame_size": 1 << 16,
            "errorlog": silent,
            "accesslog": None,
        }
    )


class KubeListener:
    """One address on which the REST API is served."""

    def __init__(self, app: RestApp, files: TlsFiles | None, most: int) -> None:
        """files: None for no TLS; most: connections at once. Raises CertificateError."""
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]
        self._config = _config()
        tls = ServingContext(files, _keep, alpn=_ALPN).context if files is not None else None
        self._listener = Listener(self._protocol, most, tls)
        self._context = WorkerContext(None)
        self._connections: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen, alone or not. Raises OSError when the address cannot be had."""
        await self._listener.start(host, port, shared=shared)
        self.port = self._listener.port

    def _protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._connected)

    async def stop(self, grace: float) -> None:
        """Take no more connections, and close those that there are after ``grace`` seconds."""
        self._listener.close()
        await self._context.terminated.set()
        if self._connections:
            await asyncio.wait(self._connections, timeout=grace)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=grace)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        state: Any = {"peer": _peer(writer), "certificate": _certificate(writer)}
        loop = asyncio.get_running_loop()
        with contextlib.suppress(asyncio.CancelledError):
            await TCPServer(self._app, loop, self._config, self._context, state, reader, writer)


def _peer(writer: asyncio.StreamWriter) -> str:
    """Return the other end as gRPC names it."""
    address = writer.get_extra_info("peername") or ("", 0)
    host, port = address[0], address[1]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _certificate(writer: asyncio.StreamWriter) -> bytes:
    """Return the client's certificate in PEM, b"" without one; the handshake has verified it."""
    connection = writer.get_extra_info("ssl_object")
    found = connection.getpeercert(binary_form=True) if connection is not None else None
    return ssl.DER_cert_to_PEM_cert(found).encode() if found else b""


def _keep(problem: str) -> None:
    _log.warning("Keeping the certificates in use", error=problem)
