"""A binder that refuses some pods, and dies in the middle of its bindings or evictions."""

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
    """Binds and evicts on the cluster, as far as the test lets it."""

    def __init__(self, world: TermWorld) -> None:
        self._cluster = world.cluster
        self.before: Callable[[], Any] = lambda: None
        #: Names of pods that cannot be bound.
        self.refused: set[str] = set()
        #: Bindings, and evictions, that are carried out before the replica dies; None: all.
        self.dies_after: int | None = None
        self.dies_after_evictions: int | None = None
        self.calls = 0
        evicts: Any = _Evicts(self, world.cluster)
        world.term = SchedulingLoop(replace(world.parts(), binder=self, cluster=evicts))

    def refuse_once(self, name: str) -> None:
        """Refuse a pod's binding in the first call only."""
        self.refused = {name}

        def before() -> None:
            if self.calls:
                self.refused = set()

        self.before = before

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

    async def evict_pods(
        self, evictions: Sequence[api_pb2.EvictRequest], *, fence: api_pb2.Fence
    ) -> Sequence[api_pb2.BatchResult]:
        if self.dies_after_evictions is not None:
            done, self.dies_after_evictions = self.dies_after_evictions, 0
            await self._cluster.evict_pods(evictions[:done], fence=fence)
            await asyncio.Event().wait()
        return await self._cluster.evict_pods(evictions, fence=fence)


class _Evicts:
    """The cluster, with the evictions of a ``DyingBinder``."""

    def __init__(self, binder: DyingBinder, cluster: Any) -> None:
        self.evict_pods = binder.evict_pods
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)
