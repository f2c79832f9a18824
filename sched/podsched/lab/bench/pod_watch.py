"""When pods were bound, as seen by a watching client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable

from podsched.api.objects import Pod
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.informer import Batch, Informer

#: Seconds between progress reports.
REPORT_EVERY = 0.1


class BoundCounter:
    """Records when each pod was first seen bound (monotonic), and how many were deleted."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.deleted = 0
        self._changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            pod = event.new
            if isinstance(pod, Pod) and pod.spec.node_name and event.key not in self.bound:
                self.bound[event.key] = now
            elif pod is None:
                self.deleted += 1
        self._changed.set()

    async def wait_for(
        self, keys: Iterable[str], within: float, progress: Callable[[int], None]
    ) -> None:
        """Wait until all pods are bound, at most ``within`` seconds."""
        left = set(keys)
        total = len(left)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    left.difference_update(self.bound)
                    progress(total - len(left))
                    if not left:
                        return
                    self._changed.clear()
                    await self._changed.wait()
                    # Checking after every batch would cost more than the watch itself.
                    if len(left) > 100:
                        await asyncio.sleep(REPORT_EVERY / 4)


@contextlib.asynccontextmanager
async def watching(client: ApiClient, counter: BoundCounter) -> AsyncIterator[None]:
    """Feed the counter from a watch, which has synced when the block starts."""
    informer = Informer(client, ["Pod"])
    task = asyncio.create_task(informer.run(counter.handle), name="watch pods")
    try:
        await informer.synced.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
