"""Metrics and traces of scheduling attempts, under kube-scheduler's names.

Everything is counted per batch where it can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from podsched.cache.cache import Cache
from podsched.config.plugins import ExtensionPoint
from podsched.decide.decision import Decision
from podsched.decide.runtime.plugin_metrics import NO_PHASES, Phases, ProfileMeters
from podsched.framework.events import QueueingHint
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.lib.groups import lists_by_key
from podsched.queue.observer import QueueObserver
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.telemetry.former_metrics import FormerMetrics
from podsched.telemetry.instruments import Gauge, MetricRegistry
from podsched.telemetry.metrics import (
    BackfillMetrics,
    BindingMetrics,
    EvaluationMetrics,
    PodGroupMetrics,
    PreemptionMetrics,
    SchedulerMetrics,
    attempts_label,
)
from podsched.telemetry.tracing import SpanName, Tracer
from podsched.term.cycle.attempt_traces import AttemptTraces
from podsched.term.writes.bind_queue import Assignment

#: kube-scheduler's labels of calls that are made beside the scheduling cycle.
BINDING_CALL, STATUS_CALL = "pod_binding", "pod_status_patch"
#: kube-scheduler's label for the pods being scheduled, among the events kept for them.
POD_POPPED = "PodPopped"


def _set_all(gauge: Gauge, values: Iterable[tuple[tuple[str, ...], int]]) -> None:
    """Set a gauge's series by their labels; series that have no value now become 0."""
    gone = {labels: 0 for labels, _ in gauge.cells()}
    for labels, value in (gone | dict(values)).items():
        gauge.labels(*labels).set(value)


def _by_profile(assignments: Sequence[Assignment]) -> Mapping[str, Sequence[Assignment]]:
    return lists_by_key((one.pod.cls.scheduler_name, one) for one in assignments)


