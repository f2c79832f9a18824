"""Threads that a test lets end; like real ones, they go on when their caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Replaces ``asyncio.to_thread`` by ``run``; ``most``: the most threads at the same time."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.most = 0
        self._running = 0
        self._may_end = asyncio.Event()

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        self._running += 1
        self.most = max(self.most, self._running)
        self.begun.set()
        await self._may_end.wait()
        # Not if it is cancelled, which ends no thread.
        self._running -= 1
        return work(*arguments)

    async def end_all(self) -> None:
        """Let all threads end, after other tasks had time to begin more of them."""
        for _ in range(20):
            await asyncio.sleep(0)
        self._may_end.set()
