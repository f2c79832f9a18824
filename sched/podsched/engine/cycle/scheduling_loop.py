"""One term of leadership: pods are popped, decided, assumed and bound until the term ends.

The loop is synchronous between two awaits: a run of pods of one class is popped, decided on
and assumed in one go, so nothing it read can change under it. What follows (Permit, PreBind, Bind,
evictions, statuses, events) happens beside it. Every way a pod can leave a term is one of: bound,
back in the queue, deleted; a term that ends drops the rest, since the state is built anew.

    popped --skipped (deleting, bound)--------------------------------------> done
    popped --no node fits--> PostFilter --> status, event, back to the queue
    popped --error--------------------------> status, event, back to the queue (error backoff)
    popped --assumed--> Reserve --> Permit --> (waits) --> PreBind --> Bind --> bound
                           |          |          |           |          |
                           '----------'----------'-----------'----------'--> undone, queue
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from podsched.client.cluster import Cluster
from podsched.client.errors import FenceLost
from podsched.config.settings import SchedulerSettings
from podsched.engine.cycle.auditor import Auditor, RecentEvents
from podsched.engine.cycle.cycle_metrics import CycleMeter
from podsched.engine.cycle.failure import (
    REASON_UNSCHEDULABLE,
    Failure,
)
from podsched.engine.cycle.failure_handler import FailureHandler
from podsched.engine.cycle.placement import Decision, Placer
from podsched.engine.cycle.pre_bind import ClusterChanges, run_pre_bind, wants_pre_bind
from podsched.engine.cycle.preemption import PREEMPTED, Evictor, Preemption
from podsched.engine.cycle.reserve_permit import (
    refused,
    run_permit,
    run_post_bind,
    run_reserve,
    run_unreserve,
)
from podsched.engine.extenders.binding import ExtenderBinding
from podsched.engine.extenders.calls import Extenders
from podsched.engine.extenders.placement import ExtendedPlacer
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.engine.state import SchedulingState
from podsched.engine.writes.bind_batches import Assignment, Binder, BindFailure, BindingQueue
from podsched.engine.writes.event_recorder import EventRecorder
from podsched.engine.writes.evictions import EvictionBatches
from podsched.engine.writes.fenced_writes import FencedWrites
from podsched.engine.writes.status_writer import StatusWriter
from podsched.framework.plugin import CycleState, PostFilterResult
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.preemption import EvictionListener
from podsched.framework.status import Code, Status
from podsched.telemetry.logs import get_logger
from podsched.telemetry.tracing import SpanName
from podsched.v1 import api_pb2

_log = get_logger("scheduler")

#: Assignments waiting to be bound beyond which no more pods are popped: assuming further ahead
#: gains nothing and makes a failover forget more.
MAX_AHEAD = 1024
#: Seconds that popped pods may wait for extenders to answer about those before them. Then they go
#: back to the queue, where others may have come that are more important.
LONGEST_TURN = 0.1


@dataclass(slots=True)
class LoopParts:
    """What a term works with."""

    state: SchedulingState
    cluster: Cluster
    fence: api_pb2.Fence
    decider: Placer
    binder: Callable[[], Binder]
    recorder: EventRecorder
    meter: CycleMeter
    settings: SchedulerSettings
    extenders: Extenders | None = None


class SchedulingLoop:
    """One term of leadership; ``run`` returns when cancelled or when the fence is lost."""

    def __init__(self, parts: LoopParts, changes: ClusterChanges) -> None:
        self._state = parts.state
        self._cluster = parts.cluster
        self._fence = parts.fence
        self._decider = parts.decider
        self._recorder = parts.recorder
        self._meter = parts.meter
        self._settings = parts.settings
        self._changes = changes
        self._over = asyncio.Event()
        self._wake = asyncio.Event()
        self._bind_room = asyncio.Event()
        self.waiting = parts.state.waiting
        self._slow: dict[str, asyncio.Task[None]] = {}
        #: By uid of a pod whose binding cycle was cancelled: the plugin that preempted it.
        self._preempted_by: dict[str, str] = {}
        self._writes = FencedWrites(parts.cluster, parts.fence, self._fence_lost)
        self._statuses = StatusWriter(self._writes.patch_statuses, self._fence_lost)
        self._binding = BindingQueue(
            parts.binder,
            parts.fence,
            self._bound,
            self._bind_failed,
            self._fence_lost,
            self._meter.bind_called,
        )
        self._extended: ExtendedPlacer | None = None
        self._extender_binding: ExtenderBinding | None = None
        if parts.extenders is not None:
            running = self._meter.prioritizing_extender
            self._extended = ExtendedPlacer(parts.state, parts.decider, parts.extenders, running)
            self._extender_binding = ExtenderBinding(
                parts.extenders,
                parts.state.cache,
                changes,
                self._bound,
                self._bind_failed,
                self._binding.submit,
            )
        self._clock = asyncio.get_running_loop().time
        self._failures = FailureHandler(
            parts.state, parts.recorder, self._statuses, self._meter, self._clock
        )
        self._evictions = EvictionBatches(self._writes.evict)
        self._evictor = Evictor(
            self._evictions.evict,
            self.waiting,
            self._preempt_in_pre_bind,
            self._failures.record_preempted,
            self._activate,
            self._meter.preemption_finished,
        )
        self._state.callbacks.deleted_while_assumed = self._deleted_while_assumed
        self._state.callbacks.deleted_while_pending = lambda pod: self._meter.preemptor_is_gone(
            pod.uid
        )
        recent = RecentEvents()
        self._state.callbacks.changed = recent.note
        self._auditor = Auditor(parts.state, parts.decider, recent, parts.settings.audit_sample)

    # ------------------------------------------------------------------ the loop

    def wake(self) -> None:
        """Something happened that may have put pods into the queue."""
        self._wake.set()

    @property
    def busy(self) -> bool:
        """Whether pods are waiting to be tried or bound."""
        return bool(self._ahead) or self._state.queue.counts()["active"] > 0

    @property
    def binding_tasks(self) -> int:
        """Tasks of the binding cycle: batches of bindings, and pods at Permit or PreBind."""
        return self._binding.in_flight + len(self._slow)

    @property
    def _ahead(self) -> int:
        """Pods assumed and not yet bound, as far as they have come to Bind."""
        by_extenders = len(self._extender_binding) if self._extender_binding is not None else 0
        return len(self._binding) + by_extenders

    async def run(self) -> None:
        """Schedules until the term is over.

        Raises:
            FenceLost: another replica leads.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._binding.run(), name="bind"),
                    group.create_task(self._statuses.run(), name="write statuses"),
                    group.create_task(self._loop(), name="scheduling loop"),
                    group.create_task(self._audit(), name="audit"),
                    group.create_task(self._watch_fence(), name="watch the fence"),
                ]
                await self._over.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._over.set()
            for task in self._slow.values():
                task.cancel()
            await self._evictor.stop()
            await self._evictions.stop()
            if self._extender_binding is not None:
                await self._extender_binding.stop()
        raise FenceLost("another replica leads")

    async def _watch_fence(self) -> None:
        await self._over.wait()

    def _fence_lost(self) -> None:
        self._meter.fence_lost()
        self._over.set()

    async def _loop(self) -> None:
        queue = self._state.queue
        while not self._over.is_set():
            now = self._clock()
            wakeup = queue.next_wakeup(now)
            if wakeup is not None and wakeup <= now:
                queue.flush(now)
            if self._ahead > MAX_AHEAD:
                self._bind_room.clear()
                await self._bind_room.wait()
                continue
            batch = queue.pop_batch(now, self._settings.max_batch)
            if not batch:
                await self._idle(now)
                continue
            await self._schedule(batch, now)
            await asyncio.sleep(0)

    async def _idle(self, now: float) -> None:
        """Wait until an event comes or a flush is due."""
        self._wake.clear()
        wakeup = self._state.queue.next_wakeup(now)
        timeout = None if wakeup is None else max(0.0, wakeup - now)
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _audit(self) -> None:
        """Look for pods that would fit and were not woken, while there is nothing else to do."""
        while self._settings.audit_period:
            await asyncio.sleep(self._settings.audit_period)
            if self.busy:
                continue
            before = self._auditor.audited
            missed = self._auditor.audit()
            self._meter.audited(self._auditor.audited - before, missed)
            for found in missed:
                _log.warning(
                    "A pod that fits had not been woken",
                    pod=found.pod.key,
                    node=found.node_name,
                    should_have_been_woken_by=found.event,
                    plugins=sorted(found.plugins),
                )
            if missed:
                self._state.queue.activate([found.pod for found in missed], self._clock())
                self._wake.set()

    # ------------------------------------------------------------------ the scheduling cycle

    async def _schedule(self, batch: list[QueuedPodInfo], now: float) -> None:
        pods = [queued for queued in batch if not self._skip(queued)]
        if not pods:
            return
        runtime = self._state.profiles[pods[0].info.cls.scheduler_name]
        self._meter.popped(pods, now)
        if self._extended is not None and self._extended.takes(pods[0].info.cls):
            await self._schedule_extended(self._extended, runtime, pods, now)
            return
        remaining = pods
        while remaining:
            first = remaining[0]
            if await self._decider.prepare(runtime, first.info, self._meter.traceparent(first)):
                # Time has passed: some of the pods may be gone by now.
                remaining = [queued for queued in remaining if not self._skip(queued)]
                if not remaining:
                    return
            began = self._clock()
            decisions = self._decider.decide(runtime, remaining)
            phases = self._decider.evaluation(runtime, first.info.cls).cost.phases
            self._meter.decided(runtime.scheduler_name, decisions, began, self._clock(), phases)
            remaining = remaining[len(decisions) :]
            unplaced = decisions.pop() if decisions[-1].diagnosis is not None else None
            self._settle_all(runtime, decisions, now)
            if unplaced is not None:
                remaining = await self._settle_unplaced(runtime, unplaced, remaining, now)
            if remaining:
                await asyncio.sleep(0)

    def _settle_all(
        self, runtime: ProfileRuntime, decisions: Sequence[Decision], popped_at: float
    ) -> None:
        ready = []
        for decision in decisions:
            assignment = self._settle(runtime, decision, popped_at)
            self._activate_wanted(decision.state)
            if assignment is not None:
                ready.append(assignment)
        self._bind(ready)

    async def _settle_unplaced(
        self,
        runtime: ProfileRuntime,
        decision: Decision,
        others: list[QueuedPodInfo],
        popped_at: float,
    ) -> list[QueuedPodInfo]:
        """Follows up that a pod fits nowhere, after actors have tried whom it may preempt.

        That takes time: the pod may fit by now, and it and the others may be gone. Returns the
        others that are not.
        """
        queued, decisions = decision.queued, [decision]
        traceparent = self._meter.traceparent(queued)
        if await self._decider.prepare_post_filter(runtime, decision, traceparent):
            others = [other for other in others if not self._skip(other)]
            decisions = [] if self._skip(queued) else self._decider.decide(runtime, [queued])
        self._settle_all(runtime, decisions, popped_at)
        return others

    async def _schedule_extended(
        self,
        extended: ExtendedPlacer,
        runtime: ProfileRuntime,
        pods: list[QueuedPodInfo],
        popped_at: float,
    ) -> None:
        """One pod after another, since extenders are asked about each."""
        for at, queued in enumerate(pods):
            began = self._clock()
            if at and began - popped_at > LONGEST_TURN:
                self._state.queue.return_unattempted(pods[at:], began)
                for returned in pods[at:]:
                    self._meter.postponed(returned)
                return
            if at and self._skip(queued):
                continue
            decision = await extended.decide(runtime, queued, self._meter.traceparent(queued))
            if decision is None:
                self._skip(queued)
                continue
            self._meter.decided(runtime.scheduler_name, [decision], began, self._clock())
            if decision.diagnosis is None:
                assignment = self._settle(runtime, decision, popped_at)
                self._bind([assignment] if assignment is not None else [])
            else:
                result = await extended.post_filter(runtime, decision)
                if not self._skip(queued):
                    self._no_node_fits(runtime, decision, result)
            self._activate_wanted(decision.state)

    def _bind(self, assignments: Sequence[Assignment]) -> None:
        """Send assignments on their way: to an extender that binds such pods, or to the API."""
        if (by_extender := self._extender_binding) is not None:
            assignments = [a for a in assignments if not by_extender.start(a)]
        if assignments:
            self._binding.submit(assignments)

    def _skip(self, queued: QueuedPodInfo) -> bool:
        """S3: pods that are going or gone, or are assumed or bound already."""
        pod = queued.info
        known = self._state.cache.cluster.pods.get(pod.key)
        if pod.terminating:
            self._failures.record(pod, f"skip schedule deleting pod: {pod.key}")
        elif known is not None and known.uid == pod.uid and not self._state.cache.pod(pod.uid):
            return False
        self._state.queue.done(pod.uid)
        self._meter.dropped(queued)
        return True

    def _settle(
        self, runtime: ProfileRuntime, decision: Decision, popped_at: float
    ) -> Assignment | None:
        """Follows a decision up; returns what may be bound at once."""
        queued = decision.queued
        if decision.error is not None:
            self._failures.fail_with_error(queued, decision.error.message)
            return None
        if decision.diagnosis is not None:
            self._no_node_fits(runtime, decision, self._decider.post_filter(runtime, decision))
            return None
        assignment = Assignment(
            queued,
            decision.node_name,
            decision.state,
            popped_at,
            self._clock(),
            self._meter.traceparent(queued),
        )
        return self._reserve_and_permit(runtime, assignment)

    def _reserve_and_permit(
        self, runtime: ProfileRuntime, assignment: Assignment
    ) -> Assignment | None:
        timeouts: dict[str, float] = {}
        began = self._clock()
        status = run_reserve(runtime, assignment)
        self._meter.phase(assignment.queued, SpanName.RESERVE, began, self._clock(), status.message)
        if status.ok:
            status, timeouts = run_permit(runtime, assignment)
        if not status.ok:
            self._undo(runtime, assignment, status, at_once=True)
            return None
        if timeouts or (runtime.pre_bind and wants_pre_bind(runtime, assignment)):
            self._start_slow(runtime, assignment, timeouts)
            return None
        self._state.queue.done(assignment.pod.uid)
        return assignment

    def _no_node_fits(
        self, runtime: ProfileRuntime, decision: Decision, result: PostFilterResult | None
    ) -> None:
        queued, diagnosis = decision.queued, decision.diagnosis
        assert diagnosis is not None
        pod = queued.info
        if result is not None:
            if not result.status.ok:
                diagnosis.post_filter_message = result.status.message
            if result.status.code is Code.ERROR:
                _log.error("PostFilter failed", pod=pod.key, error=result.status.message)
            self._nominate(runtime, pod, result)
        self._meter.unschedulable(queued)
        message = diagnosis.fit_error()
        self._failures.record(pod, message)
        nominated = result.nominated_node_name if result is not None else None
        if not diagnosis.num_all_nodes:
            self._state.cache.nominator.delete(pod.uid)
            nominated = ""
        self._failures.write_status(pod, Failure(REASON_UNSCHEDULABLE, message, nominated))
        self._failures.requeue(queued, diagnosis.unschedulable_plugins, diagnosis.pending_plugins)

    def _nominate(self, runtime: ProfileRuntime, pod: PodInfo, result: PostFilterResult) -> None:
        if result.nominated_node_name is None:
            return
        if not result.nominated_node_name:
            self._state.cache.nominator.delete(pod.uid)
            return
        self._state.cache.nominate(pod, result.nominated_node_name)
        if result.victims is None:
            return
        self._meter.preempting(pod.uid, result.nominated_node_name, len(result.victims.pods))
        name = result.status.plugin
        plugin = runtime.plugins.get(name)
        listener = plugin if isinstance(plugin, EvictionListener) else None
        node_name, victims = result.nominated_node_name, result.victims
        preemption = Preemption(pod, node_name, victims, name, listener)
        if not preemption.evicts_anybody:
            return
        self._clear_lower_nominations(pod, node_name)
        self._evictor.start(preemption)

    def _clear_lower_nominations(self, pod: PodInfo, node_name: str) -> None:
        """P9: pods of lower priority do not get the room that is being made."""
        now = self._clock()
        for other in list(self._state.cache.cluster.nominated_pods(node_name)):
            if other.priority < pod.priority:
                self._state.cache.nominator.delete(other.uid)
                patch = api_pb2.PodStatusPatch(
                    namespace=other.namespace, name=other.name, uid=other.uid
                )
                patch.nominated_node_name = ""
                self._statuses.submit(patch)
                self._state.queue.activate([other], now)

    # ------------------------------------------------------------------ the slow binding cycle

    def _start_slow(
        self, runtime: ProfileRuntime, assignment: Assignment, timeouts: dict[str, float]
    ) -> None:
        pod = assignment.pod
        waiting = self.waiting.add(pod, assignment.node_name, timeouts) if timeouts else None
        # B4: where the pod will be bound to is published before anything has to be waited for.
        patch = api_pb2.PodStatusPatch(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        patch.nominated_node_name = assignment.node_name
        self._statuses.submit(patch)

        async def cycle() -> None:
            began = self._clock()
            try:
                status = refused(await waiting.outcome()) if waiting is not None else Status()
                if waiting is not None:
                    self.waiting.remove(pod.uid)
                    self._meter.permitted(assignment.queued, status, began, self._clock())
                if status.ok:
                    began = self._clock()
                    self._state.queue.done(pod.uid)
                    status = await run_pre_bind(
                        runtime,
                        assignment,
                        self._state.cache.cluster,
                        self._writes.patch_objects,
                        self._changes,
                    )
            except asyncio.CancelledError:
                if self._over.is_set():
                    raise
                self.waiting.remove(pod.uid)
                status = self._preempted_status(pod)
            if status.ok:
                assignment.decided_at = self._clock()
                self._meter.phase(
                    assignment.queued, SpanName.PRE_BIND, began, assignment.decided_at
                )
                self._bind([assignment])
            else:
                self._undo(runtime, assignment, status)

        task = asyncio.create_task(cycle(), name=f"binding cycle of {pod.key}")
        self._slow[pod.uid] = task
        task.add_done_callback(lambda _: self._slow_ended(runtime, assignment, task))

    def _slow_ended(
        self, runtime: ProfileRuntime, assignment: Assignment, task: asyncio.Task[None]
    ) -> None:
        uid = assignment.pod.uid
        if self._slow.get(uid) is task:
            del self._slow[uid]
        if task.cancelled() and not self._over.is_set():
            # Cancelled before its first step: nothing of the cycle has run, so nothing undid it.
            self.waiting.remove(uid)
            self._undo(runtime, assignment, self._preempted_status(assignment.pod))

    def _preempted_status(self, pod: PodInfo) -> Status:
        return Status(Code.UNSCHEDULABLE, (PREEMPTED,), self._preempted_by.pop(pod.uid, ""))

    # ------------------------------------------------------------------ outcomes of Bind

    def _bound(self, assignments: Sequence[Assignment]) -> None:
        now = self._clock()
        cache = self._state.cache
        for assignment in assignments:
            pod, node = assignment.pod, assignment.node_name
            cache.finish_binding(pod.uid)
            runtime = self._state.profiles[pod.cls.scheduler_name]
            run_post_bind(runtime, assignment)
            self._activate_wanted(assignment.state)
            self._recorder.record(
                pod.pod.metadata,
                type_="Normal",
                reason="Scheduled",
                action="Binding",
                message=f"Successfully assigned {pod.key} to {node}",
                controller=pod.cls.scheduler_name,
            )
        self._meter.bound(assignments, now)
        self._bind_room.set()

    def _bind_failed(self, assignment: Assignment, failure: BindFailure) -> None:
        self._bind_room.set()
        runtime = self._state.profiles[assignment.pod.cls.scheduler_name]
        self._undo(runtime, assignment, Status(Code.ERROR, (failure.message,), "DefaultBinder"))

    def _undo(
        self,
        runtime: ProfileRuntime,
        assignment: Assignment,
        status: Status,
        *,
        at_once: bool = False,
    ) -> None:
        """B6: takes the assumption back and gives the pod and those it stood in the way another
        try.

        ``at_once``: no time has passed since the pod was assumed, so it stood in nobody's way but
        those decided on together with it.
        """
        pod, cache = assignment.pod, self._state.cache
        run_unreserve(runtime, assignment)
        change = cache.forget(pod) if cache.is_assumed(pod.uid) else None
        known = cache.cluster.pods.get(pod.key)
        if known is None or known.uid != pod.uid or known.node_name:
            self._state.queue.done(pod.uid)
            self._meter.dropped(assignment.queued)
        else:
            self._return(assignment, status)
        if change is not None and at_once:
            self._state.queue.note_for_in_flight(change.event, change.old, change.new)
        elif change is not None:
            # Its own room does not help the pod: it would be tried, and rejected, again and again.
            self._state.queue.move_all_to_active_or_backoff(
                change.event, change.old, change.new, self._clock(), except_uid=pod.uid
            )
        self._wake.set()

    def _return(self, assignment: Assignment, status: Status) -> None:
        """Tells why the pod was not bound, and puts it back into the queue."""
        pod = assignment.pod
        if status.code.rejects:
            self._meter.unschedulable(assignment.queued)
            self._failures.record(pod, status.message)
            self._failures.write(pod, REASON_UNSCHEDULABLE, status.message)
            plugins = {status.plugin} if status.plugin else set()
            pending = plugins if status.code is Code.PENDING else set()
            self._failures.requeue(assignment.queued, plugins - pending, pending)
        else:
            self._failures.fail_with_error(assignment.queued, status.message)

    def _deleted_while_assumed(self, pod: PodInfo) -> None:
        task = self._slow.get(pod.uid)
        waiting = self.waiting.get(pod.uid)
        if waiting is not None:
            waiting.reject("", "the pod was deleted")
        elif task is not None:
            task.cancel()

    def _preempt_in_pre_bind(self, victim: PodInfo, plugin: str) -> bool:
        task = self._slow.get(victim.uid)
        if task is None or task.done():
            return False
        self._preempted_by[victim.uid] = plugin
        task.cancel()
        return True

    # ------------------------------------------------------------------ activation

    def _activate_wanted(self, state: CycleState) -> None:
        """Q13: the pods that plugins of this cycle want tried again."""
        if state.pods_to_activate:
            pods = list(state.pods_to_activate.values())
            state.pods_to_activate.clear()
            self._state.queue.activate(pods, self._clock())
            self._wake.set()

    def _activate(self, pod: PodInfo) -> None:
        self._state.queue.activate([pod], self._clock())
        self._wake.set()
