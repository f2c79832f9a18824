"""Carry out decisions about single pods, whether alone or as members of a group.

a node was found --> Reserve --> Permit --> ready to be bound, or a task of the binding cycle
                        '----------'--rejected--> undone, requeued
no node was found --> nomination and evictions, event, status, requeued
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.conditions import REASON_UNSCHEDULABLE
from podsched.decide.decision import Decision
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.telemetry.logs import get_logger
from podsched.telemetry.tracing import SpanName
from podsched.term.admission.units import unit_key
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.outcomes import GONE, UNSCHEDULABLE
from podsched.term.cycle.pod_reports import Failure
from podsched.term.cycle.pre_bind import wants_pre_bind
from podsched.term.cycle.preemption import Evictor, Preemption
from podsched.term.cycle.reserve_permit import run_permit, run_reserve
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("scheduler")


class FollowUp(TermPart):
    """Carries out decisions about single pods of one term."""

    def __init__(
        self, parts: TermParts, failures: FailureHandler, binding: BindingCycle, evictor: Evictor
    ) -> None:
        super().__init__(parts)
        self._failures = failures
        self._binding = binding
        self._evictor = evictor

    def not_skipped(self, pods: Sequence[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Return the pods that can still be scheduled; drop the others."""
        return [queued for queued in pods if not self.skip(queued)]

    def skip(self, queued: QueuedPodInfo) -> bool:
        """Drop a pod that is being deleted, gone, or already assumed or bound.

        Source: skipPodSchedule.
        """
        pod = queued.info
        known = self._cluster.pods.get(pod.key)
        if pod.terminating:
            self._reports.record(pod, f"skip schedule deleting pod: {pod.key}")
        # An informer may have deleted the pod, or shown it bound, since it was popped.
        elif known is not None and known.uid == pod.uid and pod.uid not in self._state.cache.held:
            return False
        self._state.queue.in_flight.done(pod.uid)
        self._meter.traces.end(queued, "gone")
        self._notes.ended(queued, GONE)
        return True

    def return_untried(self, pods: Sequence[QueuedPodInfo]) -> None:
        """Put pods back into the queue as if they had not been popped."""
        for queued in pods:
            self._meter.traces.end(queued)  # It logs the number of the attempt.
        self._state.queue.attempts.return_unattempted(pods, self._clock())

    # ------------------------------------------------------------------ a node was found

    def assignment(self, decision: Decision) -> Assignment:
        return Assignment(decision.queued, decision.node_name, decision.state, self._state.revision)

    def reserve(self, runtime: ProfileRuntime, assignment: Assignment) -> Status:
        traces, queued = self._meter.traces, assignment.queued
        began = self._clock()
        traces.follow([queued])
        status = run_reserve(runtime, assignment)
        traces.phase(queued, SpanName.RESERVE, began, self._clock(), status.message)
        return status

    def permit(self, runtime: ProfileRuntime, assignment: Assignment, status: Status) -> bool:
        """Call the Permit plugins; return whether the pod can be bound at once.

        ``status`` is that of Reserve. A pod that is rejected is undone; one that has to wait, or
        has PreBind work, gets a task of the binding cycle.
        """
        timeouts: dict[str, float] = {}
        traces, queued = self._meter.traces, assignment.queued
        if status.ok and runtime.permit:
            began = self._clock()
            traces.follow([queued])
            status, timeouts = run_permit(runtime, assignment)
            traces.phase(queued, SpanName.PERMIT, began, self._clock(), status.message)
        if not status.ok:
            # The others of its group are undone, too, if they are too few without it.
            if assignment.group is not None:
                assignment.group.rejected(assignment, status)
            else:
                self._failures.undo(assignment, status, at_once=True)
            return False
        if timeouts or wants_pre_bind(runtime, assignment):
            self._binding.waiting.begin(assignment, timeouts)
            return False
        return True

    # ------------------------------------------------------------------ no node was found

    def no_node_fits(
        self, runtime: ProfileRuntime, decision: Decision, result: PostFilterResult | None
    ) -> None:
        """Reject a pod that fits no node; nominate it and begin evictions as ``result`` says."""
        queued, diagnosis = decision.queued, decision.diagnosis
        assert diagnosis is not None
        pod = queued.info
        if result is not None:
            if not result.status.ok:
                diagnosis.post_filter_message = result.status.message
            if result.status.code is Code.ERROR:
                _log.error("PostFilter failed", pod=pod.key, error=result.status.message)
            self.nominate(pod, result.nominated_node_name)
            # Before ``reject``: PreEnqueue has to keep the pod out of activeQ when it returns.
            self._preempt(runtime, pod, result)
            self._patches.write(decision.state, pod, try_again=True)
        nominated = result.nominated_node_name if result is not None else None
        victims = len(result.victims.pods) if result is not None and result.victims else 0
        plugins, pending = diagnosis.unschedulable_plugins, diagnosis.pending_plugins
        if not diagnosis.num_all_nodes:
            # As after kube-scheduler's ErrNoNodesAvailable, which comes before any plugin is asked.
            plugins, pending = set(), set()
            if unit_key(pod) in self._admission.units:
                # The gate keeps it from being tried after a backoff, so an event has to help it.
                plugins = set(runtime.filter_names)
        if result is None or not diagnosis.num_all_nodes:
            # No PostFilter plugin can have found room for the pod.
            self._state.cache.nominator.delete(pod.uid)
            nominated = ""
        self.reject(queued, diagnosis.fit_error(), plugins, pending, nominated, victims)

    def reject(
        self,
        queued: QueuedPodInfo,
        message: str,
        plugins: set[str],
        pending: set[str],
        nominated: str | None,
        victims: int = 0,
    ) -> None:
        """Report a pod as Unschedulable and return it to the queue.

        ``nominated``: the node that it is nominated to, "" if to none any more, None if as before.
        """
        pod = queued.info
        self._meter.failed("unschedulable", queued, self._clock())
        self._notes.ended(
            queued, UNSCHEDULABLE, message, nominated_node=nominated or "", victims=victims
        )
        self._reports.failed(pod, Failure(REASON_UNSCHEDULABLE, message, nominated))
        self._failures.requeue(queued, plugins, pending)

    def nominate(self, pod: PodInfo, node_name: str | None) -> None:
        """Nominate a pod to a node; "" withdraws its nomination, None keeps it."""
        if node_name:
            self._state.cache.nominate(pod, node_name)
        elif node_name is not None:
            self._state.cache.nominator.delete(pod.uid)

    def _preempt(self, runtime: ProfileRuntime, pod: PodInfo, result: PostFilterResult) -> None:
        node_name, victims = result.nominated_node_name, result.victims
        if not node_name or victims is None:
            return
        plugin = result.status.plugin
        listener = runtime.eviction_listeners.get(plugin)
        preemption = Preemption((pod,), node_name, victims, plugin, listener)
        self.preempt(preemption, [(pod, node_name)])

    def preempt(self, preemption: Preemption, nominated: Iterable[tuple[PodInfo, str]]) -> None:
        """Start evicting victims; ``nominated``: the preemptors that get a node, and its name."""
        if not preemption.evicts_anybody:
            return
        count = len(preemption.victims.pods)
        self._meter.preemption.begins(preemption.uid, preemption.node_name, count)
        for pod, node_name in nominated:
            self._clear_lower_nominations(pod, node_name)
        self._evictor.start(preemption)

    def _clear_lower_nominations(self, pod: PodInfo, node_name: str) -> None:
        """Clear the node's nominations of lower priority: the freed room is not for these pods.

        Source: prepareCandidate in ``framework/preemption``.
        """
        for other in list(self._cluster.nominator.pods(node_name)):
            if other.priority < pod.priority:
                self._state.cache.nominator.delete(other.uid)
                self._reports.write_nomination(other, "")
                self._activator.activate([other])
