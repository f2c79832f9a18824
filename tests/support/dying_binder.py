"""A binder that refuses some pods, and dies in the middle of its bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from podsched.api.reasons import StatusCode
from podsched.term.cycle.scheduling_loop import SchedulingLoop
from podsched.v1 import api_pb2
from support.term_world import TermWorld


class DyingBinder:
    """Binds on the cluster, as far as the test lets it."""

    def __init__(self, world: TermWorld) -> None:
        self._cluster = world.cluster
        self.before: Callable[[], Any] = lambda: None
        #: Names of pods that cannot be bound.
        self.refused: set[str] = set()
        #: Bindings that are carried out before the replica dies; None: all.
        self.dies_after: int | None = None
        self.calls = 0
        world.term = SchedulingLoop(replace(world.parts(), binder=self))

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        self.before()
        self.calls += 1
        if self.dies_after is not None:
            done, self.dies_after = self.dies_after, 0
            await self._cluster.bind_pods(bindings[:done], fence=fence)
            await asyncio.Event().wait()
        wanted = [one for one in bindings if one.name not in self.refused]
        results = iter(await self._cluster.bind_pods(wanted, fence=fence))
        failed = api_pb2.BatchResult(code=StatusCode.INTERNAL, message="no such luck")
        return [failed if one.name in self.refused else next(results) for one in bindings]
