"""A Ray cluster in this process: actors are plain objects, what they are sent is pickled.

Stands in for ``actors.ray_cluster.RayCluster``. ``kill_all`` and ``silent`` break it.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections import Counter
from typing import Any

from podsched.actors.ray_cluster import RayUnavailable


class CountingMetrics:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.replaced: list[str] = []
        self.modes: list[str] = []

    def ray_call(self, call: str, result: str, seconds: float) -> None:
        self.calls[call, result] += 1

    def ray_actor_replaced(self, actor: str) -> None:
        self.replaced.append(actor)

    def evaluator_mode(self, mode: str) -> None:
        self.modes.append(mode)


class FakeRay:
    """Named actors that live until they are killed."""

    def __init__(self) -> None:
        self.joined = asyncio.Event()
        self.joined.set()
        self.metrics = CountingMetrics()
        self.cpus = 2
        self.actors: dict[str, Any] = {}
        self.created: list[str] = []
        self.reasons: list[str] = []
        self.silent = False

    async def find(self, name: str) -> Any | None:
        self._check()
        return self.actors.get(name)

    async def create(
        self, name: str, actor_class: type, arguments: tuple[Any, ...], **options: Any
    ) -> Any:
        self._check()
        if name in self.actors:
            raise RayUnavailable(f"the name {name} is taken")
        self.created.append(name)
        self.actors[name] = actor_class(*pickle.loads(pickle.dumps(arguments)))
        return self.actors[name]

    async def kill(self, handle: Any) -> None:
        self._check()
        for name, actor in list(self.actors.items()):
            if actor is handle:
                del self.actors[name]

    def kill_all(self) -> None:
        self.actors.clear()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)

    async def call(self, method: Any, *arguments: Any, timeout: float, name: str) -> Any:
        self._check()
        # In the order of the calls, as Ray does: everything up to the first await is at once.
        if self.silent or method.__self__ not in self.actors.values():
            self.metrics.ray_call(name, "error", 0.0)
            await asyncio.sleep(0)
            raise RayUnavailable(f"{name}: the actor is dead")
        answer = method(*pickle.loads(pickle.dumps(arguments)))
        if inspect.isawaitable(answer):
            answer = await answer
        self.metrics.ray_call(name, "ok", 0.0)
        answer = pickle.loads(pickle.dumps(answer))
        await asyncio.sleep(0)
        return answer

    def _check(self) -> None:
        if not self.joined.is_set():
            raise RayUnavailable("not joined")
