"""Requests made at the same time share calls, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import FenceLost, Unavailable
from podsched.term.writes.shared_calls import BATCH, IN_FLIGHT, SharedCalls
from podsched.v1 import api_pb2

pytestmark = pytest.mark.looptime


class World:
    """Calls to a server that takes a second, and answers with the pod's name."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.failures: list[Exception] = []
        self.reason = ""
        self.shared = SharedCalls(self._send)
        tasks = TaskSet("the test")
        self.shared.start(tasks, "evict")
        self.running = asyncio.create_task(tasks.run())

    async def _send(
        self, requests: Sequence[api_pb2.EvictRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        self.calls.append([request.name for request in requests])
        await asyncio.sleep(1)
        if self.failures:
            raise self.failures.pop(0)
        return [api_pb2.BatchResult(message=r.name, reason=self.reason) for r in requests]

    async def call(self, *names: str) -> list[str]:
        results = await self.shared.call([api_pb2.EvictRequest(name=name) for name in names])
        return [result.message for result in results]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.running.cancel()
    await asyncio.gather(made.running, return_exceptions=True)


async def test_what_comes_while_calls_are_under_way_goes_with_the_next(world: World) -> None:
    asked = []
    for number in range(20):
        asked.append(asyncio.create_task(world.call(f"{number}a", f"{number}b")))
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*asked) == [[f"{n}a", f"{n}b"] for n in range(20)]
    assert len(world.calls) == IN_FLIGHT + 1


async def test_a_call_has_a_bounded_number_of_requests(world: World) -> None:
    await asyncio.gather(*(world.call(*(f"{n}-{i}" for i in range(100))) for n in range(8)))
    assert max(len(call) for call in world.calls) == BATCH


async def test_a_call_that_fails_fails_for_all_who_shared_it_and_is_not_repeated(
    world: World,
) -> None:
    world.failures = [Unavailable("down")]
    asked = [world.call(f"{n}") for n in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(result) for result in results] == ["down"] * 3
    assert await world.call("later") == ["later"]
    assert world.calls == [["0", "1", "2"], ["later"]]


async def test_a_cancelled_caller_does_not_disturb_the_others(world: World) -> None:
    gone = asyncio.create_task(world.call("a"))
    other = asyncio.create_task(world.call("b"))
    await asyncio.sleep(0.5)
    gone.cancel()
    assert await other == ["b"]
    assert not world.running.done()


@pytest.mark.parametrize("how", ["result", "error"])
async def test_a_lost_fence_ends_the_calls(world: World, how: str) -> None:
    if how == "result":
        world.reason = "FENCE_LOST"
    else:
        world.failures = [FenceLost("another leads")]
    asked = asyncio.create_task(world.call("a"))
    with pytest.raises(FenceLost):
        await world.running
    asked.cancel()
