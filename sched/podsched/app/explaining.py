"""Answer Explain questions one after another, with pauses for scheduling in between.

An explanation blocks the event loop while it is computed (30 ms at 5,000 nodes). If changes that
would help are requested, copying the state blocks it for as long again; the search then runs in a
thread. While the leader has pods to decide, each answer is followed by a pause of ``_REST`` times
its duration, so that decisions get most of the time. Questions that wait too long time out. A
caller that gives up makes no room for the next one before its thread and this pause have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, cast

from podsched.api.objects import Pod, seconds_of, timestamp
from podsched.api.reasons import StatusCode
from podsched.app.answering import Unanswerable
from podsched.ask.decisions.log import DecisionLog
from podsched.ask.decisions.rows import DecisionQuery
from podsched.ask.explain.changes.search import add_changes
from podsched.ask.explain.decided import Recorded
from podsched.ask.explain.eta import add_eta
from podsched.ask.live_explanation import Clock, explain_live
from podsched.ask.queues.counting import pods_in, sibling_queues
from podsched.ask.queues.node_room import add_node_room
from podsched.ask.queues.waiting import preempted_pods
from podsched.ask.whatif.pod_group_explanation import explain_pod_group
from podsched.ask.whatif.world import World
from podsched.framework.pod_groups import KIND as POD_GROUP
from podsched.lib.tasks import in_thread
from podsched.serve.client.cluster import InformerPort
from podsched.term.admission.units import unit_key
from podsched.term.state import SchedulingState
from podsched.v1.scheduling_pb2 import (
    Answer,
    ExplainRequest,
    Explanation,
    PodState,
    Question,
    ReplicaState,
)

#: The pause after an answer, in multiples of its duration; see the module.
_REST: Final = 4.0
_STANDBY: Final = (
    "This replica stands by and schedules nothing, so its queue may differ from the leader's."
)
#: Seconds for the replica to see the revision that the caller has seen; standbys get changes four
#: times a second.
_CATCH_UP_SECONDS: Final = 5.0
#: Seconds after which the search for changes that help a pod group ends.
_GROUP_SECONDS: Final = 3.0
_ONE_MEMBER: Final = "This is for one member; room for all members at once may come later."
#: Max decisions on other pods that are read; some of them may be earlier than this one.
_MOST_MEANWHILE: Final = 2000
#: The log orders decisions by their end, after the binding: for this many seconds after a decision,
#: bindings of earlier decisions may still end.
_BINDING_SECONDS: Final = 1.0
#: Max explanations that wait for their turn.
_MOST_WAITING: Final = 32
#: Seconds between two checks of whether the queues have been read, which may take seconds.
_LOOK_EVERY: Final = 0.01


class Explaining:
    """Answers Explain questions from a replica's state."""

    def __init__(
        self,
        state: Callable[[], SchedulingState | None],
        replica: Callable[[], ReplicaState],
        informer: InformerPort,
        decisions: DecisionLog | None = None,
    ) -> None:
        """``state``: returns the state; None while it is being built."""
        self._state = state
        self._replica = replica
        self._informer = informer
        self._decisions = decisions
        self._turn = asyncio.Lock()
        #: When the pause after the last answer ends.
        self._rests_until = 0.0
        self._waiting = 0

    async def answer(self, question: Question) -> AsyncGenerator[Answer, None]:
        """Explain one pod or pod group. Raises Unanswerable."""
        if self._waiting >= _MOST_WAITING:
            why = f"{_MOST_WAITING} explanations are waiting for their turn already"
            raise Unanswerable(StatusCode.RESOURCE_EXHAUSTED, why)
        self._waiting += 1
        try:
            if question.revision:
                await self._catch_up(question.revision)
            async with self._turn:
                await asyncio.sleep(self._rests_until - time.monotonic())
                recorded = await self._recorded(question)
                answer = await self._answered(question.explain, recorded)
            yield Answer(explanation=answer)
        finally:
            self._waiting -= 1

    async def _answered(self, asked: ExplainRequest, recorded: Recorded) -> Explanation:
        state = await self._between_decisions()
        began = time.monotonic()
        try:
            answer = self._explain(state, asked, recorded)
            is_pending = answer.state == PodState.PENDING
            if is_pending and (asked.changes or asked.kind == POD_GROUP):
                await self._add_search(state, asked, answer)
            return answer
        finally:
            ended = time.monotonic()
            self._rests_until = ended + (ended - began) * _REST if self._is_wanted() else 0.0

    async def _between_decisions(self) -> SchedulingState:
        """Return the state once no trial is open, and queues are read. Raises Unanswerable."""
        while (state := self._state()) is not None:
            if state.after_trial.is_open:
                await state.after_trial.wait()
            elif state.admission.is_refreshing:
                await asyncio.sleep(_LOOK_EVERY)
            else:
                return state
        why = f"replica {self._replica().name} is loading the cluster's state"
        raise Unanswerable(StatusCode.UNAVAILABLE, why)

    def _is_wanted(self) -> bool:
        """Whether the leader has pods to decide."""
        state = self._state()
        if state is None or not self._replica().leading:
            return False
        return len(state.queue.pending.active) > 0

    async def _catch_up(self, revision: int) -> None:
        """Wait until the replica has seen a revision. Raises Unanswerable."""
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                await self._informer.wait_for_revision(revision)
        except TimeoutError:
            behind = f"replica {self._replica().name} is behind: it has not seen the pod yet"
            raise Unanswerable(StatusCode.UNAVAILABLE, behind) from None

    def _stored(self) -> Mapping[str, Pod]:
        """Return the pods of the informer, which unlike the cache also has finished pods."""
        return cast(Mapping[str, Pod], self._informer.objects("Pod"))

    async def _recorded(self, question: Question) -> Recorded:
        """Return the recorded decisions on the pod, read by a thread."""
        log, asked = self._decisions, question.explain
        # From the informer, because an open trial may have taken the pod out of the cache.
        pod = self._stored().get(f"{asked.namespace}/{asked.name}")
        if log is None or pod is None:
            return Recorded()
        return await in_thread(lambda: _read(log, pod))

    def _explain(
        self, state: SchedulingState, asked: ExplainRequest, recorded: Recorded
    ) -> Explanation:
        replica, clock = self._replica(), Clock(asyncio.get_running_loop().time(), time.time())
        began = time.perf_counter()
        stored = self._stored().get(f"{asked.namespace}/{asked.name}")
        found = explain_live(state, asked, clock, stored, recorded)
        if found is None:
            plural = "podgroups" if asked.kind == POD_GROUP else "pods"
            raise Unanswerable(StatusCode.NOT_FOUND, f'{plural} "{asked.name}" not found')
        if not replica.leading and found.state == PodState.PENDING:
            found.notes.append(_STANDBY)
        by = found.answered_by
        by.replica, by.identity = replica.name, replica.identity
        by.leading, by.term = replica.leading, replica.term
        by.time.CopyFrom(timestamp(clock.unix))
        by.took_ms = round((time.perf_counter() - began) * 1000, 3)
        return found

    async def _add_search(
        self, state: SchedulingState, asked: ExplainRequest, answer: Explanation
    ) -> None:
        """Add to a pending pod's or group's answer what a thread finds on a copy of the state.

        That is where a group fits, whether nodes have room, what would help, and the estimate.
        """
        cluster, held = state.cache.cluster, state.cache.held
        is_group, key = asked.kind == POD_GROUP, f"{asked.namespace}/{asked.name}"
        if is_group:
            unit, pod = key, next(pod for pod in cluster.members(key) if pod.uid not in held)
        elif key in cluster.pods:
            pod = cluster.pods[key]
            unit = unit_key(pod)
        else:
            return  # It is set aside: nothing but a change of the pod itself helps.
        world = World.on_copy(state.cache, state.profiles)
        until = time.monotonic() + _GROUP_SECONDS
        stored = list(self._stored().values())
        victims = preempted_pods(state.admission, unit)
        queues = sibling_queues(state.admission, unit)

        def is_over() -> bool:
            return time.monotonic() > until

        def look() -> None:
            if is_group:
                explain_pod_group(answer, world, key, is_over, changes=asked.changes)
            add_node_room(answer, world, unit, victims)
            if not asked.changes:
                return
            if not is_group:
                add_changes(answer, world.question(pod))
            add_eta(answer, pods_in(queues, world.cluster, stored), pod, time.time())
            if is_group and answer.HasField("eta"):
                answer.eta.basis.append(_ONE_MEMBER)

        await in_thread(look)


def _read(log: DecisionLog, pod: Pod) -> Recorded:
    """Return the decisions on a pod, and those on others while it waited for its node."""
    about = pod.metadata
    recorded = Recorded(log.latest(about.namespace, about.name, about.uid))
    deciding = recorded.deciding
    if deciding is None:
        return recorded
    waited = (deciding.queued_time, deciding.decided_time)
    since, until = map(seconds_of, waited)
    until += _BINDING_SECONDS
    query = DecisionQuery(since=since, until=until, limit=_MOST_MEANWHILE)
    meanwhile = log.find(query).records
    return Recorded(recorded.decisions, meanwhile, len(meanwhile) == _MOST_MEANWHILE)
