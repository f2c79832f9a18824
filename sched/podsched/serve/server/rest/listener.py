"""Listens for the REST API over HTTP/1.1, with TLS if the gRPC port has it.

It uses aiohttp, like the other HTTP ports. HTTP/2 is not offered: in the available servers, a
client that opens streams without reading them uses unbounded memory (docs/security.md), whereas an
unread HTTP/1.1 connection blocks only its own writer. A client authenticates by certificate or
token; the pipeline refuses clients with neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web

from podsched.lib.listening import Listener
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.serve.server.rest.app import RestApp
from podsched.telemetry.http_protocol import Protocol, protocols
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("apiserver")

#: Seconds without a request after which a connection is closed, as in kube-apiserver.
_IDLE_SECONDS: Final = 90.0
#: Max bytes of the request line and of each header: selectors and tokens are long.
_LINE: Final = 16 << 10
#: Max headers of a request.
_HEADERS: Final = 48
#: Half the bytes of a body that may be buffered unread; as for gRPC, see docs/security.md.
_READ_AHEAD: Final = 32 << 10


def rest_server(app: RestApp) -> tuple[web.Server, Callable[[], Protocol]]:
    """Return the server, and what creates a protocol for each connection."""
    # Discards aiohttp's messages about malformed requests, which clients could cause at any rate.
    silent = logging.Logger("aiohttp.server")
    silent.addHandler(logging.NullHandler())
    server = web.Server(app)
    return server, protocols(
        server,
        {
            "access_log": None,
            "logger": silent,
            "max_line_size": _LINE,
            "max_field_size": _LINE,
            "max_headers": _HEADERS,
            "read_bufsize": _READ_AHEAD,
            "auto_decompress": False,
            # ``RestApp`` reads the rest of a body itself, within limits.
            "lingering_time": 0.0,
        },
    )


class KubeListener:
    """Serves the REST API on one address."""

    def __init__(self, app: RestApp, files: TlsFiles | None, most: int) -> None:
        """files: None: no TLS; most: max connections. Raises CertificateError."""
        tls = ServingContext(files, keeps_certificates(_log)).context if files is not None else None
        self._server, make = rest_server(app)
        self.connections = Listener(make, most, tls, _IDLE_SECONDS)
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen. shared: other processes may listen there too. Raises OSError."""
        await self.connections.start(host, port, shared=shared)
        self.port = self.connections.port

    async def stop(self, grace: float) -> None:
        """Stop accepting connections, and close the open ones after ``grace`` seconds."""
        self.connections.close()
        self._server.pre_shutdown()
        await self._server.shutdown(max(grace, 0.01))  # 0 would mean no limit
