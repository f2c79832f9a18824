"""Finds etcd's leader among the members.

A write that a follower has forwarded is lost without an answer if the leader dies, and its caller
waits for the request timeout. A broken connection to the leader itself is noticed at once. So the
leader is preferred, and when it is not known, for example during an election, writes wait for it.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

import grpc
from aetcd.rpc import rpc_pb2

from podsched.lib.server_health import STAY
from podsched.serve.store.connection import Connection
from podsched.serve.store.errors import StoreError
from podsched.serve.store.tokens import AuthToken

#: Seconds between two looks for etcd's leader, and for a member to say whether it is.
LEADER_PERIOD, LEADER_ANSWER = 1.0, 0.2
#: Max seconds for which writes wait until a member says that it leads, and seconds between two
#: questions. After that they go to any member, and wait for no leader for ``LEADER_UNKNOWN``
#: seconds: a proxy may hide it.
LEADER_WAIT, LEADER_PAUSE, LEADER_UNKNOWN = 2.0, 0.05, 10.0


class Members(Protocol):
    """The members of etcd, and which of them is used."""

    connections: list[Connection | None]
    """The connection of each member; None before the first use."""
    position: int
    """The index of the member in use."""

    def connection_to(self, index: int) -> Connection:
        """Return the connection of a member."""
        ...

    def use(self, index: int) -> None:
        """Use another member from now on."""
        ...


class LeaderSearch:
    """Looks for the leader, and knows whether the member in use is it."""

    def __init__(self, members: Members, token: AuthToken) -> None:
        self._members = members
        self._token = token
        #: The connection whose member said last that it leads, unless something has changed since.
        self._leader: Connection | None = None
        self._finding = asyncio.Lock()
        self._waits_from = self._follows_from = -math.inf

    def forget(self) -> None:
        """Forget the leader: there may be another one."""
        self._leader = None

    def pause(self) -> None:
        """Do not go back to the leader for a while: it did not answer."""
        self._follows_from = asyncio.get_running_loop().time() + STAY

    async def follow(self) -> None:
        """Use etcd's leader, whenever it answers, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LEADER_PERIOD)
            if clock() >= self._follows_from:
                await self.find()

    async def find(self) -> bool:
        """Use the member that says that it leads; return False if none does."""
        members = self._members
        if await self._leads(members.position):
            leader: int | None = members.position
        else:
            leader = await self._first_leader()
        if leader is None:
            return False
        if leader != members.position:
            members.use(leader)
        self._leader = members.connection_to(leader)
        return True

    async def _first_leader(self) -> int | None:
        """Return the member that is the first to say that it leads, if one does.

        All are asked at once, and none waits for the rest: a paused leader never answers, and each
        look for its successor would last ``LEADER_ANSWER``.
        """

        async def leading(index: int) -> int | None:
            return index if await self._leads(index) else None

        members = self._members.connections
        asked = [asyncio.ensure_future(leading(n)) for n in range(len(members))]
        try:
            for answer in asyncio.as_completed(asked):
                if (leader := await answer) is not None:
                    return leader
        finally:
            for task in asked:
                task.cancel()
        return None

    async def wait(self, deadline: float) -> None:
        """Return once the member in use is the leader, as far as is known, or after a while."""
        if not self.is_awaited:
            return
        clock = asyncio.get_running_loop().time
        until = min(clock() + LEADER_WAIT, deadline)
        async with self._finding:
            while not self._is_known() and not await self.find():
                if clock() >= until:
                    self._waits_from = clock() + LEADER_UNKNOWN
                    return
                await asyncio.sleep(LEADER_PAUSE)

    @property
    def is_awaited(self) -> bool:
        """Whether writes have to wait for the leader."""
        waits = asyncio.get_running_loop().time() >= self._waits_from
        return waits and not self._is_known()

    def _is_known(self) -> bool:
        members = self._members
        return len(members.connections) == 1 or (
            self._leader is not None and self._leader is members.connections[members.position]
        )

    async def _leads(self, index: int) -> bool:
        """Whether a member answers, and says that it leads."""
        connection = self._members.connection_to(index)
        try:
            with connection.failing():
                status = await connection.maintenance.Status(
                    rpc_pb2.StatusRequest(),
                    timeout=LEADER_ANSWER,
                    metadata=await self._token.metadata(connection),
                )
        except (StoreError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            return False
        return bool(status.leader == status.header.member_id)
