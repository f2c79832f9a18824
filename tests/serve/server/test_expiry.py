"""Bounds on what Event objects cost."""

from __future__ import annotations

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import Event
from podsched.serve.server.core import ServerCore
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
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
