"""What only the fake can do: virtual time, and sessions that are cut off by themselves."""

from __future__ import annotations

import asyncio

import pytest

from podsched.serve.store.errors import LeaseNotFound, Unavailable
from podsched.serve.store.protocol import EventType, Put, Write
from podsched.testing.memory_store import MemoryStore


def put(key: str, lease: int = 0) -> Write:
    return Write((), (Put(key, b"", lease),))


@pytest.mark.looptime
async def test_a_lease_expires_in_virtual_time_and_watchers_see_its_keys_go() -> None:
    store = MemoryStore()
    lease = await store.lease_grant(1000)
    await store.write(put("/a", lease.id))
    watch = store.watch("/")
    await anext(watch)
    await asyncio.sleep(999)
    assert await store.lease_keep_alive(lease.id) == 1000
    begun = asyncio.get_running_loop().time()
    batch = await anext(watch)
    assert [e.type for e in batch.events] == [EventType.DELETE]
    assert asyncio.get_running_loop().time() - begun == pytest.approx(1000)
    with pytest.raises(LeaseNotFound):
        await store.lease_keep_alive(lease.id)


async def test_a_key_rewritten_without_its_lease_outlives_it() -> None:
    store = MemoryStore()
    lease = await store.lease_grant(1000)
    await store.write(put("/a", lease.id))
    await store.write(put("/a"))
    await store.lease_revoke(lease.id)
    assert (await store.get("/a")).kv is not None


async def test_a_session_that_is_cut_off_misses_nothing_once_it_is_back() -> None:
    store = MemoryStore()
    other = store.session()
    watch = other.watch("/")
    await anext(watch)
    other.fault = Unavailable("cut off")
    following = asyncio.ensure_future(anext(watch))
    await store.write(put("/a"))
    with pytest.raises(Unavailable):
        await other.get("/a")
    assert [type(o) for o in await other.write_many([put("/b")])] == [Unavailable]
    assert not following.done()
    other.fault = None
    assert [e.kv.key for e in (await following).events] == ["/a"]
