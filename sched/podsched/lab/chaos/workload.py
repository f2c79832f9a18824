"""Clients that use the system all the time, each in its own way.

steady      creates pods of several templates, and deletes each after a while
preempting  keeps the tight pool full of unimportant pods, and has important ones come now and then
draining    keeps a guarded application running, cordons a node of it and evicts its pods
claiming    has two pods at a time want the same exclusive volume

Their choices come from the seed; what they meet does not. No call is repeated under the same name:
what became of one whose answer was lost is the history's to tell.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine, Iterator
from typing import Any

from podsched.api.conditions import is_pod_ready, is_terminating
from podsched.api.objects import Pod
from podsched.lab.chaos import shapes
from podsched.lab.chaos.caller import Caller
from podsched.lab.chaos.live import Live
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError

#: Pods beyond which no client creates more: what cannot be scheduled must not pile up.
MOST_PODS = 250
#: Steady clients: one that waits for an answer must not keep the others.
STEADY = 5
#: How often a steady client creates many pods at a time, and how many.
BURSTS, BURST = 0.08, 60
_PORTS = (8080, 8081, 8082)


class Workload:
    """The clients; ``clients`` has them."""

    def __init__(self, caller: Caller, client: ApiClient, live: Live, seed: int) -> None:
        self._caller = caller
        self._client = client
        self._live = live
        self._chance = random.Random(f"workload {seed}")
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        """Create what is there from the beginning. Raises TimeoutError."""
        async with asyncio.timeout(30):
            left = shapes.fixed()
            while left:
                left = [item for item in left if not await self._caller.create(item)]
                await asyncio.sleep(0.1)

    def clients(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yield each client's name and what it does, which has no end."""
        for number in range(STEADY):
            yield f"steady {number}", self._steady()
        for run in (self._reap, self._preempting, self._draining, self._claiming):
            yield run.__name__.removeprefix("_"), run()

    def _name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"

    def _mine(self, app: str) -> dict[str, Pod]:
        return {
            key: pod
            for key, pod in self._live.pods.items()
            if pod.metadata.labels.get("app") == app and not is_terminating(pod)
        }

    async def _steady(self) -> None:
        while True:
            await asyncio.sleep(STEADY * self._chance.uniform(0.1, 0.4))
            burst = self._chance.random() < BURSTS
            count = BURST if burst else self._chance.randint(1, 4)
            if len(self._live.pods) < MOST_PODS:
                await self._caller.create_pods([self._any_pod() for _ in range(count)])

    def _any_pod(self) -> Pod:
        kind = self._chance.random()
        if kind < 0.6:
            return shapes.plain(self._name("plain"), self._chance.choice(("100m", "250m", "1")))
        if kind < 0.85:
            spread: Pod = shapes.made("spread", self._name("spread"))
            return spread
        return shapes.with_port(self._name("port"), self._chance.choice(_PORTS))

    async def _reap(self) -> None:
        """Delete pods of the steady client and important ones after a while, in any order."""
        while True:
            await asyncio.sleep(0.3)
            old = [*self._mine("plain"), *self._mine("spread"), *self._mine("port")]
            surplus = len(old) - self._chance.randint(40, 80)
            for key in self._chance.sample(old, min(max(surplus, 0), 5)):
                await self._caller.delete_pod(key, self._chance.choice((0, 1)))

    async def _preempting(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 2.0))
            if len(self._mine("low")) < 6:
                await self._caller.create_pods([shapes.made("low", self._name("low"))])
            high = self._mine("high")
            if len(high) < 3:
                await self._caller.create_pods([shapes.made("high", self._name("high"))])
            for key, pod in high.items():
                if is_pod_ready(pod) and self._chance.random() < 0.3:
                    await self._caller.delete_pod(key, 1)

    async def _draining(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 1.5))
            guarded = self._mine("guarded")
            if len(guarded) < shapes.GUARDED_PODS:
                await self._caller.create_pods([shapes.made("guarded", self._name("guarded"))])
                continue
            node = self._chance.choice(sorted({pod.spec.node_name for pod in guarded.values()}))
            if node:
                await self._cordon(node, True)
                for key in [key for key, pod in guarded.items() if pod.spec.node_name == node]:
                    await self._caller.evict_pod(key)
                await self._cordon(node, False)

    async def _cordon(self, node: str, value: bool) -> None:
        """Cordon a node, as far as it can be done; uncordon it until it is done."""
        patch = {"spec": {"unschedulable": value or None}}
        while True:
            try:
                await self._client.patch("Node", node, patch)
                return
            except ClientError:
                if value:
                    return
                await asyncio.sleep(0.5)

    async def _claiming(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(1.0, 3.0))
            mine = self._mine("claiming")
            if len(mine) < 6:
                claim = self._name("claim")
                if await self._caller.create(shapes.made("claim", claim)):
                    pods = [shapes.claiming(self._name("claiming"), claim) for _ in range(2)]
                    await self._caller.create_pods(pods)
            for key, pod in mine.items():
                if is_pod_ready(pod) and self._chance.random() < 0.3:
                    await self._caller.delete_pod(key, 1)
