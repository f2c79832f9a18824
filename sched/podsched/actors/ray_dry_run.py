"""Dry runs of preemption on the shards, for the leader's ``Decider``.

Each shard tries those of the nodes that it holds, all at once. Whatever does not come back, because
a shard is gone, slow or behind, or a plugin's state is too large to travel, the leader tries itself
in the same attempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.actors.packing import pack_dry_run_request, pack_rows
from podsched.actors.shards import Shards
from podsched.decide.evaluation.dry_run import DryRunRequest, DryRunResult
from podsched.framework.verdicts import Rows

#: For every so many nodes a shard gets the call's timeout once more: unlike a first evaluation, dry
#: runs take a time that grows with their number.
NODES_PER_TIMEOUT = 2_000


class RayDryRun:
    """``RemoteDryRun`` on shards."""

    def __init__(self, shards: Shards, from_nodes: int, call_timeout: float) -> None:
        self._shards = shards
        self._from_nodes = from_nodes
        self._call_timeout = call_timeout

    def worth(self, nodes: int) -> bool:
        return nodes >= max(self._from_nodes, 1) and bool(self._shards.current)

    async def dry_run(
        self, request: DryRunRequest, rows: Rows, traceparent: str = ""
    ) -> Sequence[DryRunResult]:
        packed = pack_dry_run_request(request)
        if packed is None or not self._shards.current:
            return ()
        wanted = pack_rows(rows)
        timeout = self._call_timeout * (1 + len(rows) / NODES_PER_TIMEOUT)
        return await self._shards.ask(
            lambda shard: shard.dry_run_rows(packed, wanted, traceparent, timeout)
        )
