"""Bind pods in batches: assignments that get ready during a call are sent with the next one.

Each assignment is reported to exactly one of ``bound``, ``bind_failed`` and ``overtaken`` of
``Outcomes``, unless the fence is lost: FenceLost ends the queue, because a deposed leader must not
write. If the outcome of a batch, or of one of its bindings, is unknown (the connection broke, etcd
did not answer), it is sent again. This is safe: binding a pod to the node to which it is already
bound is a success.

    submitted --> sent --answered--------------> reported
                   ^ |
                   | '--unknown--> in doubt --the store answered--> reported
                   '----AGAIN_AFTER---'

A binding in doubt is never given up, although others are: the write may still be executed, so its
pod must stay assumed. Otherwise its room would be given to another pod, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from podsched.api.reasons import StatusCode, StatusReason
from podsched.api.trace_context import joined
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Status, error
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError, Unavailable, of_result, tells_nothing
from podsched.serve.client.outbox import Outbox
from podsched.term.writes.gathering import Gathering
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Pods in one BindPods call: enough to amortise the call, few enough that it stays below 10 ms.
BATCH = 256
#: Max concurrent calls: while the store commits one, the server validates the next.
IN_FLIGHT = 3
#: After this many seconds a call is overdue and no longer counts for IN_FLIGHT; and max overdue
#: calls. A write that was sent to etcd's leader as it died is not answered for 5 s
#: (``serve.store.groupcommit``), and must not keep other bindings waiting.
OVERDUE, MOST_OVERDUE = 0.4, 4
#: Max seconds for which a call is repeated after retryable errors.
RETRY_FOR = 15.0
#: Seconds after which a binding in doubt is sent again.
AGAIN_AFTER = 0.2


class Binder(Protocol):
    """Makes BindPods calls: an ``ApiClient``, or Ray actors."""

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        """Return a result for each binding. Raises ClientError when the call fails as a whole."""


class GroupMember(Protocol):
    """Receives what happens to the assignments of a pod group's members."""

    def ready(self, assignment: Assignment) -> None:
        """Note that the member has passed Permit and PreBind."""

    def rejected(self, assignment: Assignment, status: Status) -> None:
        """Note that Permit or PreBind rejected the member; undo it, maybe with all others later."""

    def bound(self, assignment: Assignment) -> None:
        """Note that the member is bound."""

    def undone(self, assignment: Assignment) -> None:
        """Note that the member was undone after its binding failed."""


@dataclass(eq=False, slots=True)
class Assignment:
    """A pod on its way to a node, from assume to the end of the binding cycle."""

    queued: QueuedPodInfo
    node_name: str
    state: CycleState
    #: The revision of the cluster that the decision was based on; 0: unknown.
    revision: int = 0
    #: The trace context of the attempt's Bind, "" if it is not traced.
    traceparent: str = ""
    #: The group that the pod starts with.
    group: GroupMember | None = None
    #: Annotations that the binding sets on the pod.
    annotations: Mapping[str, str] | None = None
    #: Tolerations that the pod gets before it is bound.
    tolerations: Sequence[v1.Toleration] = ()
    #: Whether the node was written to the pod's status before Bind.
    published: bool = False

    @property
    def pod(self) -> PodInfo:
        return self.queued.info

    def binding(self) -> api_pb2.Binding:
        """Return the message that requests the binding."""
        pod = self.queued.info
        binding = api_pb2.Binding(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            node_name=self.node_name,
            revision=self.revision,
        )
        if self.annotations:  # Most have none, and an empty map would cost as much as the rest.
            binding.annotations.update(self.annotations)
        return binding


class Outcomes(Protocol):
    """The owner of the assignments, to which the outcomes of Bind are reported."""

    def bind_called(self, assignments: Sequence[Assignment], seconds: float, problem: str) -> None:
        """Count a call; ``problem`` is "" if it was answered."""

    def bound(self, assignments: Sequence[Assignment]) -> None:
        """Finish the binding cycles of pods that are bound."""

    def bind_failed(self, assignment: Assignment, status: Status) -> None:
        """Undo an assignment that could not be bound."""

    def overtaken(self, assignment: Assignment, revision: int) -> None:
        """Decide again once the state has this revision: another scheduler has used the room."""


