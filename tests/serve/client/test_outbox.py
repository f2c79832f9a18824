from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import pytest

from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.client.errors import (
    ClientError,
    FenceLost,
    Invalid,
    ServerBug,
    TooLarge,
    Unavailable,
    of_result,
)
from podsched.serve.client.outbox import Outbox
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


class Choosy:
    """Refuses every call that has a poison in it, or all of them."""

    def __init__(self, poison: Collection[str], error: ClientError | None = None) -> None:
        self.poison = poison
        self.error = error or ServerBug("nonsense")
        self.calls = 0
        self.written: list[str] = []

    async def send(self, items: Sequence[str]) -> Sequence[BatchResult]:
        self.calls += 1
        await asyncio.sleep(0.001)
        if set(items) & set(self.poison):
            raise self.error
        self.written += items
        return [BatchResult()] * len(items)


async def flushed(choosy: Choosy, items: Sequence[str]) -> dict[str, ClientError | None]:
    """What becomes of each item of one batch."""
    outcomes: dict[str, ClientError | None] = {}
    outbox = Outbox(choosy.send, lambda key, _, result: outcomes.update({key: of_result(result)}))
    for item in items:
        outbox.put(item, item)
    await outbox.flush(len(items))
    assert not outbox.calls
    return outcomes


async def test_an_item_for_which_whole_calls_fail_costs_only_itself() -> None:
    items = [str(number) for number in range(500)]
    choosy = Choosy({"7", "8", "499"})
    outcomes = await flushed(choosy, items)
    assert choosy.written == [item for item in items if item not in choosy.poison]
    failed = {item for item, error in outcomes.items() if error is not None}
    assert failed == choosy.poison and len(outcomes) == 500
    assert isinstance(outcomes["7"], ServerBug) and outcomes["7"].message == "nonsense"
    assert choosy.calls < 60


async def test_a_fault_of_all_items_is_not_searched_for_in_each() -> None:
    items = [str(number) for number in range(500)]
    choosy = Choosy(items)
    outcomes = await flushed(choosy, items)
    assert len(outcomes) == 500 and all(outcomes.values())
    assert choosy.calls < 40


async def test_a_full_store_is_no_fault_of_an_item() -> None:
    items = [str(number) for number in range(500)]
    choosy = Choosy(items, TooLarge("etcd is full", reason=StatusReason.STORE_FULL))
    outcomes = await flushed(choosy, items)
    assert len(outcomes) == 500 and all(outcomes.values())
    assert choosy.calls == 1


async def test_what_is_dropped_while_a_batch_is_being_searched_is_not_sent() -> None:
    choosy = Choosy({"bad"})
    outbox = Outbox(choosy.send)
    for item in ("bad", "good", "dropped"):
        outbox.put(item, item)
    flush = asyncio.create_task(outbox.flush(3))
    await asyncio.sleep(0.0015)
    outbox.drop("dropped")
    await flush
    assert choosy.written == ["good"]


async def test_what_sends_can_leave_out_what_has_been_dropped_since_it_was_called() -> None:
    written: list[str] = []
    answers: list[str] = []

    async def send(items: Sequence[str]) -> Sequence[BatchResult | None]:
        await asyncio.sleep(1)
        wanted = [outbox.is_wanted(item) for item in items]
        written.extend(item for item, kept in zip(items, wanted, strict=True) if kept)
        return [BatchResult() if kept else None for kept in wanted]

    outbox = Outbox(send, lambda key, item, result: answers.append(key))
    for item in ("dropped", "kept", "renewed"):
        outbox.put(item, f"the {item}")
    flush = asyncio.create_task(outbox.flush(3))
    await asyncio.sleep(0.5)
    outbox.drop("dropped")
    outbox.drop("renewed")
    outbox.put("renewed", "the new one")
    await flush
    assert (written, answers) == (["the kept"], ["kept"])
    await outbox.flush(3)
    assert written == ["the kept", "the new one"]


async def test_a_failed_call_goes_on_with_what_comes_later(
    server: Server, outbox: Outbox[str]
) -> None:
    server.faults = [Invalid("nonsense")]
    outbox.put("a", "1")
    await asyncio.sleep(2)
    outbox.put("b", "2")
    await asyncio.sleep(2)
    assert server.batches == [["2"]]
    assert server.answers == [("a", StatusCode.INVALID_ARGUMENT), ("b", 0)]


async def test_a_lost_fence_ends_it(server: Server) -> None:
    server.faults = [FenceLost("over")]
    outbox = Outbox(server.send, given_up=lambda items, error: None)
    outbox.put("a", "1")
    outbox.put("b", "1")
    with pytest.raises(FenceLost):
        await outbox.run()


async def test_a_lost_fence_of_an_item_ends_the_outbox_before_any_item_is_answered() -> None:
    async def send(items: Sequence[str]) -> Sequence[BatchResult | None]:
        lost = BatchResult(code=StatusCode.FAILED_PRECONDITION, reason=StatusReason.FENCE_LOST)
        return [BatchResult(), None, lost]

    answers: list[str] = []
    outbox = Outbox(send, lambda key, item, result: answers.append(key))
    for key in ("a", "b", "c"):
        outbox.put(key, key)
    with pytest.raises(FenceLost):
        await outbox.run()
    assert answers == []
