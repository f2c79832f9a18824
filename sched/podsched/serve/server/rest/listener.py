"""The listener: connections of HTTP/1.1, with TLS where the gRPC port has it.

aiohttp speaks the protocol, as on the other ports of HTTP. HTTP/2 is not offered: a client that
opens streams and does not read them costs memory without a bound with the servers that there are
(docs/security.md), whereas a connection of HTTP/1.1 that is not read holds its one writer back. A
client may show a certificate or bring a token; who brings neither is refused by the pipeline.
"""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web

from podsched.lib.listening import Listener
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.serve.server.rest.app import RestApp
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

#: Seconds without a request after which a connection is closed, as kube-apiserver's.
_IDLE_SECONDS: Final = 90.0
#: Bytes of the line that says what is asked for, and of each header: selectors and tokens are long.
_LINE: Final = 16 << 10
#: Headers of a request.
_HEADERS: Final = 48
#: Bytes of a body that wait to be read, half of it: as for gRPC, see docs/security.md.
_READ_AHEAD: Final = 32 << 10


def rest_server(app: RestApp) -> web.Server:
    """Return what makes the protocol of a connection."""
    silent = logging.Logger("aiohttp.server")
    silent.addHandler(logging.NullHandler())
    return web.Server(
        app,
        access_log=None,
        logger=silent,
        max_line_size=_LINE,
        max_field_size=_LINE,
        max_headers=_HEADERS,
        read_bufsize=_READ_AHEAD,
        auto_decompress=False,
    )


class KubeListener:
    """One address on which the REST API is served."""

    def __init__(self, app: RestApp, files: TlsFiles | None, most: int) -> None:
        """files: None for no TLS; most: connections at once. Raises CertificateError."""
        tls = ServingContext(files, _keep).context if files is not None else None
        self._server = rest_server(app)
        self.connections = Listener(self._server, most, tls, _IDLE_SECONDS)
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen, alone or not. Raises OSError when the address cannot be had."""
        await self.connections.start(host, port, shared=shared)
        self.port = self.connections.port

    async def stop(self, grace: float) -> None:
        """Take no more connections, and close those that there are after ``grace`` seconds."""
        self.connections.close()
        self._server.pre_shutdown()
        await self._server.shutdown(max(grace, 0.01))  # 0 would be no limit


def _keep(problem: str) -> None:
    _log.warning("Keeping the certificates in use", error=problem)
