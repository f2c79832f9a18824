"""An API server whose store is restored from a backup under it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from podsched.api.kinds import KINDS
from podsched.serve.server import cache_reflector
from podsched.serve.server.errors import ApiError
from podsched.serve.store.protocol import RangeResult
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, pod
from support.api_world import World
from support.eventually import PATIENCE, eventually

PODS = v1.ListRequest(kind="Pod")


async def names(world: World) -> list[str]:
    page = await world.core.lister.page(PODS)
    return [entry.key.rpartition("/")[2] for entry in page.entries]


async def lose(world: World) -> int:
    """Restore a backup in which there is one pod of three; return the last revision before."""
    await world.core.creator.create(pod("kept"))
    backup = world.store.backup()
    for name in ("lost-0", "lost-1"):
        await world.core.creator.create(pod(name))
    await world.core.reflector.wait_until_fresh()
    before = world.core.cache.revision
    world.store.restore(backup)
    await eventually("the cache goes back", lambda: world.core.cache.revision < before)
    return before


async def test_it_lists_again_and_says_so(world: World) -> None:
    with capture_logs() as logs:
        await lose(world)
    assert await names(world) == ["kept"]
    assert any("restored from a backup" in line["event"] for line in logs)


async def test_until_then_it_shows_nothing_of_the_lost_history(world: World) -> None:
    await world.core.creator.create(pod("kept"))
    backup = world.store.backup()
    await world.core.creator.create(pod("lost"))
    await world.core.reflector.wait_until_fresh()
    world.store.restore(backup)
    with pytest.raises(ApiError, match="restored from a backup"):
        await names(world)


async def test_what_is_written_afterwards_is_seen_at_once(world: World) -> None:
    await lose(world)
    await world.core.creator.create(pod("new"))
    assert await names(world) == ["kept", "new"]
    await world.core.pods.bind([binding("new", "worker-1")], None)


async def test_watchers_are_told_to_list_again(world: World) -> None:
    async def follow() -> None:
        async for _ in world.responses(v1.WatchRequest(kinds=["Pod"], send_initial_events=True)):
            pass

    watching = asyncio.create_task(follow())
    await asyncio.sleep(0.01)
    await lose(world)
    with pytest.raises(ApiError) as caught:
        await asyncio.wait_for(watching, PATIENCE)
    assert caught.value.reason == "COMPACTED"


async def test_who_comes_with_a_revision_of_the_lost_history_is_told_to_list_again(
    world: World,
) -> None:
    """A client that was cut off meanwhile, or was with another server."""
    before = await lose(world)
    with pytest.raises(ApiError) as caught:
        await anext(world.responses(v1.WatchRequest(kinds=["Pod"], from_revision=before)))
    assert caught.value.reason == "COMPACTED"


async def test_a_list_that_goes_on_from_a_lost_state_is_refused(world: World) -> None:
    """OUT_OF_RANGE: list again; not that the store is unavailable."""
    await world.core.creator.create_many([pod("a"), pod("b")])
    backup = world.store.backup()
    await world.core.creator.create(pod("lost"))
    first = await world.core.lister.page(v1.ListRequest(kind="Pod", limit=1))
    world.store.restore(backup)
    await eventually("the cache goes back", lambda: world.core.cache.revision < first.revision)
    with pytest.raises(ApiError) as caught:
        await world.core.lister.page(v1.ListRequest(kind="Pod", **{"continue": first.token}))
    assert caught.value.reason == "COMPACTED"


async def test_who_waits_for_a_revision_of_the_lost_history_waits_no_longer(world: World) -> None:
    waiting = asyncio.create_task(
        world.core.cache.progress.wait_for(world.core.cache.revision + 1000)
    )
    await lose(world)
    await asyncio.wait_for(waiting, PATIENCE)


async def test_a_list_goes_on_anew_if_the_store_is_restored_between_its_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.core.creator.create(pod("kept"))
    backup = world.store.backup()
    await world.core.creator.create(pod("lost"))
    monkeypatch.setattr(cache_reflector, "_PAGE", 1)
    listed = MemoryStore.range

    async def restored(store: MemoryStore, prefix: str, **options: Any) -> RangeResult:
        page = await listed(store, prefix, **options)
        if "revision" not in options and backups:
            world.store.restore(backups.pop())
        return page

    backups = [backup]
    monkeypatch.setattr(MemoryStore, "range", restored)
    other = await world.another()
    assert "default/lost" not in other.cache.objects(KINDS["Pod"])
    assert "default/kept" in other.cache.objects(KINDS["Pod"])
