"""Bind calls: how batches form, what is repeated, what becomes of each pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from podsched.framework.status import Status
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import (
    FenceLost,
    Invalid,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)
from podsched.term.writes.bind_queue import (
    BATCH,
    IN_FLIGHT,
    OVERDUE,
    RETRY_FOR,
    Assignment,
    BindQueue,
)
from podsched.term.writes.gathering import INTERVAL
from podsched.v1 import api_pb2
from support.engine_pods import assignment

pytestmark = pytest.mark.looptime

Answer = Callable[[Sequence[api_pb2.Binding]], list[api_pb2.BatchResult]]


def all_bound(bindings: Sequence[api_pb2.Binding]) -> list[api_pb2.BatchResult]:
    return [api_pb2.BatchResult() for _ in bindings]


def fence_lost(bindings: Sequence[api_pb2.Binding]) -> list[api_pb2.BatchResult]:
    return [api_pb2.BatchResult(code=9, reason="FENCE_LOST", message="not you")] * len(bindings)


class Api:
    """A binder that takes a second for a call, or as told, and answers as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.traceparents: list[str] = []
        self.faults: list[Exception] = []
        self.down = False
        self.takes = 1.0
        self.answer: Answer = all_bound

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        self.batches.append([binding.name for binding in bindings])
        self.traceparents.append(traceparent)
        await asyncio.sleep(self.takes)
        if self.down:
            raise Unavailable("no server answers")
        if self.faults:
            raise self.faults.pop(0)
        return self.answer(bindings)


