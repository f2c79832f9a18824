"""Finds etcd's leader among the members.

A write that a follower has forwarded is lost without an answer if the leader dies, and its caller
waits for the request timeout. A broken connection to the leader itself is noticed at once. So the
leader is preferred, and when it is not known, for example during an election, writes wait for it.
"""

from __future__ import annotations

import asyncio
import math

import grpc
from aetcd.rpc import rpc_pb2

from podsched.lib.server_health import STAY
from podsched.serve.store.errors import StoreError
from podsched.serve.store.members import Members
from podsched.serve.store.tokens import AuthToken

#: Seconds between two looks for etcd's leader, and for a member to say whether it is.
LEADER_PERIOD, LEADER_ANSWER = 1.0, 0.2
#: Max seconds for which writes wait until a member says that it leads, and seconds between two
#: questions. After that they go to any member, and wait for no leader for ``LEADER_UNKNOWN``
#: seconds: a proxy may hide it.
LEADER_WAIT, LEADER_PAUSE, LEADER_UNKNOWN = 2.0, 0.05, 10.0


class LeaderSearch:
    """Looks for the leader, and knows whether the member in use is it."""

    def __init__(self, members: Members, token: AuthToken) -> None:
        self._members = members
        self._token = token
        #: ``Members.changes`` when the member in use said that it leads; -1: it may be another.
        self._found_at = -1
        self._finding = asyncio.Lock()
        self._waits_from = self._follows_from = -math.inf

    def forget(self) -> None:
        """Forget the leader: there may be another one."""
        self._found_at = -1

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
        # Another one may be used by the time of the answer.
        leader: int | None = members.position
        # Usually the member in use still leads; then one question is enough.
        if not await self._leads(members.position):
            leader = await self._first_leader()
        if leader is None:
            return False
        if leader != members.position:
            members.use(leader)
        self._found_at = members.changes
        return True

    async def _first_leader(self) -> int | None:
        """Return the member that is the first to say that it leads, if one does.

        All are asked at once, and none waits for the rest: a paused leader never answers, and each
        look for its successor would last ``LEADER_ANSWER``.
        """

        async def leading(index: int) -> int | None:
            return index if await self._leads(index) else None

        asked = [asyncio.ensure_future(leading(n)) for n in range(len(self._members))]
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
        return len(self._members) == 1 or self._found_at == self._members.changes

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