class BindQueue:
    """Sends assignments to the API server and reports the outcome of each."""

    def __init__(self, binder: Binder, fence: api_pb2.Fence, outcomes: Outcomes) -> None:
        self._binder = binder
        self._fence = fence
        self._outcomes = outcomes
        self._outbox: Outbox[Assignment] = Outbox(
            self._send, most=BATCH, retry_for=RETRY_FOR, given_up=self._given_up
        )
        #: By uid, the assignments that were sent and not answered yet.
        self._sent: dict[str, Assignment] = {}
        self._turns = asyncio.Semaphore(IN_FLIGHT)
        #: The uids of pods whose binding is in doubt, and the assignments to be sent again.
        self._doubtful: set[str] = set()
        self._to_repeat: list[Assignment] = []
        #: The calls that are not overdue.
        self._in_time: set[object] = set()
        self._gathering: Gathering[Assignment] = Gathering(self._put)
        #: A revision that includes all bindings answered so far.
        self.revision = 0

    def __len__(self) -> int:
        """Return the number of assignments that wait to be sent, or to be sent again."""
        return len(self._outbox) + len(self._gathering) + len(self._to_repeat)

    @property
    def calls(self) -> int:
        """The number of batches being sent."""
        return self._outbox.calls

    def start(self, tasks: TaskSet) -> None:
        """Start the workers that send what is submitted."""
        # As many as there may be calls, overdue ones included.
        for number in range(IN_FLIGHT + MOST_OVERDUE):
            tasks.start(self._work(), f"bind {number}", endless=True)

    async def _work(self) -> None:
        """Send batch after batch; an overdue call leaves its turn to another worker."""
        loop = asyncio.get_running_loop()
        while True:
            await self._turns.acquire()
            await self._outbox.wait()
            call = object()
            self._in_time.add(call)
            timer = loop.call_later(OVERDUE, self._end_turn, call)
            await self._outbox.flush(BATCH)
            timer.cancel()
            self._end_turn(call)

    def _end_turn(self, call: object) -> None:
        # Only once: both the timer and the end of the call come here.
        if call in self._in_time:
            self._in_time.remove(call)
            self._turns.release()

    async def ask_again(self) -> None:
        """Find out the outcomes of calls that were in progress when the workers ended.

        These calls may still be executed, and the next state must know their pods' room. So they
        are sent again, and each gets its final answer: a pod that was bound meanwhile counts as a
        success. ``Outcomes`` is not called, because its state is discarded.

        Raises:
            FenceLost: another replica leads.
        """
        asked: Outbox[Assignment] = Outbox(
            self._ask, most=BATCH, given_up=lambda batch, _: self._forget(*batch)
        )
        while self._sent:
            for uid, assignment in self._sent.items():
                asked.put(uid, assignment)
            while len(asked):
                await asked.flush(BATCH)
            if self._sent:
                await asyncio.sleep(AGAIN_AFTER)

    async def _ask(self, batch: Sequence[Assignment]) -> Sequence[api_pb2.BatchResult]:
        results = await self._call(batch)
        answers = zip(batch, map(of_result, results), strict=True)
        self._forget(*(a for a, failure in answers if not isinstance(failure, Unavailable)))
        return results

    def submit(self, assignments: Sequence[Assignment], *, others_follow: bool = False) -> None:
        """Bind these pods with the next call; ``others_follow``: wait a little for more."""
        others_wait = len(self._outbox) > 0
        self._gathering.add(assignments, others_follow=others_follow, others_wait=others_wait)

    def _put(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._outbox.put(assignment.pod.uid, assignment)

    async def _send(self, batch: Sequence[Assignment]) -> Sequence[api_pb2.BatchResult]:
        # Before the call: if the term ends during it, ``ask_again`` has to know the batch.
        self._sent.update((assignment.pod.uid, assignment) for assignment in batch)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            results = await self._call(batch)
        except ClientError as failure:
            self._outcomes.bind_called(batch, clock() - began, str(failure) or "unavailable")
            if failure.outcome_unknown:
                self._doubtful.update(assignment.pod.uid for assignment in batch)
            raise
        self._outcomes.bind_called(batch, clock() - began, "")
        self._report(batch, results)
        return results

    async def _call(self, batch: Sequence[Assignment]) -> Sequence[api_pb2.BatchResult]:
        results = await self._binder.bind_pods(
            [assignment.binding() for assignment in batch],
            fence=self._fence,
            traceparent=joined(a.traceparent for a in batch),
        )
        self.revision = max([self.revision, *(result.resource_version for result in results)])
        return results

    def _forget(self, *assignments: Assignment) -> None:
        """Drop assignments whose outcome is known."""
        for assignment in assignments:
            self._sent.pop(assignment.pod.uid, None)
            self._doubtful.discard(assignment.pod.uid)

    def _report(self, batch: Sequence[Assignment], results: Sequence[api_pb2.BatchResult]) -> None:
        bound = []
        for assignment, result in zip(batch, results, strict=True):
            if result.code == StatusCode.OK or _is_there_already(assignment, result):
                bound.append(assignment)
            elif self._repeats(assignment, of_result(result)):
                continue
            elif result.reason == StatusReason.CONFLICT and result.resource_version:
                self._outcomes.overtaken(assignment, result.resource_version)
            elif result.reason != StatusReason.FENCE_LOST:
                self._outcomes.bind_failed(assignment, error(result.message))
            self._forget(assignment)
        if bound:
            # Before the outbox raises FenceLost: these were bound while the fence still held.
            self._outcomes.bound(bound)

    def _repeats(self, assignment: Assignment, failure: ClientError | None) -> bool:
        """Arrange for a binding to be sent again if it is in doubt after this answer."""
        uid = assignment.pod.uid
        if failure is not None and failure.outcome_unknown:
            self._doubtful.add(uid)
        if uid not in self._doubtful or not tells_nothing(failure):
            return False
        self._send_again(assignment)
        return True

    def _send_again(self, assignment: Assignment) -> None:
        if not self._to_repeat:
            asyncio.get_running_loop().call_later(AGAIN_AFTER, self._repeat)
        self._to_repeat.append(assignment)

    def _repeat(self) -> None:
        repeated, self._to_repeat = self._to_repeat, []
        self._put(repeated)

    def _given_up(self, batch: Sequence[Assignment], failure: ClientError) -> None:
        for assignment in batch:
            # A call that failed as a whole, for whatever cause, says nothing of the one before.
            if assignment.pod.uid in self._doubtful:
                self._send_again(assignment)
            else:
                self._forget(assignment)
                self._outcomes.bind_failed(assignment, error(str(failure)))


def _is_there_already(assignment: Assignment, result: api_pb2.BatchResult) -> bool:
    # The answer of an earlier call with this binding was lost.
    return result.reason == StatusReason.ALREADY_BOUND and result.node_name == assignment.node_name
