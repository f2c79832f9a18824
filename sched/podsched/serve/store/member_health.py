"""Asks etcd's members whether they are well, and leaves a silent one (``lib.server_health``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import grpc
from aetcd.rpc import rpc_pb2

from podsched.api.etcd_keys import SYNC
from podsched.lib.server_health import Health
from podsched.serve.store.errors import StoreError, Unavailable
from podsched.serve.store.leader import LeaderSearch
from podsched.serve.store.members import Members
from podsched.serve.store.tokens import AuthToken
from podsched.serve.store.translate import translate
from podsched.telemetry.logs import get_logger

_log = get_logger("etcd")


class MemberHealth:
    """The members of etcd as ``Servers``."""

    def __init__(
        self,
        members: Members,
        token: AuthToken,
        leader: LeaderSearch,
        answered: Callable[[int], None],
    ) -> None:
        """answered: called with the Raft term of each answer."""
        self._members = members
        self._token = token
        self._leader = leader
        self._answered = answered

    @property
    def in_use(self) -> Sequence[str]:
        """The member in use: watches on any other one end when it is left."""
        return (self._members.endpoint,)

    @property
    def endpoints(self) -> Sequence[str]:
        """All members."""
        return self._members.endpoints

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return whether a member that has a leader answers within seconds."""
        connection = self._members.connection_to(self.endpoints.index(endpoint))
        # Serializable: the member answers alone, so a slow quorum does not make it look silent. It
        # still refuses without a leader ("hasleader" in the metadata).
        request = rpc_pb2.RangeRequest(key=SYNC.encode(), serializable=True)
        try:
            async with asyncio.timeout(timeout):
                metadata = await self._token.metadata(connection)
                answer = await connection.kv.Range(request, metadata=metadata)
        except (TimeoutError, StoreError):
            return Health.SILENT
        except grpc.aio.AioRpcError as error:
            retryable = isinstance(translate(error, safe=True), Unavailable)
            return Health.SILENT if retryable else Health.WELL
        self._answered(answer.header.raft_term)
        return Health.WELL

    def reached(self, reached: bool) -> None:
        """Do nothing: calls fail if no member answers."""

    async def move(self, endpoint: str, to: str) -> None:
        """Switch from one member to another; calls and watches on the former fail."""
        _log.warning("Leaving a member of etcd without an answer", member=endpoint, to=to)
        self._leader.pause()
        await self._members.close_silent(endpoint, to)
