"""To look for what matches among many objects does not keep others from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server import listing
from podsched.serve.server.entries import Entry
from podsched.serve.server.scope import Scope
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World

PODS = 10
NONE_OF_THEM = "app=other"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, where a look at an object takes 0.7 of a round of the event loop.

    Made before the world, whose loop would have the real clocks otherwise.
    """
    now, happened = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)
    monkeypatch.setattr(listing, "_AT_ONCE", 1)
    matches = Scope.matches

    def slowly(scope: Scope, entry: Entry) -> bool:
        nonlocal now
        now += 0.7 * ROUND
        happened.append("look")
        return matches(scope, entry)

    monkeypatch.setattr(Scope, "matches", slowly)
    return happened


@contextmanager
def others(happened: list[str]) -> Iterator[None]:
    """Somebody who has something to do in every round."""

    async def other() -> None:
        while True:
            happened.append("other")
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    try:
        yield
    finally:
        task.cancel()


def most_in_a_row(happened: list[str]) -> int:
    return max(len(looks.split()) for looks in " ".join(happened).split("other"))


async def with_pods(world: World) -> None:
    await world.core.creator.create_many([pod(f"p{number}") for number in range(PODS)])
    await world.core.reflector.wait_until_fresh()


async def test_of_a_deletion_of_a_collection(looks: list[str], world: World) -> None:
    await with_pods(world)
    request = v1.DeleteCollectionRequest(kind="Pod", label_selector=NONE_OF_THEM)
    with others(looks):
        assert await world.core.deleter.delete_collection(request) == 0
    assert looks.count("look") == PODS
    assert most_in_a_row(looks) <= 2, looks


async def test_of_a_list(looks: list[str], world: World) -> None:
    await with_pods(world)
    request = v1.ListRequest(kind="Pod", label_selector=NONE_OF_THEM)
    with others(looks):
        assert not (await world.core.lister.page(request)).entries
    assert looks.count("look") == PODS
    assert most_in_a_row(looks) <= 2, looks


async def test_of_what_a_watch_begins_with(looks: list[str], world: World) -> None:
    await with_pods(world)
    request = v1.WatchRequest(kinds=["Pod"], label_selector=NONE_OF_THEM, send_initial_events=True)
    with others(looks):
        async for response in world.responses(request):
            assert response.initial_events_end and not response.events
            break
    assert looks.count("look") == PODS
    assert most_in_a_row(looks) <= 2, looks


async def test_of_changes_that_are_not_a_watchs(looks: list[str], world: World) -> None:
    before = (await world.store.status()).revision
    await with_pods(world)
    request = v1.WatchRequest(kinds=["Pod"], label_selector=NONE_OF_THEM, from_revision=before)
    with others(looks):
        async for response in world.responses(request):
            assert not response.events  # a bookmark, when it has come to the end
            break
    assert looks.count("look") == PODS
    assert most_in_a_row(looks) <= 2, looks
