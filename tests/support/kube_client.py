"""A client of the REST API without sockets: its requests and their answers are bytes in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from podsched.lib.listening import Connection, Listener
from podsched.serve.server.access.service_accounts import ServiceAccountTokens
from podsched.serve.server.core import ServerCore
from podsched.serve.server.kubelets.client import KubeletClient
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.rest.app import RestApp
from podsched.serve.server.rest.handling import Handler
from podsched.serve.server.rest.listener import rest_server
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.rest.visibility import PendingSource
from podsched.telemetry.health import HealthChecks

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Response:
    """What the server has sent so far."""

    def __init__(self) -> None:
        self.sent = bytearray()

    @property
    def _head(self) -> list[str]:
        return self.sent.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")

    @property
    def status(self) -> int:
        return int(self._head[0].split()[1])

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(": ") for line in self._head[1:])
        return {name.lower(): value for name, _, value in pairs}

    @property
    def body(self) -> bytes:
        rest = bytes(self.sent.partition(b"\r\n\r\n")[2])
        if self.headers.get("transfer-encoding") != "chunked":
            return rest
        parts = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            parts.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return b"".join(parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class MemoryTransport(asyncio.Transport):
    """A connection from a client that reads everything, until ``full`` is set."""

    def __init__(self, connection: Connection, client: str = "127.0.0.1") -> None:
        super().__init__({"peername": (client, 1)})
        self._connection = connection
        self._closing = False
        self.closed = asyncio.Event()
        self.sent = bytearray()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._connection

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.sent += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits to be sent."""

    def pause_reading(self) -> None:
        """Nothing comes but what is given to the connection."""

    resume_reading = pause_reading

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        self._connection.connection_lost(None)
        self.closed.set()


class KubeClient:
    """Sends one request at a time."""

    def __init__(
        self,
        core: ServerCore,
        pipeline: Pipeline | None = None,
        tokens: ServiceAccountTokens | None = None,
        pending: PendingSource | None = None,
        kubelets: KubeletClient | None = None,
    ) -> None:
        probes = Probes(HealthChecks())
        handler = Handler(
            core, pipeline or Pipeline(), probes, kubelets, tokens=tokens, pending=pending
        )
        self._app = RestApp(handler)
        #: Of the request under way, or the last one.
        self.response = Response()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        length = {"content-length": str(len(raw))} if raw else {}
        own = {"host": "test", "connection": "close", **length}
        lines = [f"{name}: {value}\r\n" for name, value in (own | dict(headers or {})).items()]
        head = f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n"
        connection = Connection(Listener(rest_server(self._app)[1], 1, None, 90.0))
        transport = MemoryTransport(connection)
        response = self.response = Response()
        response.sent = transport.sent
        connection.connection_made(transport)
        connection.data_received(head.encode() + raw)
        await transport.closed.wait()
        return response

    async def get(self, path: str, accept: str = "") -> Response:
        return await self.request("GET", path, headers={"accept": accept} if accept else None)
