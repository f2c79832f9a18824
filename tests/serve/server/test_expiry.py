"""Bounds on what Event objects cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import Event
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.errors import NoSpace
from podsched.serve.store.protocol import LeaseGrant, Put
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest
from support.api_objects import event
from support.api_world import World, message_of


async def test_events_expire(world: World) -> None:
    """Event objects hang on an etcd lease."""
    await world.core.creator.create(event("e1"))
    kv = (await world.store.get(object_key(KINDS["Event"], "default/e1"))).kv
    assert kv is not None and kv.lease


async def test_a_lost_event_lease_is_replaced(world: World) -> None:
    """The lease shared by events has ended early: the next event gets a new one."""
    await world.core.creator.create(event("e1"))
    kv = (await world.store.get(object_key(KINDS["Event"], "default/e1"))).kv
    assert kv is not None
    await world.store.lease_revoke(kv.lease)
    await world.core.creator.create(event("e2"))


async def lease_of(world: World, name: str) -> int:
    kv = (await world.store.get(object_key(KINDS["Event"], f"default/{name}"))).kv
    assert kv is not None
    return kv.lease


async def test_events_share_the_lease_that_takes_the_place_of_a_lost_one(world: World) -> None:
    await world.core.creator.create(event("e0"))
    await world.store.lease_revoke(await lease_of(world, "e0"))
    await world.core.creator.create_many([event(f"e{number}") for number in range(1, 4)])
    assert len({await lease_of(world, f"e{number}") for number in range(1, 4)}) == 1


async def test_a_call_asks_once_for_a_lease_that_is_not_granted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without etcd, each Event of a batch waited for seconds."""
    asked: list[int] = []

    async def refuse(_store: MemoryStore, ttl: int) -> LeaseGrant:
        asked.append(ttl)
        raise NoSpace("etcd has no space")

    monkeypatch.setattr(MemoryStore, "lease_grant", refuse)
    outcomes = await world.core.creator.create_many([event("e1"), event("e2")])
    assert all(isinstance(outcome, ApiError) for outcome in outcomes)
    assert len(asked) == 1


async def repeat(world: World, name: str, count: int) -> None:
    merge = b'{"count": %d}' % count
    request = PatchRequest(kind="Event", namespace="default", name=name, merge_patch=merge)
    (outcome,) = await world.core.registry.patch([request], None)
    if isinstance(outcome, ApiError):
        raise outcome


async def test_an_event_that_is_repeated_still_expires(world: World) -> None:
    """A put without a lease would detach it."""
    await world.core.creator.create(event("e1"))
    await repeat(world, "e1", 2)
    assert await lease_of(world, "e1")


async def test_an_event_can_be_repeated_after_a_lease_was_lost(world: World) -> None:
    for name in ("e1", "e2"):
        await world.core.creator.create(event(name))
    key = object_key(KINDS["Event"], "default/e2")
    kv = (await world.store.get(key)).kv
    assert kv is not None
    await world.store.txn([], [Put(key, kv.value)])  # so that it outlives the lease
    await world.store.lease_revoke(kv.lease)
    with pytest.raises(ApiError, match="lease has ended"):
        await repeat(world, "e2", 2)
    await repeat(world, "e2", 2)
    assert await lease_of(world, "e2") != kv.lease


async def test_a_full_etcd_still_takes_deletions_of_events(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need no lease, which it does not grant."""
    await world.core.creator.create(event("e1"))

    async def refuse(_store: MemoryStore, _ttl: int) -> LeaseGrant:
        raise NoSpace("etcd has no space")

    monkeypatch.setattr(MemoryStore, "lease_grant", refuse)
    started_again = await world.another()
    deletion = DeleteRequest(kind="Event", namespace="default", name="e1")
    await started_again.deleter.delete(deletion)
    assert (await world.store.get(object_key(KINDS["Event"], "default/e1"))).kv is None


async def test_the_oldest_events_make_room() -> None:
    """The number of events is bounded, and the newest stay."""
    core = ServerCore(ServerSettings(max_events=10), MemoryStore())
    await core.start()
    for number in range(20):
        created = await core.creator.create(event(f"e{number}"))
        assert isinstance(message_of(created), Event)
        await core.reflector.wait_until_fresh()
    names = set(core.cache.objects(created.kind))
    assert len(names) <= 10
    assert "default/e19" in names
    await core.stop()


def event_about(number: int) -> Event:
    """Each about another pod: a source may report only so much about one."""
    item = event(f"e{number}")
    item.involved_object.name = f"pod-{number}"
    return item


@asynccontextmanager
async def servers(count: int) -> AsyncIterator[list[ServerCore]]:
    """Servers on one store, where 10 Events are permitted."""
    store, settings = MemoryStore(), ServerSettings(max_events=10)
    cores = [ServerCore(settings, store.session()) for _ in range(count)]
    for core in cores:
        await core.start()
    yield cores
    for core in cores:
        await core.stop()


async def test_several_servers_remove_no_event_twice_and_keep_to_the_number() -> None:
    async with servers(3) as cores:
        for number in range(90):
            await cores[number % 3].creator.create(event_about(number))
            for core in cores:
                await core.reflector.wait_until_fresh()
        assert len(cores[0].cache.objects(KINDS["Event"])) == 10


async def test_servers_that_remove_the_same_events_at_once_make_up_for_it() -> None:
    async with servers(3) as cores:
        for number in range(0, 90, 3):
            await asyncio.gather(
                *(core.creator.create(event_about(number + at)) for at, core in enumerate(cores))
            )
            for core in cores:
                await core.reflector.wait_until_fresh()
        assert len(cores[0].cache.objects(KINDS["Event"])) <= 15


async def test_an_event_that_was_created_again_is_not_the_oldest() -> None:
    async with servers(1) as (core,):
        for number in range(11):
            await core.creator.create(event_about(number))
            await core.reflector.wait_until_fresh()
        deletion = DeleteRequest(kind="Event", namespace="default", name="e1")
        await core.deleter.delete(deletion)
        await core.reflector.wait_until_fresh()
        for number in (1, 11):
            await core.creator.create(event_about(number))
            await core.reflector.wait_until_fresh()
        assert "default/e1" in core.cache.objects(KINDS["Event"])


async def test_the_oldest_event_can_be_deleted_and_created_again_at_once() -> None:
    """Its removal would be of the same write, which cannot also put its key."""
    async with servers(1) as (core,):
        for number in range(10):
            await core.creator.create(event_about(number))
        await core.reflector.wait_until_fresh()
        await core.deleter.delete(DeleteRequest(kind="Event", namespace="default", name="e0"))
        await core.creator.create(event_about(0))
