"""Let one task at a time write an object.

A patch names the version of the object that its plan has read. If many pods patched one object at
once, such as a claim that they share, all patches but one would be refused; the others would plan
again, and all but one would be refused again. In turns, each plan reads what the pods before it
have written: 2,500 pods that share 250 claims take 3,700 patches instead of 38,900.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager

#: Kind, namespace and name.
ObjectKey = tuple[str, str, str]


class ObjectTurns:
    """Keeps a lock for each object that a task writes."""

    def __init__(self) -> None:
        self._locks: dict[ObjectKey, asyncio.Lock] = {}
        #: How many tasks write or wait to write.
        self._users: Counter[ObjectKey] = Counter()

    def __len__(self) -> int:
        """Return the number of objects that are written."""
        return len(self._locks)

    @asynccontextmanager
    async def of(self, keys: Iterable[ObjectKey]) -> AsyncIterator[bool]:
        """Wait for the turn to write these objects; yield whether another task had it."""
        entered: list[ObjectKey] = []
        held: list[asyncio.Lock] = []
        waited = False
        try:
            for key in sorted(set(keys)):  # in one order, so that no two wait for each other
                lock = self._locks.setdefault(key, asyncio.Lock())
                waited |= lock.locked()
                # Before it is acquired: ``others_wait`` counts this task, and the lock is kept.
                self._users[key] += 1
                entered.append(key)
                await lock.acquire()
                held.append(lock)
            yield waited
        finally:
            for lock in held:
                lock.release()
            for key in entered:
                self._leave(key)

    def others_wait(self, keys: Collection[ObjectKey]) -> bool:
        """Return whether other tasks wait for the turn to write one of these objects."""
        return any(self._users[key] > 1 for key in keys)

    def _leave(self, key: ObjectKey) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._locks[key]
