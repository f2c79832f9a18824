"""Metrics of attempts, by profile."""

from __future__ import annotations

from podsched.config.plugins import ExtensionPoint
from podsched.framework.plugin import CycleState
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import SUCCESS, unschedulable
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.writes.bind_queue import Assignment
from support.engine_pods import pod_info


def assignment(name: str, profile: str) -> Assignment:
    queued = QueuedPodInfo(pod_info(name, {"schedulerName": profile}), timestamp=0.0)
    return Assignment(queued, "n1", CycleState())


def test_pods_of_several_profiles_that_are_bound_together_count_for_their_own_profile() -> None:
    meter = CycleMeter(MetricRegistry(), Tracer())
    assignments = [assignment("a", "one"), assignment("b", "two"), assignment("c", "two")]
    meter.bind_called(assignments, 0.3, "")
    meter.bound(assignments, 1.0)
    metrics = meter.scheduler
    scheduled = metrics.schedule_attempts_total
    attempts = {name: scheduled.labels("scheduled", name).value for name in ("one", "two")}
    assert attempts == {"one": 1, "two": 2}
    bind = metrics.framework_extension_point_duration_seconds
    assert sum(bind.labels(ExtensionPoint.BIND.label, "Success", "two").counts) == 2


def test_failed_attempts_are_timed_from_when_the_pod_was_popped() -> None:
    meter = CycleMeter(MetricRegistry(), Tracer())
    queued = assignment("a", "one").queued
    queued.popped_at = 1.0
    meter.failed("unschedulable", queued, 1.5)
    meter.failed("error", queued, 3.0)
    attempts = meter.scheduler.scheduling_attempt_duration_seconds
    sums = {result: attempts.labels(result, "one").sum for result in ("unschedulable", "error")}
    assert sums == {"unschedulable": 0.5, "error": 2.0}


def test_waits_at_permit_are_counted_by_the_status_that_ended_them() -> None:
    meter = CycleMeter(MetricRegistry(), Tracer())
    queued = assignment("a", "one").queued
    for status in (SUCCESS, unschedulable("timeout")):
        meter.permitted(queued, status, 1.0, 1.5)
    waits = meter.scheduler.permit_wait_duration_seconds
    assert {labels for labels, _ in waits.cells()} == {("Success",), ("Unschedulable",)}


def test_only_preemptions_for_single_pods_are_remembered_until_their_pod_is_bound() -> None:
    meter = CycleMeter(MetricRegistry(), Tracer()).preemption
    meter.begins("pod", "n1", 1)
    meter.begins("group", "", 2)
    assert meter.freed_for == {"pod": "n1"}