class QueueMeter(QueueObserver):
    """Counts what the queue reports."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._incoming = metrics.queue_incoming_pods_total
        self._hints = metrics.queueing_hint_execution_duration_seconds
        self._events = metrics.event_handling_duration_seconds

    def incoming(self, queue: str, event: str, count: int) -> None:
        self._incoming.labels(queue, event).inc(count)

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        self._incoming.labels("error", f"{plugin}/{point}").inc()

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        answer, began = "Error", time.monotonic()
        try:
            hint = ask()
            answer = hint.value
            return hint
        finally:
            self._hints.labels(plugin, event, answer).observe(time.monotonic() - began)

    def handled(self, event: str, seconds: float, count: int) -> None:
        """Count ``count`` cluster events that were handled together in ``seconds``."""
        self._events.labels(event).observe_n(seconds / count, count)


class PreemptionMeter:
    """Counts preemptions, and those that were futile."""

    def __init__(self, metrics: PreemptionMetrics) -> None:
        self._metrics = metrics
        #: By uid of a preemptor that is not bound yet, the node on which room is made for it.
        self.freed_for: dict[str, str] = {}

    def begins(self, uid: str, node_name: str, victims: int) -> None:
        """Count a preemption that begins; an earlier one for the same pod was futile.

        ``node_name``: "" for a group, which has no end here.
        """
        self._metrics.preemption_victims.observe(victims)
        self.ends(uid)
        if node_name:
            self.freed_for[uid] = node_name

    def ends(self, uid: str, bound_to: str = "") -> None:
        """Count the preemption for a pod as futile unless the pod was bound to the freed node."""
        made_free = self.freed_for.pop(uid, None)
        if made_free is not None and made_free != bound_to:
            self._metrics.preemptions_futile_total.inc()

    def finished(self, result: str, seconds: float) -> None:
        self._metrics.preemption_goroutines_execution_total.labels(result).inc()
        self._metrics.preemption_goroutines_duration_seconds.labels(result).observe(seconds)


class RayMeter:
    """Counts the calls to Ray actors, and exports which evaluator is in use (``RayMetrics``)."""

    def __init__(self, metrics: EvaluationMetrics) -> None:
        self._metrics = metrics
        self._mode = ""

    def evaluator_mode(self, mode: str) -> None:
        """Note which evaluator is in use, and count changes."""
        if self._mode and mode != self._mode:
            self._metrics.evaluator_switches_total.labels(mode).inc()
        self._mode = mode
        for name in ("local", "ray"):
            self._metrics.evaluator_mode.labels(name).set(float(name == mode))

    def ray_call(self, call: str, result: str, seconds: float) -> None:
        """Count a call to an actor: "ok", "timeout" or "error"."""
        self._metrics.ray_calls_total.labels(call, result).inc()
        self._metrics.ray_call_duration_seconds.labels(call).observe(seconds)

    def ray_actor_replaced(self, actor: str) -> None:
        self._metrics.ray_actor_restarts_total.labels(actor).inc()


class CycleMeter:
    """Counts and times what happens to pods, and traces sampled attempts."""

    def __init__(self, registry: MetricRegistry, tracer: Tracer) -> None:
        self.scheduler = SchedulerMetrics(registry)
        FormerMetrics(registry, self.scheduler)
        self.queue = QueueMeter(self.scheduler)
        self.backfill = BackfillMetrics(registry)
        self.preemption = PreemptionMeter(PreemptionMetrics(registry))
        self._pod_groups = PodGroupMetrics(registry)
        self._evaluation = EvaluationMetrics(registry)
        self.plugins = ProfileMeters(self.scheduler, self._evaluation, time.monotonic)
        self.ray = RayMeter(self._evaluation)
        self.binding = BindingMetrics(registry)
        self.traces = AttemptTraces(tracer, self.plugins.log)

    # ------------------------------------------------------------------ attempts

    def popped(self, pods: Sequence[QueuedPodInfo], now: float) -> None:
        self._evaluation.scheduling_batch_size.observe(len(pods))
        self.traces.popped(pods, now)

    def decided(
        self,
        profile: str,
        decisions: Sequence[Decision],
        began: float,
        ended: float,
        phases: Phases = NO_PHASES,
    ) -> None:
        """Count pods decided on together; ``phases`` are those of the latest evaluation."""
        # kube-scheduler decides one pod at a time; a batch counts as pods of equal duration.
        each = (ended - began) / max(len(decisions), 1)
        self.scheduler.scheduling_algorithm_duration_seconds.labels().observe_n(
            each, len(decisions)
        )
        placed = sum(1 for decision in decisions if decision.node_name)
        batched = self._evaluation.batch_attempts_total
        if placed:
            batched.labels(profile, "no_hint").inc()
        # In kube-scheduler's terms, the first pod of a batch has no hint, and the others use one.
        if placed > 1:
            batched.labels(profile, "hint_used").inc(placed - 1)
        self.traces.decided(profile, decisions, began, ended, phases)

    def pod_group_decided(self, profile: str, result: str, began: float, ended: float) -> None:
        """Count an attempt to schedule a group; ``result``: as kube-scheduler labels it."""
        metrics, seconds = self._pod_groups, ended - began
        metrics.schedule_attempts_total.labels(result, profile).inc()
        metrics.scheduling_attempt_duration_seconds.labels(result, profile).observe(seconds)
        metrics.scheduling_algorithm_duration_seconds.labels().observe(seconds)

    def failed(self, result: str, queued: QueuedPodInfo, now: float) -> None:
        """Count a failed attempt; ``result``: "unschedulable" or "error"."""
        labels = result, queued.info.cls.scheduler_name
        self.scheduler.schedule_attempts_total.labels(*labels).inc()
        attempt = self.scheduler.scheduling_attempt_duration_seconds.labels(*labels)
        attempt.observe(now - queued.popped_at)
        self.traces.end(queued, result)

    def bound(self, assignments: Sequence[Assignment], now: float) -> None:
        metrics = self.scheduler
        self.binding.bind_batch_size.observe(len(assignments))
        # Pods of several profiles may be bound together.
        for profile, own in _by_profile(assignments).items():
            metrics.schedule_attempts_total.labels("scheduled", profile).inc(len(own))
            attempt = metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile)
            attempt.observe_many([now - a.queued.popped_at for a in own])
        metrics.pod_scheduling_attempts.labels().observe_many(
            [a.queued.attempts for a in assignments]
        )
        for assignment in assignments:
            queued = assignment.queued
            if self.preemption.freed_for:
                self.preemption.ends(queued.info.uid, assignment.node_name)
            began = queued.initial_attempt_timestamp
            if began is not None:
                label = attempts_label(queued.attempts)
                metrics.pod_scheduling_sli_duration_seconds.labels(label).observe(now - began)
            if queued.was_flushed_from_unschedulable:
                metrics.pod_scheduled_after_flush_total.inc()
            self.traces.bound(assignment, now)

    def bind_called(self, assignments: Sequence[Assignment], seconds: float, problem: str) -> None:
        """Count a call that binds a batch; ``problem`` is "" if it was answered."""
        result, code = ("error", Code.ERROR) if problem else ("ok", Code.SUCCESS)
        self.binding.bind_duration_seconds.labels(result).observe(seconds)
        each = seconds / len(assignments)
        for profile, own in _by_profile(assignments).items():
            meter = self.plugins.of(profile)
            meter.passed(ExtensionPoint.BIND, code, each * len(own), len(own))
        self.api_called(BINDING_CALL, seconds, bool(problem))

    def api_called(self, call_type: str, seconds: float, failed: bool) -> None:
        """Count a call that writes bindings or statuses of pods."""
        labels = (call_type, "error" if failed else "success")
        self.binding.async_api_call_execution_total.labels(*labels).inc()
        self.binding.async_api_call_execution_duration_seconds.labels(*labels).observe(seconds)

    # ------------------------------------------------------------------ the rest

    def permitted(self, queued: QueuedPodInfo, status: Status, began: float, ended: float) -> None:
        """Count the end of a pod's wait at Permit."""
        waits = self.scheduler.permit_wait_duration_seconds
        waits.labels(status.code.text).observe(ended - began)
        self.traces.phase(queued, SpanName.PERMIT, began, ended, status.message)

    def audited(self, pods: int, missed: Sequence[str]) -> None:
        """Count an audit; ``missed``: the events that should have woken pods."""
        self._evaluation.audited_pods_total.inc(pods)
        for event in missed:
            self._evaluation.missed_wakeups_total.labels(event).inc()

    def gauges(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        binding_tasks: int,
        pending_calls: Mapping[str, int],
    ) -> None:
        """Update the gauges; called before they are read.

        pending_calls: how many pods' bindings or statuses wait to be written, by call type.
        """
        metrics = self.scheduler
        for call_type in (BINDING_CALL, STATUS_CALL):
            pending = self.binding.pending_async_api_calls.labels(call_type)
            pending.set(pending_calls.get(call_type, 0))
        metrics.goroutines.labels("binding").set(binding_tasks)
        for name, count in queue.pending.counts().items():
            metrics.pending_pods.labels(name).set(count)
        _set_all(metrics.unschedulable_pods, queue.pending.rejections.counts.items())
        in_flight = {(label,): count for label, count in queue.in_flight.events.counts().items()}
        in_flight[(POD_POPPED,)] = len(queue.in_flight)
        _set_all(metrics.inflight_events, in_flight.items())
        metrics.cache_size.labels("nodes").set(len(cache.columns.node_table))
        metrics.cache_size.labels("pods").set(len(cache.held))
        metrics.cache_size.labels("assumed_pods").set(len(cache.assumed))
