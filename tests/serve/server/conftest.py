"""An API server without transport, on a store in memory, with two nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podsched.serve.server.core import ServerCore
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.api_objects import node
from support.api_world import World


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(bookmark_seconds=0.05)


@pytest.fixture
async def world(settings: ServerSettings) -> AsyncIterator[World]:
    store = MemoryStore()
    core = ServerCore(settings, store, now=lambda: world.now)
    world = World(store, core)
    await core.start()
    await core.creator.create_many([node("worker-1"), node("worker-2")])
    yield world
    for server in (core, *world.others):
        await server.stop()
    await store.close()
