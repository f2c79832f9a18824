"""What a watching client sees of pods: when they were bound, and which are there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable

from podsched.api.objects import Pod
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.informer import Batch, Informer

#: Seconds between two looks while many pods are waited for: more would cost more than the watch.
LOOK_EVERY = 0.025


class PodWatch:
    """Records when each pod was first seen bound (monotonic), which are there, and which have gone.

    ``there``: by key, whether the pod runs.
    """

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.there: dict[str, bool] = {}
        self.deleted = 0
        self._changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            pod = event.new
            if isinstance(pod, Pod):
                node = pod.spec.node_name
                self.there[event.key] = bool(node) and pod.status.phase == "Running"
                if node and event.key not in self.bound:
                    self.bound[event.key] = now
            elif self.there.pop(event.key, None) is not None:
                self.deleted += 1
        self._changed.set()

    async def until(self, reached: Callable[[], bool], within: float) -> None:
        """Wait until something is so, at most ``within`` seconds. Raises ``TimeoutError``."""
        async with asyncio.timeout(within):
            while not reached():
                self._changed.clear()
                await self._changed.wait()
                if len(self.there) > 100:
                    await asyncio.sleep(LOOK_EVERY)

    async def wait_for(
        self, keys: Iterable[str], within: float, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Wait until all pods are bound, at most ``within`` seconds."""
        left = set(keys)
        total = len(left)

        def all_bound() -> bool:
            left.difference_update(self.bound)
            progress(total - len(left))
            return not left

        with contextlib.suppress(TimeoutError):
            await self.until(all_bound, within)


@contextlib.asynccontextmanager
async def watching(client: ApiClient) -> AsyncIterator[PodWatch]:
    """Watch all pods, and those that are there already, while the block runs."""
    pods, informer = PodWatch(), Informer(client, ["Pod"])
    task = asyncio.create_task(informer.run(pods.handle), name="watch pods")
    try:
        await informer.synced.wait()
        yield pods
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
