"""The objects that chaos runs create."""

from __future__ import annotations

from podsched.lab.chaos import shapes
from podsched.serve.server.core import ServerCore
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore


async def test_the_api_server_takes_every_object_of_the_workload() -> None:
    store = MemoryStore()
    core = ServerCore(ServerSettings(), store)
    await core.start()
    for item in shapes.fixed():
        await core.creator.create(item)
    group, members = shapes.gang("gang", 2)
    pods = [
        *members,
        *(shapes.made(name, name) for name in ("plain", "spread", "low", "high", "guarded")),
        shapes.with_port("port", 8080),
        shapes.claiming("claiming", "claim"),
        shapes.with_devices("own"),
        *(shapes.with_devices(f"of-{name}", name) for name in shapes.SHARED_CLAIMS),
    ]
    for item in (group, shapes.made("claim", "claim"), *pods):
        await core.creator.create(item)
    await core.stop()
    await store.close()
