"""Evictions asked for at the same time share calls, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podsched.engine.writes.evictions import BATCH, EvictionBatches
from podsched.v1 import api_pb2


class Server:
    """Answers with the pod's name, once it is let."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.open = asyncio.Event()
        self.failure: Exception | None = None

    async def send(self, requests: Sequence[api_pb2.EvictRequest]) -> Sequence[api_pb2.BatchResult]:
        self.calls.append([request.name for request in requests])
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return [api_pb2.BatchResult(message=request.name) for request in requests]


def requests(*names: str) -> list[api_pb2.EvictRequest]:
    return [api_pb2.EvictRequest(name=name) for name in names]


async def test_what_comes_while_calls_are_under_way_goes_with_the_next() -> None:
    server = Server()
    batches = EvictionBatches(server.send)
    asked = [asyncio.create_task(batches.evict(requests(f"{n}a", f"{n}b"))) for n in range(20)]
    await asyncio.sleep(0)
    server.open.set()
    answers = await asyncio.gather(*asked)
    assert [[r.message for r in answer] for answer in answers] == [
        [f"{n}a", f"{n}b"] for n in range(20)
    ]
    assert len(server.calls) < 4
    await batches.stop()


async def test_a_call_has_no_more_than_so_many_requests() -> None:
    server = Server()
    server.open.set()
    batches = EvictionBatches(server.send)
    asked = [batches.evict(requests(*(f"{n}-{i}" for i in range(100)))) for n in range(8)]
    await asyncio.gather(*asked)
    assert max(len(call) for call in server.calls) <= BATCH
    await batches.stop()


async def test_a_call_that_fails_fails_for_all_who_shared_it() -> None:
    server = Server()
    server.open.set()
    server.failure = ConnectionError("gone")
    batches = EvictionBatches(server.send)
    asked = [batches.evict(requests(f"{n}")) for n in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert results == [server.failure] * 3
    server.failure = None
    assert [r.message for r in await batches.evict(requests("later"))] == ["later"]
    await batches.stop()


async def test_stopping_cancels_those_who_wait() -> None:
    server = Server()
    batches = EvictionBatches(server.send)
    asked = asyncio.create_task(batches.evict(requests("a")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await batches.stop()
    with pytest.raises(asyncio.CancelledError):
        await asked
