from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from podsched.client.errors import Invalid, Unavailable
from podsched.client.outbox import Outbox
from podsched.v1.api_pb2 import BatchResult

pytestmark = pytest.mark.looptime


class Server:
    """Takes batches, slowly, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.answers: list[tuple[str, int]] = []
        self.faults: list[Exception] = []

    async def send(self, items: Sequence[str]) -> Sequence[BatchResult]:
        await asyncio.sleep(1)
        if self.faults:
            raise self.faults.pop(0)
        self.batches.append(list(items))
        return [BatchResult(code=5 if item == "bad" else 0) for item in items]

    def answered(self, key: str, item: str, result: BatchResult) -> None:
        self.answers.append((key, result.code))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def outbox(server: Server) -> AsyncIterator[Outbox[str]]:
    outbox = Outbox(server.send, server.answered, most=3)
    running = asyncio.create_task(outbox.run())
    yield outbox
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_waits_while_a_batch_is_out_makes_the_next(
    server: Server, outbox: Outbox[str]
) -> None:
    outbox.put("a", "1")
    await asyncio.sleep(0.5)
    for key in "bcde":
        outbox.put(key, key)
    await asyncio.sleep(5)
    assert server.batches == [["1"], ["b", "c", "d"], ["e"]]


async def test_the_newest_for_a_key_is_sent(server: Server, outbox: Outbox[str]) -> None:
    outbox.put("a", "old")
    outbox.put("a", "new")
    outbox.put("b", "dropped")
    outbox.drop("b")
    await asyncio.sleep(2)
    assert server.batches == [["new"]]


async def test_an_outage_is_waited_out_and_newer_writes_win(
    server: Server, outbox: Outbox[str]
) -> None:
    server.faults = [Unavailable("down"), Unavailable("down")]
    outbox.put("a", "old")
    outbox.put("b", "kept")
    await asyncio.sleep(0.5)
    outbox.put("a", "new")
    await asyncio.sleep(10)
    assert server.batches == [["new", "kept"]]


async def test_each_item_hears_what_became_of_it(server: Server, outbox: Outbox[str]) -> None:
    outbox.put("a", "good")
    outbox.put("b", "bad")
    await asyncio.sleep(2)
    assert server.answers == [("a", 0), ("b", 5)]


async def test_a_mistake_ends_it(server: Server) -> None:
    server.faults = [Invalid("nonsense")]
    outbox = Outbox(server.send)
    outbox.put("a", "1")
    with pytest.raises(Invalid):
        await outbox.run()
