"""Lets tasks wait until a follower of etcd's revisions has reached a certain revision."""

from __future__ import annotations

import asyncio
import heapq
from typing import Final

#: Fewer than this many tasks may have given up waiting before these are looked for.
_FEW: Final = 16


class RevisionWaiters:
    """A priority queue of tasks that wait for revisions; used from one event loop."""

    def __init__(self) -> None:
        # Triples of revision, ticket and future. Tickets are unique, so that the heap never
        # compares futures, which have no order.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0
        #: When so many wait, those that have given up are dropped: their revision, which a client
        #: may have named, may be far away.
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait_for(self, revision: int) -> None:
        """Wait until ``reached`` is called with this revision or a later one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        if len(self._waiting) >= self._most:
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self._most = 2 * len(self._waiting) + _FEW
        heapq.heappush(self._waiting, (revision, self._tickets, waiter))
        await waiter

    def release(self) -> None:
        """Wake all waiting tasks, because their revisions will never come."""
        self.reached(max((revision for revision, _, _ in self._waiting), default=0))

    def reached(self, revision: int) -> None:
        """Wake all tasks that wait for this revision or an earlier one."""
        while self._waiting and self._waiting[0][0] <= revision:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)
