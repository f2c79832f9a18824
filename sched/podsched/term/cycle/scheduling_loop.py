"""The scheduling loop: pops, schedules and binds pods until the term ends.

    queue --pop--> SchedulingCycle --assumed--> BindingCycle --> bound
      ^                  |                          |
      '---- FailureHandler <------ undone ----------'

All tasks of a term are in one set; the first that fails, or a lost fence, ends the term. Its
assumptions are dropped with its state, because the next term builds a new state from the cluster's
objects, in which every pod is bound, pending or gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from podsched.cache.changes import Change
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.lib.due_times import earliest
from podsched.lib.event_loop import Turn
from podsched.lib.tasks import TaskSet
from podsched.queue.attempts import of_one_class
from podsched.serve.client.errors import FenceLost
from podsched.term.checkpoint import checkpoint_of
from podsched.term.cycle.activation import Activator
from podsched.term.cycle.admission_cycle import AdmissionCycle
from podsched.term.cycle.auditor import Auditor, RecentEvents
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.cycle_metrics import BINDING_CALL, STATUS_CALL
from podsched.term.cycle.decision_notes import DecisionNotes
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import LoopParts, TermPart, TermParts
from podsched.term.cycle.plugin_patches import PluginPatches
from podsched.term.cycle.pod_group_cycle import PodGroupCycle
from podsched.term.cycle.pod_group_follow_up import PodGroupFollowUp
from podsched.term.cycle.pod_group_start import GroupStarts
from podsched.term.cycle.pod_group_taking_back import TakingBack
from podsched.term.cycle.pod_reports import PodReports
from podsched.term.cycle.preemption import Evictor
from podsched.term.cycle.queue_statuses import QueueStatuses
from podsched.term.cycle.scheduling_cycle import SchedulingCycle
from podsched.term.cycle.unit_endings import UnitEndings
from podsched.term.faulty_pods import PodFault, working_on
from podsched.term.state import NoListener
from podsched.term.writes.pod_group_conditions import GroupOutcomes, PodGroupConditions
from podsched.term.writes.shared_calls import Results, SharedCalls
from podsched.term.writes.status_writer import StatusWriter
from podsched.v1 import api_pb2

#: Max pods decided before other tasks run, unless the turn is used up earlier. When others ran
#: after each pod that differs, each binding was a call: 1.7 ms of the API server's CPU instead of
#: 0.12.
PODS_A_TURN = 16
#: Max seconds of processor time for collecting a batch of pods that must be compared. It is less
#: than a turn has, because comparing pods with claims takes as long as deciding.
COMPARING = 0.002
#: Number of unschedulable pods that are checked at once while nothing else is to do.
AUDITED = 64
#: Max seconds that an ending loop waits for pods at Permit and PreBind, and then for writes; and
#: seconds between two looks.
FINISH, _LOOK_EVERY = 2.0, 0.02


class _Written:
    """A revision that includes what calls have written."""

    def __init__(self) -> None:
        self.revision = 0

    async def by(self, call: Awaitable[Results]) -> Results:
        """Make a call, and note the revisions in its results."""
        results = await call
        self.revision = max([self.revision, *(result.resource_version for result in results)])
        return results


class SchedulingLoop(TermPart):
    """One term of leadership; ``run`` ends when it is cancelled, the fence is lost or a task fails.

    Create it in an event loop. The owner of the state notifies it of events in the cluster.
    """

    def __init__(self, given: LoopParts) -> None:
        # Extenders get whole pods and may answer differently for each class.
        self._may_join = given.decider.may_join if given.extenders is None else of_one_class
        cluster, fence = given.cluster, given.fence
        written = self._written = _Written()
        self._evictions: SharedCalls[api_pb2.EvictRequest] = SharedCalls(
            lambda requests: written.by(cluster.evict_pods(requests, fence=fence))
        )
        self._statuses = StatusWriter(
            lambda patches: written.by(cluster.patch_pod_statuses(patches, fence=fence)),
            partial(given.meter.api_called, STATUS_CALL),
        )
        parts = self._parts_of(given)
        super().__init__(parts)
        self._term = parts.fence.term
        self._settings = parts.settings
        self.group_outcomes = parts.group_outcomes
        self.preemption_meter = parts.meter.preemption
        failures = FailureHandler(parts)
        self.binding = BindingCycle(parts, failures)
        self.evictor = Evictor(parts.evict, self.binding.waiting.preempt, failures, parts.tasks)
        self._make_cycles(parts, failures)
        self._decides = asyncio.Event()
        self._decides.set()
        self._looping: asyncio.Task[None] | None = None
        self._recent = RecentEvents()
        self._auditor = Auditor(parts.state, parts.decider, self._recent, AUDITED)

    def _parts_of(self, given: LoopParts) -> TermParts:
        """Return these parts, and those that the cycles share."""
        state, cluster, fence = given.state, given.cluster, given.fence
        written = self._written
        clock, tasks = asyncio.get_running_loop().time, TaskSet(f"term {fence.term}")
        activator = Activator(state.queue, clock, state.after_trial)
        conditions = PodGroupConditions(
            state.cache.cluster,
            lambda patches: written.by(cluster.patch_many(patches, fence=fence)),
            given.wall,
        )
        log = given.meter.plugins.log
        return TermParts(
            # Not by ``asdict``, which copies all that the fields contain.
            **{field.name: getattr(given, field.name) for field in fields(given)},
            tasks=tasks,
            clock=clock,
            turn=Turn(),
            activator=activator,
            notes=DecisionNotes(given.decisions, state, given.decider, log, fence.term, clock),
            patches=PluginPatches(cluster, fence, tasks, activator),
            reports=PodReports(state, given.recorder, self._statuses),
            conditions=conditions,
            group_outcomes=GroupOutcomes(state.cache.cluster, conditions, tasks),
            evict=self._evictions.call,
        )

    def _make_cycles(self, parts: TermParts, failures: FailureHandler) -> None:
        binding = self.binding
        follow_up = FollowUp(parts, failures, binding, self.evictor)
        self._cycle = SchedulingCycle(parts, failures, binding, follow_up)
        taking_back = self.taking_back = TakingBack(parts, self.evictor.victims)
        self._group_starts = GroupStarts(parts, failures, binding, taking_back)
        carrying_out = PodGroupFollowUp(parts, failures, follow_up, self._group_starts, taking_back)
        self._group_cycle = PodGroupCycle(
            parts, failures, binding, follow_up, carrying_out, self._group_starts, taking_back
        )
        self._queue_statuses = QueueStatuses(
            parts.state.admission,
            lambda patches: parts.cluster.patch_many(patches, fence=parts.fence),
            parts.wall,
            parts.activator.notify,
        )
        self._admission_cycle = AdmissionCycle(
            parts, self._group_cycle, UnitEndings(parts), self._queue_statuses
        )

    # ------------------------------------------------------------------ notifications

    def wake(self) -> None:
        """Wake the loop, because pods may have entered activeQ."""
        # First: the changes may include the binding that an overtaken pod waits to see.
        self.binding.outcomes.caught_up()
        self._activator.notify()

    def changed(self, changes: Sequence[Change], now: float) -> None:
        """Record cluster events that the queue has handled."""
        self._recent.note(changes, now)

    def deleted_while_pending(self, pod: PodInfo) -> None:
        """Give up what was kept for a pod that is gone, or for a gang that it leaves too small."""
        self.preemption_meter.ends(pod.uid)
        if pod.group:
            self._group_cycle.lost_member(pod.group)

    def fail(self, fault: PodFault) -> None:
        """End the term with a bug that was raised while the state applied events."""
        self._tasks.fail(fault)

    # ------------------------------------------------------------------ questions

    @property
    def busy(self) -> bool:
        """Whether pods wait to be scheduled or bound."""
        queue = self._state.queue
        return bool(self.binding.ahead or len(queue.pending.active)) or queue.timeouts.is_moving

    @property
    def pending_calls(self) -> Mapping[str, int]:
        """The number of pods whose bindings and statuses wait to be written, by call type."""
        return {BINDING_CALL: self.binding.ahead, STATUS_CALL: len(self._statuses)}

    @property
    def revision(self) -> int:
        """A revision that includes all bindings, evictions and statuses known to be written."""
        return max(self.binding.revision, self._written.revision)

    def checkpoint(self, number: int) -> dict[str, Any]:
        """Return the checkpoint of the state; ``number``: that of the last decision."""
        found = checkpoint_of(
            self._state,
            rotation=self._decider.rotation,
            number=number,
            preemptions=self.evictor.under_way,
        )
        return {**found, "term": self._term, "begun_after": self._notes.begun_after}

    # ------------------------------------------------------------------ the loop

    async def finish(self) -> None:
        """Stop deciding; return once the outcome of every binding is known.

        Wait at most FINISH seconds for pods at Permit or PreBind; then they are no longer assumed.
        And as long for what the next state should know: for which groups a record says that they
        are being bound, and for whom which pods make room.
        """
        self._decides.clear()
        if self._looping is not None:
            # A batch may take long. What it decided later would be bound while the tasks end.
            self._looping.cancel()
            await asyncio.wait([self._looping])
        await self.binding.settled(FINISH)
        writers = (self._conditions, self._statuses, self._evictions, self.evictor)
        for _ in range(round(FINISH / _LOOK_EVERY)):
            if all(each.is_idle for each in writers):
                break
            await asyncio.sleep(_LOOK_EVERY)
        # Pods may have passed PreBind meanwhile. Later ones would be bound while the tasks end.
        await self.binding.waiting.stop()
        await self.binding.settled(0.0)

    async def run(self) -> None:
        """Schedule until the term is over, or a task fails.

        Raises:
            FenceLost: another replica leads.
            PodFault: a bug; by then the outcome of all bindings that were sent is known.
        """
        self._notes.begin_term()
        # Before the loop starts, which decides for these groups before any other pod.
        self._group_starts.resume()
        self._group_cycle.resume()
        self.binding.start()
        self._evictions.start(self._tasks, "evict")
        self._tasks.start(self._statuses.run(), "write statuses", endless=True)
        self._tasks.start(self._conditions.run(), "write group statuses", endless=True)
        self._tasks.start(self._queue_statuses.run(), "write queue statuses", endless=True)
        self._looping = self._tasks.start(self._loop(), "scheduling loop", endless=True)
        if self._settings.audit_period:
            audits = self._auditor.run(
                self._settings.audit_period,
                lambda: self.busy or self._state.after_trial.is_open,
                self._meter.audited,
                self._activator.activate,
            )
            self._tasks.start(audits, "audit", endless=True)
        try:
            await self._run_tasks()
        except FenceLost:
            self._meter.binding.fence_lost_total.labels("bind").inc()
            raise

    async def _run_tasks(self) -> None:
        try:
            await self._tasks.run()
        # The same term goes on with a new state, which must include these bindings.
        except PodFault:
            await self.binding.ask_again()
            raise
        finally:
            self._looping = None  # It refers to this loop.
            await self.binding.close()

    async def _loop(self) -> None:
        queue, turn, decided = self._state.queue, self._turn, 0
        while True:
            # Before pods are popped, so that more important pods that arrive meanwhile come first.
            await self.binding.wait_for_room()
            await self._decides.wait()
            now = self._clock()
            self._activator.begin()
            with working_on():
                while (due := queue.timeouts.next_wakeup(now)) is not None and due <= now:
                    queue.timeouts.flush(now)
                    await turn.pause()
                self._reports.report_set_aside()
                await self._admission_cycle.refresh(now)
            # Before all other pods: these could take the room that the missing members need.
            while (incomplete := self._group_starts.take_incomplete()) is not None:
                await self._admission_cycle.complete(incomplete, now)
            if self._admission_cycle.has_work:
                await self._admission_cycle.run(now)
            # An event may have woken more pods meanwhile, and the most important may be among them.
            if queue.timeouts.is_moving:
                continue
            with working_on():
                batch = queue.attempts.pop_batch(
                    now, self._settings.max_batch, may_join=self._may_join_now
                )
            if batch:
                await self.schedule(batch, now)
                # Bindings are sent when other tasks run, so that they share calls: ``PODS_A_TURN``.
                decided += len(batch)
                if decided >= PODS_A_TURN or turn.is_over:
                    decided = 0
                    await turn.give_way()
            elif not self._admission_cycle.has_work:
                decided = 0
                times = queue.timeouts.next_wakeup(now), self._admission_cycle.next_wakeup()
                wakeup = earliest(*times)
                await self._activator.wait(wakeup)
                await turn.wait()

    def _may_join_now(self, batch: Sequence[QueuedPodInfo], other: PodInfo) -> bool:
        return not self._turn.has_lasted(COMPARING) and self._may_join(batch, other)

    async def schedule(self, batch: Sequence[QueuedPodInfo], now: float) -> None:
        """Schedule a batch; one by one if one of its pods may have ended earlier terms.

        A batch of members of a PodGroup stands for the whole group.
        """
        if batch[0].info.group:
            with working_on(batch[0].info.pod):
                await self._group_cycle.schedule(batch, now)
            return
        suspected = self._state.set_aside.faulty_pods.is_suspected
        # A bug is attributed to all pods of a part, so a suspected pod gets its own part.
        parts: Iterable[Sequence[QueuedPodInfo]] = [batch]
        if any(suspected(queued.key) for queued in batch):
            parts = [[queued] for queued in batch]
        for part in parts:
            with working_on(*(queued.info.pod for queued in part)):
                await self._cycle.schedule(part, now)


class LoopListener(NoListener):
    """A ``StateListener`` that forwards events about pods to the loop, if there is one."""

    loop: SchedulingLoop | None = None

    def deleted_while_assumed(self, pod: PodInfo) -> None:
        if self.loop is not None:
            self.loop.binding.waiting.deleted(pod)

    def deleted_while_pending(self, pod: PodInfo) -> None:
        if self.loop is not None:
            self.loop.deleted_while_pending(pod)

    def changed(self, changes: Sequence[Change], now: float) -> None:
        if self.loop is not None:
            self.loop.changed(changes, now)
