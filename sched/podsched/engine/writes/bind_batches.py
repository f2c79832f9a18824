"""Bind, in batches: what is ready while a batch is under way goes out together as the next one.

Every item ends in exactly one of ``bound`` and ``failed``. A batch whose outcome is unknown (the
connection broke) is sent again: binding a pod to the node it is bound to already is a success, so
repeating it is safe. A lost fence is reported once and fails all that is left, for a deposed
leader has nothing more to write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from podsched.api.reasons import StatusCode, StatusReason
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.v1 import api_pb2

#: Pods in one BindPods call: enough to amortise the call, few enough that a batch stays below 10
#: ms.
BATCH = 256
IN_FLIGHT = 3
RETRY_FOR = 15.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


class BinderUnavailable(Exception):
    """The call did not get through, or its outcome is unknown; the same bindings may be sent
    again.
    """


class Binder(Protocol):
    """Makes BindPods calls: directly, or through a Ray actor.

    Raises:
        BinderUnavailable: when the call failed as a whole.
    """

    async def bind(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence, traceparent: str
    ) -> Sequence[api_pb2.BatchResult]: ...


@dataclass(eq=False, slots=True)
class Assignment:
    """A pod on its way to a node, from assume to the end of the binding cycle. Times are
    monotonic seconds.
    """

    queued: QueuedPodInfo
    node_name: str
    state: CycleState
    popped_at: float
    #: When it was handed on to be bound: after the decision, or after PreBind.
    decided_at: float
    #: traceparent of the attempt, "" when it is not sampled.
    traceparent: str = ""

    @property
    def pod(self) -> PodInfo:
        return self.queued.info

    def binding(self) -> api_pb2.Binding:
        pod = self.queued.info
        return api_pb2.Binding(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=self.node_name
        )


@dataclass(frozen=True, slots=True)
class BindFailure:
    """Why a pod was not bound: the API's reason for programs, its message for people."""

    reason: str
    message: str


def _ignore_call(batch: Sequence[Assignment], seconds: float, problem: str) -> None:
    pass


class BindingQueue:
    """Sends assignments to the API server and says what became of each."""

    def __init__(
        self,
        binder: Callable[[], Binder],
        fence: api_pb2.Fence,
        bound: Callable[[Sequence[Assignment]], None],
        failed: Callable[[Assignment, BindFailure], None],
        fence_lost: Callable[[], None],
        called: Callable[[Sequence[Assignment], float, str], None] = _ignore_call,
    ) -> None:
        """called: is told of each call's seconds and "" or what was wrong with it as a whole."""
        self._binder = binder
        self._fence = fence
        self._bound = bound
        self._failed = failed
        self._fence_lost = fence_lost
        self._called = called
        self._waiting: deque[Assignment] = deque()
        self._wake = asyncio.Event()
        self._free = asyncio.Semaphore(IN_FLIGHT)
        self._running: set[asyncio.Task[None]] = set()
        self._lost = False

    def __len__(self) -> int:
        """Assignments not yet sent."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Batches under way."""
        return len(self._running)

    def submit(self, assignments: Sequence[Assignment]) -> None:
        self._waiting.extend(assignments)
        self._wake.set()

    async def run(self) -> None:
        """Send batches until cancelled."""
        try:
            while True:
                await self._wake.wait()
                await self._free.acquire()
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                if not self._waiting:
                    self._wake.clear()
                if not batch:
                    self._free.release()
                    continue
                task = asyncio.create_task(self._send(batch), name="bind batch")
                self._running.add(task)
                task.add_done_callback(self._done)
        finally:
            for task in self._running:
                task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._free.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a batch of binds ended unexpectedly", "exception": error}
            )

    async def _send(self, batch: list[Assignment]) -> None:
        bindings = [assignment.binding() for assignment in batch]
        traceparent = next((a.traceparent for a in batch if a.traceparent), "")
        pause = FIRST_PAUSE
        clock = asyncio.get_running_loop().time
        give_up = clock() + RETRY_FOR
        while not self._lost:
            began = clock()
            try:
                results = await self._binder().bind(bindings, self._fence, traceparent)
            except BinderUnavailable as exc:
                self._called(batch, clock() - began, str(exc) or "unavailable")
                if clock() > give_up:
                    self._fail_all(batch, BindFailure(StatusReason.UNAVAILABLE, str(exc)))
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            self._called(batch, clock() - began, "")
            self._sort_out(batch, results)
            return
        self._fail_all(batch, BindFailure(StatusReason.FENCE_LOST, "no longer leading"))

    def _fail_all(self, batch: Sequence[Assignment], failure: BindFailure) -> None:
        for assignment in batch:
            self._failed(assignment, failure)

    def _sort_out(
        self, batch: Sequence[Assignment], results: Sequence[api_pb2.BatchResult]
    ) -> None:
        bound = []
        for assignment, result in zip(batch, results, strict=True):
            if result.code == StatusCode.OK or self._is_there_already(assignment, result):
                bound.append(assignment)
                continue
            if result.reason == StatusReason.FENCE_LOST and not self._lost:
                self._lost = True
                self._fence_lost()
            self._failed(assignment, BindFailure(result.reason, result.message))
        if bound:
            self._bound(bound)

    @staticmethod
    def _is_there_already(assignment: Assignment, result: api_pb2.BatchResult) -> bool:
        return (
            result.reason == StatusReason.ALREADY_BOUND and result.node_name == assignment.node_name
        )
