"""A member of etcd without a socket."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from aetcd.rpc import rpc_pb2


class Member:
    """A connection to a member that answers reads with a revision and a Raft term."""

    failing = nullcontext

    def __init__(self) -> None:
        self.revision = self.raft_term = 0
        self.kv = SimpleNamespace(Range=self._range)

    async def ready(self, timeout: float) -> bool:
        return True

    async def _range(self, request: Any, **_: Any) -> Any:
        header = rpc_pb2.ResponseHeader(revision=self.revision, raft_term=self.raft_term)
        return rpc_pb2.RangeResponse(header=header)
