"""Divide first evaluations of pod classes, and dry runs of preemption, among the shards.

The leader refreshes a class that was evaluated before by itself, because few rows have changed. The
first evaluation covers all rows, so it is divided: each shard filters and scores its rows. The
leader merges the results, evaluates the rows that no shard has in their present state, normalises
and chooses. Each shard also makes the dry runs on its nodes, all shards at the same time.

What the leader does not get, it computes itself in the same attempt: if a shard is gone, slow or
behind, or if a plugin's state is too large to send.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.actors.packing import pack_dry_run_request, pack_request, pack_rows
from podsched.actors.ray_cluster import RayMetrics
from podsched.actors.shard_sync import Shards
from podsched.decide.accelerators.class_evaluation import ClassEvaluation, PendingEvaluation
from podsched.decide.accelerators.sharding import adopt, request_for
from podsched.decide.evaluation.dry_run import DryRunRequest, DryRunResult
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")


class RayEvaluator:
    """``RemoteEvaluator`` on shards; without any, everything is evaluated locally."""

    def __init__(self, shards: Shards, call_timeout: float, metrics: RayMetrics) -> None:
        self._shards = shards
        self._call_timeout = call_timeout
        self._metrics = metrics
        self._mode = ""
        self.update_mode()

    @property
    def available(self) -> bool:
        """Whether some shard can be asked."""
        return bool(self._shards.current)

    @property
    def mode(self) -> str:
        """``ray`` while some shard can be asked, else ``local``."""
        return "ray" if self.available else "local"

    def update_mode(self) -> None:
        """Log and count a change of the mode."""
        mode = self.mode
        if mode != self._mode:
            if self._mode:
                _log.info("First evaluations move", evaluator=mode, before=self._mode)
            self._mode = mode
            self._metrics.evaluator_mode(mode)

    async def prepare(
        self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str = ""
    ) -> bool:
        """Let the shards make a class's first evaluation; return whether time has passed.

        The next ``refresh`` evaluates the rows that have changed since, or all rows if the shards
        gave no results.
        """
        if evaluation.is_evaluated:
            return False
        if not self._shards.current:
            self.update_mode()
            return False
        try:
            pending = evaluation.begin(pod)
        except PluginFailure:
            # The refresh that follows fails in the same way, and reports it.
            return False
        if pending is None:
            return False
        request = request_for(pending)
        # A request for the few nodes that PreFilter allows would save nothing.
        packed = pack_request(request) if request.node_names is None else None
        if packed is None:
            pending.discard()
            return False
        await self._complete(pending, packed, traceparent)
        self.update_mode()
        return True

    async def _complete(self, pending: PendingEvaluation, packed: bytes, traceparent: str) -> None:
        timeout = self._call_timeout
        answers = await self._shards.ask(lambda one: one.evaluate(packed, traceparent, timeout))
        unsent = [answer.unsent for answer in answers]
        unknown = np.unique(np.concatenate(unsent)) if unsent else None
        try:
            adopt(pending, [answer.result for answer in answers], unknown)
        except PluginFailure as failure:
            # The next refresh looks at all rows, fails in the same way, and reports it.
            _log.debug("A first evaluation failed", pod=pending.pod.key, error=str(failure))


#: The timeout of a call of dry runs grows by the usual timeout with every so many nodes, because a
#: dry run takes as long as several evaluations.
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
