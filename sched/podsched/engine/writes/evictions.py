"""Evictions of many preemptions in few calls: what comes while a call is under way goes with the
next, as status patches and bindings do.

Each request is answered by itself, so one preemption does not fail with another. Non-goal:
retries; a preemption whose eviction failed is tried again as a whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from podsched.v1 import api_pb2

#: Requests in one call at most, and calls at a time.
BATCH = 256
IN_FLIGHT = 2

SendEvictions = Callable[[Sequence[api_pb2.EvictRequest]], Awaitable[Sequence[api_pb2.BatchResult]]]
_Waiting = tuple[Sequence[api_pb2.EvictRequest], asyncio.Future[Sequence[api_pb2.BatchResult]]]


class EvictionBatches:
    """``evict`` is ``send`` with its calls put together."""

    def __init__(self, send: SendEvictions) -> None:
        self._send = send
        self._waiting: deque[_Waiting] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def evict(
        self, requests: Sequence[api_pb2.EvictRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        """Return the results, parallel to the requests. Raises what ``send`` raises."""
        done: asyncio.Future[Sequence[api_pb2.BatchResult]]
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((requests, done))
        if len(self._running) < IN_FLIGHT:
            task = asyncio.create_task(self._run(), name="evict")
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await done

    async def stop(self) -> None:
        """End the calls under way; those who wait are cancelled."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for _, done in self._waiting:
            done.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft()]
            size = len(batch[0][0])
            while self._waiting and size + len(self._waiting[0][0]) <= BATCH:
                batch.append(self._waiting.popleft())
                size += len(batch[-1][0])
            await self._deliver(batch)

    async def _deliver(self, batch: Sequence[_Waiting]) -> None:
        try:
            results = await self._send([request for requests, _ in batch for request in requests])
        except BaseException as error:  # Whoever waits gets it; a cancellation goes on, too.
            for _, done in batch:
                if not done.done():
                    done.set_exception(error) if isinstance(error, Exception) else done.cancel()
            if not isinstance(error, Exception):
                raise
            return
        start = 0
        for requests, done in batch:
            if not done.done():
                done.set_result(results[start : start + len(requests)])
            start += len(requests)
