"""Leaves an API server that is silent or cannot use etcd, long before calls to it time out.

A client asks the server in use every ``PERIOD`` with gRPC's health check. If there is no good
answer within ``silence`` seconds, it asks all servers at once. It leaves the server only if another
one answers well in the same time, so neither a delay of its own nor an election of etcd, which
stops all servers, makes it switch.

It also reports whether any server answers at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Protocol

import grpc

from podsched.telemetry.logs import get_logger

_log = get_logger("client")

#: The name in the health service of what says at once whether a server can use etcd.
ETCD: Final = "podsched.etcd"
#: ``ClientOptions.silence`` of clients whose delay is felt, in seconds.
SILENCE: Final = 0.3
#: Seconds between two questions; seconds in which another server must answer; and seconds for which
#: a client stays with a server to which it has switched.
PERIOD, CONFIRM, STAY = 0.1, 0.1, 2.0
#: Seconds of an own delay with which silence proves nothing.
LATE = 0.05
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


class Health(Enum):
    """What a server answered."""

    WELL = auto()
    WITHOUT_ETCD = auto()
    SILENT = auto()


class Servers(Protocol):
    """The servers of a client, one of them in use."""

    @property
    def endpoint(self) -> str:
        """The server in use."""
        ...

    @property
    def endpoints(self) -> Sequence[str]:
        """All servers."""
        ...

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return what a server answers within seconds."""
        ...

    def reached(self, reached: bool) -> None:
        """Note whether any server answers."""
        ...

    async def move(self, endpoint: str, to: str) -> None:
        """Leave one server for another; calls to the former fail."""
        ...


async def leave_silent_servers(servers: Servers, silence: float) -> None:
    """Switch away from servers without a good answer, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(PERIOD)
        endpoint, began = servers.endpoint, clock()
        if await servers.health(endpoint, silence) is Health.WELL:
            servers.reached(True)
            continue
        names = servers.endpoints
        answers = await asyncio.gather(*(servers.health(name, CONFIRM) for name in names))
        late = clock() > began + silence + CONFIRM + LATE  # It was busy and heard nothing.
        if not late:
            servers.reached(any(answer is not Health.SILENT for answer in answers))
        well = [name for name, answer in zip(names, answers, strict=True) if answer is Health.WELL]
        if well and endpoint not in well:
            _log.warning("Leaving an API server without a good answer", server=endpoint, to=well[0])
            await servers.move(endpoint, well[0])
            await asyncio.sleep(STAY)


async def ask(channel: grpc.aio.Channel, timeout: float) -> Health:
    """Return what a server answers within ``timeout`` seconds."""
    try:
        answer = await channel.unary_unary(_CHECK)(REQUEST, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        # A former version does not know the name.
        return Health.SILENT if error.code() in _UNANSWERED else Health.WELL
    return Health.WITHOUT_ETCD if answer == NOT_SERVING else Health.WELL
