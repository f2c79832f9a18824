"""First evaluations of pod classes on the shards, for the leader's ``Placer``.

A class that was evaluated before costs the leader a look at the rows that changed since. The first
evaluation looks at all rows, and that is what the shards share: they filter and score what they
hold, the leader puts the answers together, evaluates what no shard has as it is now, normalises
and chooses. Whatever fails on the way is evaluated locally in the same attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from podsched.actors.packing import pack_request
from podsched.actors.ray_cluster import RayMetrics, RayUnavailable
from podsched.actors.shard_sync import ShardAnswer, ShardSync
from podsched.engine.evaluation.class_evaluation import ClassEvaluation, PendingEvaluation
from podsched.engine.evaluation.sharding import adopt, request_for
from podsched.engine.runtime.plugin_calls import PluginFailure
from podsched.framework.pods import PodInfo
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")


class RayEvaluator:
    """``feeds`` may grow while it is in use; without any, everything is local."""

    def __init__(self, call_timeout: float, metrics: RayMetrics) -> None:
        self.feeds: list[ShardSync] = []
        self._call_timeout = call_timeout
        self._metrics = metrics
        self._mode = ""
        self.update_mode()

    @property
    def mode(self) -> str:
        """Ray while some shard can be asked, else local."""
        return "ray" if any(feed.current for feed in self.feeds) else "local"

    def update_mode(self) -> None:
        """Tells the metrics, and people, when the mode has changed."""
        mode = self.mode
        if mode != self._mode:
            if self._mode:
                _log.info("Nodes are evaluated elsewhere now", evaluator=mode)
            self._mode = mode
            self._metrics.evaluator_mode(mode)

    async def prepare(
        self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str = ""
    ) -> bool:
        """Has the shards evaluate a class for the first time; whether time has passed.

        Afterwards ``refresh`` looks at what has changed since; or at all rows, when nothing came
        of it.
        """
        if evaluation.is_evaluated:
            return False
        feeds = [feed for feed in self.feeds if feed.current]
        if not feeds:
            self.update_mode()
            return False
        try:
            pending = evaluation.begin(pod)
        except PluginFailure:
            # The refresh that follows fails in the same way, and reports it.
            return False
        if pending is None:
            return False
        packed = _packed_request(pending)
        if packed is None:
            pending.discard()
            return False
        answers = await self._ask(feeds, packed, traceparent)
        unknown = [answer.unsent for answer in answers]
        try:
            adopt(
                pending,
                [answer.result for answer in answers],
                np.unique(np.concatenate(unknown)) if unknown else None,
            )
        except PluginFailure:
            # As above: the next refresh looks at all rows.
            _log.debug("A plugin failed for what no shard has evaluated", pod=pod.key)
        self.update_mode()
        return True

    async def _ask(
        self, feeds: Sequence[ShardSync], packed: bytes, traceparent: str
    ) -> list[ShardAnswer]:
        calls = (feed.evaluate(packed, traceparent, self._call_timeout) for feed in feeds)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        found = []
        for answer in answers:
            if isinstance(answer, ShardAnswer):
                found.append(answer)
            elif isinstance(answer, RayUnavailable):
                _log.warning("A shard did not answer", error=str(answer))
            elif isinstance(answer, BaseException):
                raise answer
        return found


def _packed_request(pending: PendingEvaluation) -> bytes | None:
    """Return the request; None when few rows count, or no filter's state can travel."""
    request = request_for(pending)
    return pack_request(request) if request.node_names is None else None
