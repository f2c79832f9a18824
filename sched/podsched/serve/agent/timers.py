"""Times at which the agent handles an object again."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable


class Timers:
    """A heap of times, each with the kind and the key of an object.

    ``now`` returns Unix time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._heap: list[tuple[float, str, str]] = []
        self._earlier = asyncio.Event()

    def set(self, kind: str, key: str, at: float) -> None:
        """Handle an object at this time; other times of the object stay."""
        heapq.heappush(self._heap, (at, kind, key))
        if self._heap[0][0] == at:
            self._earlier.set()

    async def run(self, handle: Callable[[str, str], None]) -> None:
        """Call ``handle`` with kind and key at the times that are set."""
        while True:
            self._earlier.clear()
            now = self._now()
            while self._heap and self._heap[0][0] <= now:
                _, kind, key = heapq.heappop(self._heap)
                handle(kind, key)
            left = self._heap[0][0] - self._now() if self._heap else None
            try:
                async with asyncio.timeout(left):
                    await self._earlier.wait()
            except TimeoutError:
                continue
