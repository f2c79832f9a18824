"""Bind calls: how batches form, what is repeated, what becomes of each pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from podsched.engine.writes.bind_batches import (
    BATCH,
    IN_FLIGHT,
    RETRY_FOR,
    Assignment,
    BinderUnavailable,
    BindFailure,
    BindingQueue,
)
from podsched.v1 import api_pb2
from support.engine_pods import assignment

pytestmark = pytest.mark.looptime

Answer = Callable[[Sequence[api_pb2.Binding]], list[api_pb2.BatchResult]]


def all_bound(bindings: Sequence[api_pb2.Binding]) -> list[api_pb2.BatchResult]:
    return [api_pb2.BatchResult() for _ in bindings]


def fence_lost(bindings: Sequence[api_pb2.Binding]) -> list[api_pb2.BatchResult]:
    return [api_pb2.BatchResult(code=9, reason="FENCE_LOST", message="not you")] * len(bindings)


class Api:
    """A binder that takes a second for each call and answers as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.traceparents: list[str] = []
        self.faults: list[Exception] = []
        self.down = False
        self.answer: Answer = all_bound

    async def bind(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence, traceparent: str
    ) -> Sequence[api_pb2.BatchResult]:
        self.batches.append([binding.name for binding in bindings])
        self.traceparents.append(traceparent)
        await asyncio.sleep(1)
        if self.down:
            raise BinderUnavailable("nobody answers")
        if self.faults:
            raise self.faults.pop(0)
        return self.answer(bindings)


class World:
    """A queue on the API above, and what it said of each pod."""

    def __init__(self) -> None:
        self.api = Api()
        self.bound: list[str] = []
        self.failed: dict[str, BindFailure] = {}
        self.fences_lost = 0
        fence = api_pb2.Fence(lock="l", term=7)
        self.queue = BindingQueue(
            lambda: self.api, fence, self._bound, self._failed, self._lost_fence
        )

    def _bound(self, assignments: Sequence[Assignment]) -> None:
        self.bound += [a.pod.name for a in assignments]

    def _failed(self, item: Assignment, failure: BindFailure) -> None:
        assert item.pod.name not in self.failed
        self.failed[item.pod.name] = failure

    def _lost_fence(self) -> None:
        self.fences_lost += 1

    def submit(self, *names: str) -> None:
        self.queue.submit([assignment(name) for name in names])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    running = asyncio.create_task(made.queue.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_ready_together_goes_out_in_one_call(world: World) -> None:
    world.submit("a", "b")
    world.submit("c")
    await asyncio.sleep(2)
    assert world.api.batches == [["a", "b", "c"]]
    assert world.bound == ["a", "b", "c"]


async def test_what_comes_while_all_calls_are_out_makes_the_next_batch(world: World) -> None:
    for name in "abc":
        world.submit(name)
        await asyncio.sleep(0.1)
    assert world.queue.in_flight == IN_FLIGHT == 3
    for name in "defg":
        world.submit(name)
        await asyncio.sleep(0.1)
    assert len(world.queue) == 4
    await asyncio.sleep(5)
    assert world.api.batches == [["a"], ["b"], ["c"], ["d", "e", "f", "g"]]
    assert len(world.queue) == 0


async def test_a_batch_is_bounded(world: World) -> None:
    world.submit(*(f"p{i}" for i in range(BATCH + 10)))
    await asyncio.sleep(3)
    assert [len(batch) for batch in world.api.batches] == [BATCH, 10]


async def test_a_call_of_unknown_outcome_is_repeated_and_the_pod_reported_bound_once(
    world: World,
) -> None:
    world.api.faults = [BinderUnavailable("the connection broke")]
    world.submit("a")
    await asyncio.sleep(5)
    assert world.api.batches == [["a"], ["a"]]
    assert world.bound == ["a"]
    assert not world.failed


async def test_being_bound_to_the_same_node_already_is_a_success(world: World) -> None:
    world.api.answer = lambda bindings: [
        api_pb2.BatchResult(code=9, reason="ALREADY_BOUND", node_name="n1")
    ]
    world.submit("a")
    await asyncio.sleep(2)
    assert world.bound == ["a"]


async def test_being_bound_to_another_node_is_a_failure_of_this_pod_alone(world: World) -> None:
    world.api.answer = lambda bindings: [
        api_pb2.BatchResult(code=9, reason="ALREADY_BOUND", message="is on n2", node_name="n2"),
        api_pb2.BatchResult(),
    ]
    world.submit("a", "b")
    await asyncio.sleep(2)
    assert world.failed == {"a": BindFailure("ALREADY_BOUND", "is on n2")}
    assert world.bound == ["b"]


async def test_a_lost_fence_fails_all_that_is_left_and_is_told_once(world: World) -> None:
    world.api.answer = fence_lost
    world.submit(*(f"p{i}" for i in range(BATCH * 2)))
    await asyncio.sleep(3)
    world.submit("late")
    await asyncio.sleep(3)
    assert world.fences_lost == 1
    assert len(world.failed) == BATCH * 2 + 1
    assert {failure.reason for failure in world.failed.values()} == {"FENCE_LOST"}
    assert not any("late" in batch for batch in world.api.batches)


async def test_a_call_that_never_gets_through_is_given_up(world: World) -> None:
    world.api.down = True
    world.submit("a")
    await asyncio.sleep(RETRY_FOR)
    assert not world.failed
    await asyncio.sleep(5)
    assert world.failed == {"a": BindFailure("UNAVAILABLE", "nobody answers")}
    calls = len(world.api.batches)
    await asyncio.sleep(60)
    assert len(world.api.batches) == calls


async def test_after_giving_up_later_pods_are_bound(world: World) -> None:
    world.api.down = True
    world.submit("a")
    await asyncio.sleep(RETRY_FOR + 5)
    world.api.down = False
    world.submit("b")
    await asyncio.sleep(2)
    assert world.bound == ["b"]


async def test_a_batch_carries_the_trace_of_its_first_traced_pod(world: World) -> None:
    plain, traced = assignment("a"), assignment("b")
    traced.traceparent = "00-trace"
    world.queue.submit([plain, traced])
    await asyncio.sleep(2)
    assert world.api.traceparents == ["00-trace"]


async def test_calls_under_way_end_with_the_queue() -> None:
    world = World()
    running = asyncio.create_task(world.queue.run())
    world.submit("a")
    await asyncio.sleep(0.5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(5)
    assert world.queue.in_flight == 0
    assert not world.bound
