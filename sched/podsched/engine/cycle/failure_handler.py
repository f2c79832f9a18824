"""What follows a failed attempt: event, status, and the pod's way back into the queue."""

from __future__ import annotations

from collections.abc import Callable

from podsched.engine.cycle.cycle_metrics import CycleMeter
from podsched.engine.cycle.failure import REASON_SCHEDULER_ERROR, Failure, status_patch
from podsched.engine.cycle.preemption import Preemption
from podsched.engine.state import SchedulingState
from podsched.engine.writes.event_recorder import EventRecorder
from podsched.engine.writes.status_writer import StatusWriter
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.telemetry.logs import get_logger

_log = get_logger("scheduler")


class FailureHandler:
    """Tells of failures and returns pods to the queue, for one term."""

    def __init__(
        self,
        state: SchedulingState,
        recorder: EventRecorder,
        statuses: StatusWriter,
        meter: CycleMeter,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._recorder = recorder
        self._statuses = statuses
        self._meter = meter
        self._clock = clock

    def fail_with_error(self, queued: QueuedPodInfo, message: str) -> None:
        """Return an attempt that met an error: the pod is tried again after error backoff."""
        self._meter.errored(queued)
        _log.warning("Scheduling attempt failed", pod=queued.key, error=message)
        self.record(queued.info, message)
        self.write(queued.info, REASON_SCHEDULER_ERROR, message)
        self.requeue(queued, set(), set())

    def requeue(self, queued: QueuedPodInfo, plugins: set[str], pending: set[str]) -> None:
        """Give a pod back to the queue with the plugins that rejected it."""
        queued.info.node_name = ""
        self._state.queue.add_unschedulable_if_not_present(
            queued,
            self._clock(),
            unschedulable_plugins=plugins - pending,
            pending_plugins=pending,
        )

    def record(self, pod: PodInfo, message: str) -> None:
        """Return the FailedScheduling event."""
        self._recorder.record(
            pod.pod.metadata,
            type_="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            message=message,
            controller=pod.cls.scheduler_name,
        )

    def record_preempted(self, victim: PodInfo, preemption: Preemption) -> None:
        """Return the Preempted event on a victim."""
        pod = preemption.pod
        self._recorder.record(
            victim.pod.metadata,
            type_="Normal",
            reason="Preempted",
            action="Preempting",
            message=f"Preempted by pod {pod.uid} on node {preemption.node_name}",
            controller=pod.cls.scheduler_name,
        )

    def write(self, pod: PodInfo, reason: str, message: str) -> None:
        """Tells of an attempt that failed after, or without, a choice: no node is kept for it."""
        self._state.cache.nominator.delete(pod.uid)
        self.write_status(pod, Failure(reason, message, nominated_node_name=""))

    def write_status(self, pod: PodInfo, failure: Failure) -> None:
        """Write the condition, unless the pod's status says it already."""
        known = self._state.cache.cluster.pods.get(pod.key)
        patch = status_patch(known if known is not None else pod, failure)
        if patch is not None:
            self._statuses.submit(patch)
