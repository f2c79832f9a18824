"""Asks an API server with gRPC's health check whether it can use etcd."""

from __future__ import annotations

from typing import Final

import grpc

from podsched.lib.server_health import Health

#: The name in the health service of what says at once whether a server can use etcd.
ETCD: Final = "podsched.etcd"
#: gRPC's health check, encoded here because clients are installed without its package:
#: HealthCheckRequest(service=ETCD) and HealthCheckResponse(status=NOT_SERVING).
_CHECK: Final = "/grpc.health.v1.Health/Check"
REQUEST: Final = bytes((0x0A, len(ETCD))) + ETCD.encode()
NOT_SERVING: Final = b"\x08\x02"
_UNANSWERED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


async def ask(channel: grpc.aio.Channel, timeout: float) -> Health:
    """Return what a server answers within ``timeout`` seconds."""
    try:
        answer = await channel.unary_unary(_CHECK)(REQUEST, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        # A former version does not know the name.
        return Health.SILENT if error.code() in _UNANSWERED else Health.WELL
    return Health.UNABLE if answer == NOT_SERVING else Health.WELL
