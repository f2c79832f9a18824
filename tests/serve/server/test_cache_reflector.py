"""How often etcd is listed by a cache whose watches end. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import Compacted, StoreError, Unavailable
from podsched.serve.store.protocol import WatchBatch

pytestmark = pytest.mark.looptime


class Etcd:
    """Has nothing, and ends each watch at once."""

    def __init__(self, end: StoreError) -> None:
        self.end = end
        self.lists = 0

    async def range(self, prefix: str, **options: Any) -> Any:
        self.lists += 1
        if self.lists > 5000:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return SimpleNamespace(revision=self.lists, kvs=[], more=False)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncIterator[WatchBatch]:
        yield WatchBatch(start_revision, ())
        raise self.end


@pytest.mark.parametrize("end", [Compacted(5), Unavailable("gone")], ids=str)
async def test_an_etcd_that_ends_each_watch_at_once_is_listed_ever_less_often(
    end: StoreError,
) -> None:
    etcd = Etcd(end)
    reflector = CacheReflector(etcd, WatchCache(max_events=10, max_bytes=1000))  # type: ignore[arg-type]
    following = asyncio.create_task(reflector.run())
    await asyncio.sleep(60)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert etcd.lists < 110
