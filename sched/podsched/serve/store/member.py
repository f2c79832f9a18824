"""Administers a single etcd member, as etcdctl does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from aetcd.rpc import rpc_pb2

from podsched.lib.certificate_files import Pems
from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.translate import translate


class EtcdMember:
    """A connection to one member, without TLS; creating it does no I/O. Raises ``StoreError``."""

    def __init__(self, endpoint: str) -> None:
        self._options = EtcdOptions()
        self._connection = Connection(endpoint, self._options, Pems(None, None, None))

    async def ids(self) -> tuple[int, int]:
        """Return the ids of this member and of its leader; 0 without one."""
        answer = await self._call(lambda c: c.maintenance.Status, rpc_pb2.StatusRequest())
        return int(answer.header.member_id), int(answer.leader)

    async def move_leader(self, to: int) -> None:
        """Transfer leadership to another member; only the leader can."""
        request = rpc_pb2.MoveLeaderRequest(targetID=to)
        await self._call(lambda c: c.maintenance.MoveLeader, request)

    async def defragment(self) -> None:
        """Free the space of compacted revisions; the member does not answer meanwhile."""
        await self._call(lambda c: c.maintenance.Defragment, rpc_pb2.DefragmentRequest())
        # Before 3.5.6, the new database does not record its last transaction, so a member killed
        # then applies many again (etcd-io/etcd#14730). Hashing commits the record.
        await self._call(lambda c: c.maintenance.Hash, rpc_pb2.HashRequest())

    async def raise_no_space(self) -> None:
        """Raise this member's NOSPACE alarm, which makes the cluster refuse writes."""
        member, _ = await self.ids()
        await self._alarm(rpc_pb2.AlarmRequest.ACTIVATE, member, rpc_pb2.NOSPACE)

    async def disarm(self) -> None:
        """End the alarms of all members."""
        for alarm in (await self._alarm(rpc_pb2.AlarmRequest.GET)).alarms:
            await self._alarm(rpc_pb2.AlarmRequest.DEACTIVATE, alarm.memberID, alarm.alarm)

    async def _alarm(self, action: int, member: int = 0, alarm: int = 0) -> Any:
        request = rpc_pb2.AlarmRequest(action=action, memberID=member, alarm=alarm)
        return await self._call(lambda c: c.maintenance.Alarm, request)

    async def _call(self, method: Callable[[Connection], Any], request: Any) -> Any:
        try:
            # There is no other member to ask while this one does not accept the connection.
            return await method(self._connection)(
                request, timeout=self._options.request_timeout, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            raise translate(error, safe=False) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.channel.close()
