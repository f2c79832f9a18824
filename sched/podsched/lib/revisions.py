"""Waiting until something that follows a sequence of revisions has come so far."""

from __future__ import annotations

import asyncio
import heapq


class RevisionWaiters:
    """The tasks that wait for a revision, the earliest first; used from one event loop."""

    def __init__(self) -> None:
        # The tickets keep the futures of equal revisions from being compared.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0

    async def wait_for(self, revision: int) -> None:
        """Wait until ``reached`` is called with this revision or a later one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heapq.heappush(self._waiting, (revision, self._tickets, waiter))
        await waiter

    def release(self) -> None:
        """Wake all: the revisions that they wait for will never come."""
        self.reached(max((revision for revision, _, _ in self._waiting), default=0))

    def reached(self, revision: int) -> None:
        """Wake all who wait for this revision or an earlier one."""
        while self._waiting and self._waiting[0][0] <= revision:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)