class World:
    """A queue on the API above, and what it reported of each pod."""

    def __init__(self) -> None:
        self.api = Api()
        self.names: list[str] = []
        self.failed: dict[str, str] = {}
        self.problems: list[str] = []
        self.tasks = TaskSet("the test")
        self.queue = BindQueue(self.api, api_pb2.Fence(lock="l", term=7), self)
        self.queue.start(self.tasks)
        self.running = asyncio.create_task(self.tasks.run())

    def bind_called(self, assignments: Sequence[Assignment], seconds: float, problem: str) -> None:
        self.problems.append(problem)

    def bound(self, assignments: Sequence[Assignment]) -> None:
        self.names += [a.pod.name for a in assignments]

    def bind_failed(self, assignment: Assignment, status: Status) -> None:
        assert assignment.pod.name not in self.failed
        self.failed[assignment.pod.name] = status.message

    def overtaken(self, assignment: Assignment, revision: int) -> None:
        self.failed[assignment.pod.name] = f"overtaken at {revision}"

    async def stop(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    def submit(self, *names: str) -> None:
        self.queue.submit([assignment(name) for name in names])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.stop()


async def test_what_is_ready_together_goes_out_in_one_call(world: World) -> None:
    world.submit("a", "b")
    world.submit("c")
    await asyncio.sleep(2)
    assert world.api.batches == [["a", "b", "c"]]
    assert world.names == ["a", "b", "c"]


async def test_what_comes_while_all_calls_are_out_makes_the_next_batch(world: World) -> None:
    for name in "abc":
        world.submit(name)
        await asyncio.sleep(2 * INTERVAL)
    assert world.queue.calls == IN_FLIGHT == 3
    for name in "defg":
        world.submit(name)
        await asyncio.sleep(2 * INTERVAL)
    assert len(world.queue) == 4
    await asyncio.sleep(5)
    assert world.api.batches == [["a"], ["b"], ["c"], ["d", "e", "f", "g"]]
    assert len(world.queue) == 0


async def test_calls_without_an_answer_do_not_hold_up_pods_that_come_later(world: World) -> None:
    world.api.takes = 5.0  # Writes that were sent to etcd's leader as it died.
    for name in "abc":
        world.submit(name)
        await asyncio.sleep(2 * INTERVAL)
    world.api.takes = 0.01
    world.submit("d")
    await asyncio.sleep(2 * OVERDUE)
    assert world.names == ["d"]
    world.api.takes = 5.0
    await asyncio.sleep(10)
    for name in "efgh":  # The turns have come back, once each.
        world.submit(name)
        await asyncio.sleep(2 * INTERVAL)
    assert world.queue.calls == IN_FLIGHT


async def test_the_last_of_several_pods_takes_those_before_it_along_at_once(world: World) -> None:
    world.queue.submit([assignment("a")], others_follow=True)
    world.submit("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert world.api.batches == [["a", "b"]]


async def test_a_batch_is_bounded(world: World) -> None:
    world.submit(*(f"p{i}" for i in range(BATCH + 10)))
    await asyncio.sleep(3)
    assert [len(batch) for batch in world.api.batches] == [BATCH, 10]


async def test_a_call_of_unknown_outcome_is_repeated_and_the_pod_reported_bound_once(
    world: World,
) -> None:
    world.api.faults = [OutcomeUnknown("the connection broke")]
    world.submit("a")
    await asyncio.sleep(5)
    assert world.api.batches == [["a"], ["a"]]
    assert world.names == ["a"]
    assert not world.failed


def answered(*results: api_pb2.BatchResult) -> Answer:
    """Give the first pod of each call these results in turn; all other bindings succeed."""
    left = list(results)

    def answer(bindings: Sequence[api_pb2.Binding]) -> list[api_pb2.BatchResult]:
        return [left.pop(0), *all_bound(bindings[1:])] if left else all_bound(bindings)

    return answer


UNKNOWN = api_pb2.BatchResult(code=14, reason="OUTCOME_UNKNOWN", message="etcd did not answer")
UNAVAILABLE = api_pb2.BatchResult(code=14, reason="UNAVAILABLE", message="etcd has no leader")
GONE = api_pb2.BatchResult(code=5, message="no such pod")


async def test_a_binding_of_unknown_outcome_is_repeated_until_the_store_answers(
    world: World,
) -> None:
    """It may be done after all, so the pod must not be decided for again."""
    world.api.answer = answered(UNKNOWN, UNAVAILABLE)
    world.submit("a", "b")
    await asyncio.sleep(1.1)
    assert (world.names, len(world.queue)) == (["b"], 1)
    await asyncio.sleep(4)
    assert world.api.batches == [["a", "b"], ["a"], ["a"]]
    assert world.names == ["b", "a"]
    assert not world.failed


@pytest.mark.parametrize("code", [7, 13])
async def test_a_binding_in_doubt_is_repeated_if_an_answer_tells_nothing_of_it(
    world: World, code: int
) -> None:
    """Of an API server that refuses all that it has no roles for yet, or that has a bug."""
    world.api.answer = answered(UNKNOWN, api_pb2.BatchResult(code=code, message="no"))
    world.submit("a")
    await asyncio.sleep(5)
    assert (world.names, world.failed) == (["a"], {})


async def test_a_binding_in_doubt_fails_when_the_store_says_so(world: World) -> None:
    world.api.answer = answered(UNKNOWN, GONE)
    world.submit("a")
    await asyncio.sleep(5)
    assert world.failed == {"a": "no such pod"}


async def test_a_binding_is_not_in_doubt_if_the_store_was_never_asked(world: World) -> None:
    world.api.answer = answered(UNAVAILABLE)
    world.submit("a")
    await asyncio.sleep(5)
    assert world.failed == {"a": "etcd has no leader"}
    assert world.api.batches == [["a"]]


async def test_a_call_of_unknown_outcome_is_never_given_up(world: World) -> None:
    world.api.faults = [OutcomeUnknown("the connection broke")]
    world.submit("a")
    await asyncio.sleep(1.01)
    world.api.down = True
    await asyncio.sleep(3 * RETRY_FOR)
    assert not world.failed
    world.api.down = False
    await asyncio.sleep(5)
    assert world.names == ["a"]


async def test_a_binding_in_doubt_is_not_given_up_when_a_later_call_is_refused(
    world: World,
) -> None:
    """The first call may be executed nevertheless."""
    world.api.faults = [OutcomeUnknown("the connection broke"), Unauthorized("expired")]
    world.submit("a")
    await asyncio.sleep(5)
    assert world.names == ["a"]
    assert not world.failed


async def test_being_bound_to_the_same_node_already_is_a_success(world: World) -> None:
    world.api.answer = lambda bindings: [
        api_pb2.BatchResult(code=9, reason="ALREADY_BOUND", node_name="n1")
    ]
    world.submit("a")
    await asyncio.sleep(2)
    assert world.names == ["a"]


async def test_being_bound_to_another_node_is_a_failure_of_this_pod_alone(world: World) -> None:
    world.api.answer = lambda bindings: [
        api_pb2.BatchResult(code=9, reason="ALREADY_BOUND", message="is on n2", node_name="n2"),
        api_pb2.BatchResult(),
    ]
    world.submit("a", "b")
    await asyncio.sleep(2)
    assert world.failed == {"a": "is on n2"}
    assert world.names == ["b"]


async def test_a_lost_fence_ends_the_queue_and_nothing_more_is_sent(world: World) -> None:
    world.api.answer = fence_lost
    world.submit(*(f"p{i}" for i in range(BATCH * 2)))
    with pytest.raises(FenceLost, match="not you"):
        await world.running
    world.submit("late")
    await asyncio.sleep(3)
    assert not world.names and not world.failed
    assert not any("late" in batch for batch in world.api.batches)


async def test_what_was_bound_before_the_fence_was_lost_is_reported(world: World) -> None:
    world.api.answer = lambda bindings: [*all_bound(bindings[:1]), *fence_lost(bindings[1:])]
    world.submit("a", "b")
    with pytest.raises(FenceLost):
        await world.running
    assert world.names == ["a"]
    assert not world.failed


async def test_a_call_that_cannot_be_repeated_fails_its_pods_alone(world: World) -> None:
    world.api.faults = [Invalid("nonsense")]
    world.submit("a")
    await asyncio.sleep(2)
    world.submit("b")
    await asyncio.sleep(2)
    assert world.failed == {"a": "nonsense"}
    assert world.names == ["b"]
    assert world.problems == ["nonsense", ""]


async def test_a_batch_that_raises_ends_the_queue(world: World) -> None:
    world.api.faults = [ZeroDivisionError("a bug")]
    world.submit("a")
    with pytest.raises(ZeroDivisionError) as raised:
        await world.running
    assert raised.value.__notes__ == ['in task "bind 0" of the test']


async def test_a_call_that_never_gets_through_is_given_up(world: World) -> None:
    world.api.down = True
    world.submit("a")
    await asyncio.sleep(RETRY_FOR)
    assert not world.failed
    await asyncio.sleep(5)
    assert world.failed == {"a": "no server answers"}
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
    assert world.names == ["b"]


async def test_a_batch_carries_the_trace_of_its_first_traced_pod(world: World) -> None:
    plain, traced = assignment("a"), assignment("b")
    traced.traceparent = "00-trace"
    world.queue.submit([plain, traced])
    await asyncio.sleep(2)
    assert world.api.traceparents == ["00-trace"]


async def test_calls_under_way_end_with_the_queue() -> None:
    world = World()
    world.submit("a")
    await asyncio.sleep(0.5)
    assert world.queue.calls == 1
    await world.stop()
    await asyncio.sleep(5)
    assert world.queue.calls == 0
    assert not world.names


async def test_what_was_under_way_when_the_workers_ended_is_asked_for_until_it_is_known() -> None:
    """What was answered is not, nor what was never sent; the assignments' owner hears nothing."""
    world = World()
    world.submit("answered")
    await asyncio.sleep(1.5)
    world.submit("under-way")
    await asyncio.sleep(0.5)
    world.queue.submit([assignment("never-sent")], others_follow=True)
    await world.stop()
    world.api.faults = [OutcomeUnknown("no answer"), Unavailable("no server answers")]
    answers = [UNKNOWN, UNAVAILABLE, api_pb2.BatchResult(resource_version=12)]
    world.api.answer = answered(*answers)
    assert world.queue.revision == 0
    await world.queue.ask_again()
    assert world.api.batches == [["answered"], ["under-way"], *([["under-way"]] * 5)]
    assert world.queue.revision == 12
    assert world.names == ["answered"]


async def test_asking_again_ends_for_a_call_that_is_refused() -> None:
    world = World()
    world.submit("under-way")
    await asyncio.sleep(0.5)
    await world.stop()
    world.api.faults = [Invalid("nonsense")]
    await world.queue.ask_again()
    assert len(world.api.batches) == 2


async def test_asking_again_raises_fence_lost_once_another_term_has_begun() -> None:
    world = World()
    world.submit("under-way")
    await asyncio.sleep(0.5)
    await world.stop()
    world.api.answer = fence_lost
    with pytest.raises(FenceLost):
        await world.queue.ask_again()


async def test_a_pod_that_another_scheduler_overtook_is_told_apart_from_one_that_failed(
    world: World,
) -> None:
    """A conflict that names no revision is one with the pod itself, and has failed."""
    world.api.answer = lambda bindings: [
        api_pb2.BatchResult(code=10, reason="CONFLICT", message="taken", resource_version=12),
        api_pb2.BatchResult(code=10, reason="CONFLICT", message="modified"),
    ]
    world.submit("a", "b")
    await asyncio.sleep(2)
    assert world.failed == {"a": "overtaken at 12", "b": "modified"}
