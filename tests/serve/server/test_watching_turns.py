"""Encoding many objects for a watch keeps no other task waiting, also if they make one response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server.change_ring import Change
from podsched.serve.server.entries import Entry
from podsched.serve.server.scope import Scope
from podsched.serve.server.watching import GrpcEncoding
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World

PODS = 10


class Slow(GrpcEncoding):
    """Takes 0.7 of a round of the event loop for each object or change, as JSON of large ones."""

    def __init__(self) -> None:
        super().__init__(idle=1.0)
        self.now = 0.0
        self.happened: list[str] = []

    def added(self, entry: Entry) -> bytes:
        self._work()
        return super().added(entry)

    def event(self, scope: Scope, change: Change) -> bytes | None:
        self._work()
        return super().event(scope, change)

    def _work(self) -> None:
        self.now += 0.7 * ROUND
        self.happened.append("work")

    @property
    def most_in_a_row(self) -> int:
        return max(len(work.split()) for work in " ".join(self.happened).split("other"))


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Slow]:
    """Made before the world, whose loop would have the real clocks otherwise."""
    encoding = Slow()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: encoding.now)

    async def other() -> None:
        while True:
            encoding.happened.append("other")
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    yield encoding
    task.cancel()


async def watched(world: World, slow: Slow, **options: object) -> None:
    """Watch until an event of each pod has come."""
    request = v1.WatchRequest(kinds=["Pod"], **options)  # type: ignore[arg-type]
    seen = 0
    async with aclosing(world.core.watcher.watch(request, slow)) as responses:
        async for response in responses:
            seen += len(v1.WatchResponse.FromString(response).events)
            if seen == PODS:
                return


@pytest.mark.parametrize("initial", [True, False])
async def test_others_go_on_while_a_watch_is_encoded(
    slow: Slow, world: World, initial: bool
) -> None:
    before = world.core.cache.revision
    await world.core.creator.create_many([pod(f"p{number}") for number in range(PODS)])
    await world.core.reflector.wait_until_fresh()
    slow.happened.clear()
    if initial:
        await watched(world, slow, send_initial_events=True)
    else:
        await watched(world, slow, from_revision=before)
    assert slow.most_in_a_row <= 2
