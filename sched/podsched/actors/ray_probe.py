"""Check that Ray's processes answer; a connection proves nothing, because the kernel accepts it.

If a raylet is stopped or hangs, ``ray.init`` waits for it and blocks all threads of its process
meanwhile (measured with 2.60: 14 s for a stop of 14 s). A leader could then neither renew its lease
nor answer. So the raylet is probed first. A GCS that hangs only delays calls, in other threads.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsched.lib.certificate_error import CertificateError
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles

#: How HTTP/2 begins (RFC 9113, 3.4), and an empty SETTINGS frame: a gRPC server answers at once.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_GCS_TIMEOUT = 5.0
#: Ray adds a number if the name is taken: a container that starts again leaves its socket.
_RAYLET = re.compile(r"/sockets/raylet(\.\d+)?$")


def raylet_sockets(table: Path = Path("/proc/net/unix")) -> frozenset[str] | None:
    """Return the sockets of raylets in this network and file system; None if unknown."""
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return None
    paths = (line.split()[-1] for line in lines if _RAYLET.search(line))
    return frozenset(path for path in paths if Path(path).exists())


def raylets_here(address: str, sockets: frozenset[str]) -> list[str]:
    """Return the addresses of the cluster's nodes on this machine, as its GCS knows them.

    Blocks. Raises Ray's own errors.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    nodes: Mapping[Any, Any] = GcsClient(address=address).get_all_node_info(timeout=_GCS_TIMEOUT)
    return [
        f"{node.node_manager_address}:{node.node_manager_port}"
        for node in nodes.values()
        if node.state == node.ALIVE and node.raylet_socket_name in sockets
    ]


def tls_of(environment: Mapping[str, str] = os.environ) -> TlsFiles | None:
    """Return the certificates with which Ray is called, as its variables name them."""
    if environment.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY")
    return TlsFiles(*(environment.get(name, "") for name in names))


async def answers(address: str, timeout: float, tls: TlsFiles | None = None) -> bool:
    """Return whether the gRPC server at host:port answers within ``timeout`` seconds."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            context = ConnectingContext(tls, _ignore, any_host=True).latest() if tls else None
            if context is not None:
                context.set_alpn_protocols(["h2"])
            reader, writer = await asyncio.open_connection(
                host.strip("[]"),
                int(port),
                ssl=context,
                ssl_shutdown_timeout=1.0 if context else None,
            )
            try:
                writer.write(_HELLO)
                await reader.read(1)
            finally:
                writer.close()
    except (ssl.SSLError, CertificateError, ConnectionResetError):
        # The server refused the connection, so it is alive; ray.init will report the error.
        return True
    except (OSError, ValueError):  # TimeoutError is an OSError
        return False
    return True


def _ignore(_: str) -> None:
    pass
