"""etcd forgets old revisions, whichever API server makes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podsched.serve.server.compaction import Compactor
from podsched.serve.store.errors import Compacted, Unavailable
from podsched.serve.store.protocol import Put, StoreStatus
from podsched.testing.memory_store import MemoryStore

pytestmark = pytest.mark.looptime

INTERVAL = 300.0


@asynccontextmanager
async def running(*compactors: Compactor) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(compactor.run()) for compactor in compactors]
        yield
        for task in tasks:
            task.cancel()


async def _write(store: MemoryStore) -> int:
    return (await store.txn([], [Put("/podsched/objects/a", b"")])).revision


async def test_history_is_kept_for_one_interval_and_forgotten_after_two() -> None:
    store = MemoryStore()
    early = await _write(store)
    async with running(Compactor(store, INTERVAL)):
        await asyncio.sleep(INTERVAL + 1)
        late = await _write(store)
        await store.get("/podsched/objects/a", revision=early)
        await asyncio.sleep(INTERVAL)
        with pytest.raises(Compacted):
            await store.get("/podsched/objects/a", revision=early)
        await store.get("/podsched/objects/a", revision=late)


async def test_of_several_servers_one_compacts_in_each_interval() -> None:
    store = MemoryStore()
    await _write(store)
    compactors = [Compactor(store, INTERVAL) for _ in range(3)]
    async with running(*compactors):
        await asyncio.sleep(2 * INTERVAL + 1)
    assert sum(compactor.compacted > 0 for compactor in compactors) == 1


async def test_when_the_one_that_compacts_is_gone_another_goes_on() -> None:
    store = MemoryStore()
    first, second = Compactor(store, INTERVAL), Compactor(store, INTERVAL)
    async with running(second):
        async with running(first):
            await asyncio.sleep(3 * INTERVAL + 1)
        before = max(first.compacted, second.compacted)
        await _write(store)
        await asyncio.sleep(3 * INTERVAL)
        assert second.compacted > before


async def test_an_interval_of_zero_compacts_never() -> None:
    compactor = Compactor(MemoryStore(), 0)
    await compactor.run()
    assert compactor.compacted == 0


async def test_an_outage_is_survived() -> None:
    store = _FailingStore()
    compactor = Compactor(store, INTERVAL)
    async with running(compactor):
        store.fails = True
        await asyncio.sleep(INTERVAL + 1)
        assert store.failures == 1
        store.fails = False
        await _write(store)
        await asyncio.sleep(3 * INTERVAL)
    assert compactor.compacted > 0


class _FailingStore(MemoryStore):
    fails = False
    failures = 0

    async def txn(self, *args: object, **more: object) -> object:  # type: ignore[override]
        if self.fails:
            self.failures += 1
            raise Unavailable("down")
        return await super().txn(*args, **more)  # type: ignore[arg-type]

    async def status(self) -> StoreStatus:
        return await super().status()
