"""A client of Kubernetes' REST API without sockets: requests go straight to the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from podsched.server.core import ServerCore
from podsched.server.pipeline import Pipeline
from podsched.server.rest.app import RestApp
from podsched.server.rest.handling import Handler
from podsched.server.rest.probes import Probes
from podsched.telemetry.health import HealthChecks

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass
class Response:
    """What the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class KubeClient:
    """Sends one request at a time."""

    def __init__(self, core: ServerCore, pipeline: Pipeline | None = None) -> None:
        handler = Handler(core, pipeline or Pipeline(), Probes(HealthChecks()))
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
        url = urlsplit(path)
        sent = {"host": "test"} | {k.lower(): v for k, v in (headers or {}).items()}
        scope = {
            "type": "http",
            "method": method,
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "state": {"peer": "ipv4:127.0.0.1:1", "certificate": b""},
        }
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        events.put_nowait({"type": "http.request", "body": raw, "more_body": False})
        response = self.response = Response()

        async def send(event: Mapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                response.status = event["status"]
                pairs = ((k.decode(), v.decode()) for k, v in event["headers"])
                response.headers = dict(pairs)
            else:
                response.body += event["body"]

        await self._app(scope, events.get, send)
        return response

    async def get(self, path: str, accept: str = "") -> Response:
        return await self.request("GET", path, headers={"accept": accept} if accept else None)
