"""Dry runs of preemption on the shards, for the leader's ``Placer``.

Each shard tries those of the nodes that it holds, all at once. Whatever does not come back, because
a shard is gone, slow or behind, or a plugin's state is too large to travel, the leader tries itself
in the same attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from podsched.actors.packing import pack_dry_run_request, pack_rows
from podsched.actors.ray_cluster import RayUnavailable
from podsched.actors.shard_sync import ShardSync
from podsched.engine.evaluation.dry_run import DryRunRequest, DryRunResult
from podsched.framework.verdicts import Rows
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")

#: Nodes for which an honest shard may need a part of the call's timeout that counts.
NODES_PER_TIMEOUT = 2_000


class RayDryRun:
    """``RemoteDryRun`` on shards; ``feeds`` are those there are at the moment."""

    def __init__(
        self, feeds: Callable[[], Sequence[ShardSync]], from_nodes: int, call_timeout: float
    ) -> None:
        self._feeds = feeds
        self._from_nodes = from_nodes
        self._call_timeout = call_timeout

    def worth(self, nodes: int) -> bool:
        return nodes >= max(self._from_nodes, 1) and any(feed.current for feed in self._feeds())

    async def dry_run(
        self, request: DryRunRequest, rows: Rows, traceparent: str = ""
    ) -> Sequence[DryRunResult]:
        feeds = [feed for feed in self._feeds() if feed.current]
        packed = pack_dry_run_request(request)
        if not feeds or packed is None:
            return ()
        timeout = self._call_timeout * (1 + len(rows) / NODES_PER_TIMEOUT)
        wanted = pack_rows(rows)
        calls = (feed.dry_run_rows(packed, wanted, traceparent, timeout) for feed in feeds)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        found = []
        for answer in answers:
            if isinstance(answer, DryRunResult):
                found.append(answer)
            elif isinstance(answer, RayUnavailable):
                _log.warning("A shard did not try its nodes", error=str(answer))
            elif isinstance(answer, BaseException):
                raise answer
        return found
