"""Handle a failed attempt: report it, undo it, and return the pod to the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

from podsched.api.conditions import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from podsched.cache.changes import Change
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.loop_parts import TermPart
from podsched.term.cycle.outcomes import ERROR, GONE, OVERTAKEN, REJECTED
from podsched.term.cycle.pod_reports import Failure
from podsched.term.cycle.preemption import Preemption
from podsched.term.cycle.reserve_permit import run_unreserve
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("scheduler")


class FailureHandler(TermPart):
    """Reports failures and returns pods to the queue, for one term.

    It is also a ``PreemptionReport``, because a failed attempt may have requested evictions.
    """

    # ------------------------------------------------------------------ before a pod is assumed

    def fail_with_error(self, queued: QueuedPodInfo, message: str) -> None:
        """End an attempt that failed with an error; the pod is tried again after error backoff."""
        self._meter.failed("error", queued, self._clock())
        self._notes.ended(queued, ERROR, message)
        _log.warning("Scheduling attempt failed", pod=queued.key, error=message)
        self._report(queued.info, REASON_SCHEDULER_ERROR, message)
        self.requeue(queued, set(), set())

    def requeue(self, queued: QueuedPodInfo, plugins: set[str], pending: set[str]) -> None:
        """Return a pod to the queue with the plugins that rejected it."""
        queued.info.node_name = ""
        self._state.queue.attempts.add_unschedulable_if_not_present(
            queued, self._clock(), unschedulable_plugins=plugins - pending, pending_plugins=pending
        )

    # ------------------------------------------------------------------ after it was assumed

    def undo(
        self,
        assignment: Assignment,
        status: Status,
        *,
        at_once: bool = False,
        try_at_once: bool = False,
    ) -> None:
        """Undo the assumption; return the pod to the queue, and wake pods that it had blocked.

        ``at_once``: no time has passed since the pod was assumed, so it can only have blocked pods
        decided in the same batch. ``try_at_once``: there is no failure to report, and no backoff.
        Source: unreserveAndForget and handleBindingCycleError.
        """
        # The event comes last: a pod in flight would be woken by its own freed room.
        freed = self._release(assignment)
        self._return(assignment, status, try_at_once=try_at_once)
        self._announce([freed], {assignment.pod.uid}, at_once=at_once)
        self._activator.notify()
        if assignment.group is not None:
            assignment.group.undone(assignment)

    def undo_all(self, undone: Sequence[tuple[Assignment, Status]], *, at_once: bool) -> None:
        """Undo the members of a group that cannot start; they do not wake each other."""
        freed = [self._release(assignment) for assignment, _ in undone]
        for assignment, status in undone:
            self._return(assignment, status)
        uids = {assignment.pod.uid for assignment, _ in undone}
        self._announce(freed, uids, at_once=at_once)
        self._activator.notify()

    def _release(self, assignment: Assignment) -> Change | None:
        pod, cache, state = assignment.pod, self._state.cache, assignment.state
        # In kube-scheduler's order (unreserveAndForget): plugins release while the pod is assumed.
        run_unreserve(self._state.profiles[pod.cls.scheduler_name], assignment)
        self._patches.write(state, pod)
        freed = cache.forget(pod) if pod.uid in cache.assumed else None
        if freed is not None and state.held_for:
            self._tasks.start(self._announce_later(freed, state.held_for), f"free {pod.key}")
            state.held_for = 0.0
        return freed

    async def _announce_later(self, freed: Change, seconds: float) -> None:
        """Wake the pods that may use what a plugin still holds for a pod that has lost its node."""
        await asyncio.sleep(seconds)
        await self._state.after_trial.wait()
        self._announce([freed], set(), at_once=False)
        self._activator.notify()

    def _return(self, assignment: Assignment, status: Status, *, try_at_once: bool = False) -> None:
        """Return the pod to the queue, unless it is gone or bound by another scheduler."""
        pod = assignment.pod
        known = self._cluster.pods.get(pod.key)
        # ``add_unschedulable_if_not_present`` notices this only for a pod in flight.
        if known is None or known.uid != pod.uid or known.node_name:
            self._state.queue.in_flight.done(pod.uid)
            self._meter.traces.end(assignment.queued, "gone")
            self._meter.preemption.ends(pod.uid, known.node_name if known is not None else "")
            self._notes.ended(assignment.queued, GONE, status.message)
            return
        # The informer's version lacks the tolerations of the flavors on which it did not start.
        assignment.queued.info = known
        if try_at_once:
            self._notes.ended(assignment.queued, OVERTAKEN)
            self.requeue(assignment.queued, set(), set())
            self._activator.activate([pod])
        else:
            if assignment.published:
                # The informer may not have shown the pod with its node yet, so the report of the
                # failure would not know that there is something to clear.
                self._reports.write_nomination(pod, "")
            self._return_to_queue(assignment, status)
            # The gate lets a unit's pods pass whenever the unit is tried, so it has to wait itself.
            # Without this, a pod whose binding failed was tried 200 times a second.
            now = self._clock()
            left = self._state.queue.pending.backoff.times.left(assignment.queued, now)
            self._admission.back_off(known, now + left)

    def _announce(self, freed: Sequence[Change | None], uids: Set[str], *, at_once: bool) -> None:
        """Wake the pods that the freed room may help, except the pods that had it (``uids``).

        Otherwise these would be tried and rejected in a loop.
        """
        queue = self._state.queue
        for change in freed:
            if change is not None and at_once:
                queue.note_for_in_flight(change.event, change.old, change.new)
            elif change is not None:
                queue.move_all_to_active_or_backoff(
                    change.event, change.old, change.new, self._clock(), except_uids=uids
                )

    def _return_to_queue(self, assignment: Assignment, status: Status) -> None:
        if not status.code.rejects:
            self.fail_with_error(assignment.queued, status.message)
            return
        pod = assignment.pod
        self._meter.failed("unschedulable", assignment.queued, self._clock())
        self._notes.ended(assignment.queued, REJECTED, status.message)
        self._report(pod, REASON_UNSCHEDULABLE, status.message)
        plugins = {status.plugin} if status.plugin else set()
        pending = plugins if status.code is Code.PENDING else set()
        self.requeue(assignment.queued, plugins, pending)

    def _report(self, pod: PodInfo, reason: str, message: str) -> None:
        """Report a failure and remove the nomination: no node is kept for the pod."""
        self._state.cache.nominator.delete(pod.uid)
        self._reports.failed(pod, Failure(reason, message, nominated_node_name=""))

    # ------------------------------------------------------------------ preemption

    def preempted(self, victim: PodInfo, preemption: Preemption, *, evicted: bool) -> None:
        self._recorder.record(
            victim.pod.metadata,
            type_="Normal",
            reason="Preempted",
            action="Preempting",
            message=preemption.event_note(victim, evicted=evicted),
            controller=preemption.scheduler_name,
            related=preemption.reference,
        )

    def preemptors_released(self, preemption: Preemption) -> None:
        """Try a preemptor again if another node has got room for it during the evictions."""
        # A group would be decided for once more, also for victims that went at once.
        if preemption.group is None:
            self._activator.ungate(preemption.pods)

    def preemption_finished(
        self, preemption: Preemption, result: str, seconds: float, *, try_again: bool
    ) -> None:
        """Count a preemption; ``try_again``: no deletion will wake the preemptors."""
        if result == "error":
            # kube-scheduler activates them, and so sends evictions that a policy or missing rights
            # forbid as fast as they are refused.
            self._activator.back_off(preemption.pods)
        elif try_again:
            self._activator.activate(preemption.pods)
        self._meter.preemption.finished(result, seconds)
