"""Pods at Permit or PreBind, each in its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from podsched.api.objects import AnyObject
from podsched.decide.runtime.run_log import PluginRun
from podsched.decide.runtime.waiting_pods import WaitingPod
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status, error
from podsched.telemetry.tracing import SpanName
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pre_bind import PreBindCluster, run_pre_bind
from podsched.term.cycle.preemption import PREEMPTED
from podsched.term.cycle.reserve_permit import refused
from podsched.term.faulty_pods import working_on
from podsched.term.writes.bind_queue import Assignment
from podsched.term.writes.object_turns import ObjectTurns
from podsched.term.writes.shared_calls import SharedCalls
from podsched.v1 import api_pb2

#: Why a pod that is being deleted gets no node.
REMOVED: Final = "removed"


@dataclass(slots=True)
class _Cycle:
    """A pod at Permit or PreBind.

    ``why``: why its task was cancelled; "" if it was not, or by the end of the term.
    """

    task: asyncio.Task[Status]
    why: str = ""

    def cancel(self, why: str) -> None:
        self.why = why
        self.task.cancel()


class WaitingCycles(TermPart):
    """Runs the binding cycles that cannot bind at once, from Permit to the end of PreBind."""

    def __init__(
        self,
        parts: TermParts,
        failures: FailureHandler,
        bind: Callable[[list[Assignment]], None],
    ) -> None:
        """``bind`` takes the pods that have passed PreBind and belong to no group."""
        super().__init__(parts)
        self._failures = failures
        self._bind = bind
        cluster, fence = parts.cluster, parts.fence
        self._object_patches: SharedCalls[api_pb2.PatchRequest] = SharedCalls(
            lambda patches: cluster.patch_many(patches, fence=fence)
        )
        self._creations: SharedCalls[AnyObject] = SharedCalls(
            lambda items: cluster.create_many(items, fence=fence)
        )
        self._pre_bind_cluster = PreBindCluster(
            parts.state.cache.cluster,
            parts.changes,
            self._creations.call,
            self._object_patches.call,
            ObjectTurns(),
            parts.state.after_trial,
        )
        self._cycles: dict[str, _Cycle] = {}
        self.ready: dict[str, Assignment] = {}
        """By uid, the pods that have passed PreBind and wait for others of their group."""

    def __len__(self) -> int:
        return len(self._cycles)

    def __contains__(self, uid: str) -> bool:
        return uid in self._cycles

    def start(self) -> None:
        """Start the tasks that write objects."""
        self._object_patches.start(self._tasks, "patch objects")
        self._creations.start(self._tasks, "create objects")

    async def stop(self) -> None:
        """End all cycles, as at the end of the term; those that are over go on to Bind."""
        tasks = [cycle.task for cycle in self._cycles.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            await asyncio.sleep(0)  # ``_ended`` runs in the next round of the loop.

    def begin(self, assignment: Assignment, timeouts: dict[str, float]) -> None:
        """Begin the cycle of a pod that cannot be bound at once, in its own task.

        ``timeouts``: max seconds of waiting at Permit, by plugin.
        """
        pod, node_name = assignment.pod, assignment.node_name
        waiting = self._state.waiting.add(pod, node_name, timeouts) if timeouts else None
        task = self._tasks.start(
            self._run(assignment, waiting),
            f"binding cycle of {pod.key}",
            ended=lambda task: self._state.after_trial.do(partial(self._ended, assignment, task)),
        )
        # The task starts with the next turn of the event loop, so ``_ended`` finds this entry.
        self._cycles[pod.uid] = _Cycle(task)
        known = self._cluster.pods.get(pod.key)
        if known is None or known.uid != pod.uid or known.terminating:
            # Other tasks may run between the decision for a group and this: its event has come.
            self.deleted(pod)

    async def _run(self, assignment: Assignment, waiting: WaitingPod | None) -> Status:
        with working_on(assignment.pod.pod):
            return await self._permit_and_pre_bind(assignment, waiting)

    async def _permit_and_pre_bind(
        self, assignment: Assignment, waiting: WaitingPod | None
    ) -> Status:
        began = self._clock()
        if waiting is not None:
            # Not before: if its group is given up at once, the end of a nomination would wake it.
            self._publish(assignment)
            status = refused(await waiting.outcome())
            self._state.waiting.remove(assignment.pod.uid)
            self._meter.permitted(assignment.queued, status, began, self._clock())
            if not status.ok:
                return status
        began = self._clock()
        # As in kube-scheduler, Permit is the last point at which a pod can become unschedulable. A
        # pod that fails later waits for its backoff, so no events are needed for it.
        self._state.queue.in_flight.done(assignment.pod.uid)
        runs: list[PluginRun] = []
        waits = partial(self._waits, assignment)
        runtime = self._state.profiles[assignment.pod.cls.scheduler_name]
        status = await run_pre_bind(runtime, assignment, self._pre_bind_cluster, runs, waits)
        self._meter.traces.phase(
            assignment.queued, SpanName.PRE_BIND, began, self._clock(), status.message, runs
        )
        return status

    def _publish(self, assignment: Assignment) -> None:
        """Write the node of a pod that waits to its status, so that the next leader keeps it.

        kube-scheduler does so before any work of PreBind (NominatedNodeNameForExpectation); here,
        pods whose PreBind only writes are bound without it.
        """
        assignment.published = True
        self._reports.write_nomination(assignment.pod, assignment.node_name)

    def _waits(self, assignment: Assignment, event: tuple[str, str] | None) -> None:
        """Publish the node of a pod that waits in PreBind, and record the event."""
        self._publish(assignment)
        if event is not None:
            reason, message = event
            self._reports.event(assignment.pod, "Normal", reason, "Scheduling", message)

    def _ended(self, assignment: Assignment, task: asyncio.Task[Status]) -> None:
        """Handle the end of a pod's Permit and PreBind, even if its task never started."""
        uid = assignment.pod.uid
        cycle = self._cycles.pop(uid)
        self._state.waiting.remove(uid)
        if task.cancelled():
            if not cycle.why:
                return  # The term is over, and its state, with all assumptions, is dropped.
            status = error(cycle.why)
        elif (bug := task.exception()) is not None:
            status = error(f"binding cycle failed: {bug.__cause__ or bug!r}")
        else:
            status = task.result()
        group = assignment.group
        if not status.ok and group is not None:
            group.rejected(assignment, status)
        elif not status.ok:
            self._failures.undo(assignment, status)
        elif group is not None:
            group.ready(assignment)
        else:
            self._bind([assignment])

    def preempt(self, victim: PodInfo, plugin: str) -> bool:
        """Return a pod that is not at Bind yet to the queue, because ``plugin`` needs its place.

        Return False if there is no such pod.
        """
        waiting = self._state.waiting.get(victim.uid)
        # At Permit the pod's wait ends; at PreBind its task is cancelled.
        if waiting is not None and waiting.preempt(plugin, PREEMPTED):
            return True
        return self.cancel(victim.uid, f"{PREEMPTED} by {plugin}")

    def deleted(self, pod: PodInfo) -> None:
        """End the cycle of a pod that is being deleted, or was."""
        waiting = self._state.waiting.get(pod.uid)
        # At Permit, the pod's wait may just be over.
        if waiting is None or not waiting.remove(REMOVED):
            self.cancel(pod.uid, REMOVED)

    def cancel(self, uid: str, why: str) -> bool:
        """Cancel Permit and PreBind of a pod, or its wait for others of its group.

        Return False if it is at none of these.
        """
        if uid in self.ready:
            self._state.after_trial.do(partial(self._withdraw, uid, why))
            return True
        cycle = self._cycles.get(uid)
        if cycle is None or cycle.task.done():
            return False
        cycle.cancel(why)
        return True

    def _withdraw(self, uid: str, why: str) -> None:
        ready = self.ready.get(uid)
        if ready is not None and ready.group is not None:
            ready.group.rejected(ready, error(why))
