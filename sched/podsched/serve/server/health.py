"""Answers gRPC's health checks of everyone, so no client may hold them up, or keep much memory.

The servicer of gRPC's own package holds a lock while it sends to a watch: a stranger who did not
read one kept the status from changing, and the server from stopping.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import grpc
from grpc_health.v1.health import SERVICE_NAME
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from podsched.api.reasons import StatusCode, StatusReason
from podsched.lib.tasks import Changes
from podsched.serve.server import errors
from podsched.serve.server.calls import streaming, unary
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.requests import bounded

#: Max watches at a time.
MAX_WATCHES: Final = 1000


class Health:
    """The service grpc.health.v1.Health."""

    def __init__(self, names: Iterable[str]) -> None:
        """names: of services, none of which can be used yet."""
        self._statuses = dict.fromkeys(names, HealthCheckResponse.NOT_SERVING)
        self._changes = Changes()
        self._closing = False

    def set(self, serving: bool, names: Iterable[str]) -> None:
        """Set whether services can be used; without effect after ``close``."""
        if not self._closing:
            status = "SERVING" if serving else "NOT_SERVING"
            self._statuses |= dict.fromkeys(names, HealthCheckResponse.ServingStatus.Value(status))
            self._changes.notify()

    def close(self) -> None:
        """Say from now on that no service can be used, and end all watches."""
        self.set(False, list(self._statuses))
        self._closing = True

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers to register with gRPC."""
        parse, pipeline = bounded(HealthCheckRequest), Pipeline()
        check = unary("Check", parse, self.check, pipeline)
        watch = streaming("Watch", parse, self.watch, pipeline)
        return grpc.method_handlers_generic_handler(SERVICE_NAME, {"Check": check, "Watch": watch})

    async def check(self, request: Any) -> bytes:
        """Return the serialized status of a service. Raises ApiError if it is not known."""
        if request.service not in self._statuses:
            raise errors.ApiError(StatusCode.NOT_FOUND, StatusReason.NOT_FOUND, "unknown service")
        return self._response(request)

    async def watch(self, request: Any) -> AsyncGenerator[bytes, None]:
        """Yield the serialized status of a service now, and after each change. Raises ApiError."""
        if len(self._changes) >= MAX_WATCHES:
            raise errors.overloaded(f"{MAX_WATCHES} watches of health are being served already")
        sent = b""
        while True:
            if (response := self._response(request)) != sent:
                yield (sent := response)
            elif self._closing:
                raise errors.shutting_down()
            else:
                await self._changes.next(None)

    def _response(self, request: Any) -> bytes:
        status = self._statuses.get(request.service, HealthCheckResponse.SERVICE_UNKNOWN)
        response: bytes = HealthCheckResponse(status=status).SerializeToString()
        return response
