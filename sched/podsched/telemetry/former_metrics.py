"""Metrics under names that kube-scheduler has dropped, for boards and rules that ask for them.

kubernetes-mixin's board "Kubernetes / Scheduler" and its recording rules do. Nothing is recorded
for them: they are read off the metrics that took their place, whose buckets they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.telemetry.instruments import Histogram, HistogramCell, MetricRegistry
from podsched.telemetry.metrics import SchedulerMetrics

#: What VolumeBinding does at an extension point, by the label ``operation``.
_VOLUME_OPERATIONS: Mapping[str, str] = {
    "Filter": "predicate",
    "Reserve": "assume",
    "PreBind": "bind",
}


class FormerMetrics:
    """``scheduler_{e2e_scheduling,binding,volume_scheduling}_duration_seconds``."""

    def __init__(self, registry: MetricRegistry, scheduler: SchedulerMetrics) -> None:
        self._scheduler = scheduler
        attempts = scheduler.scheduling_attempt_duration_seconds
        points = scheduler.framework_extension_point_duration_seconds
        plugins = scheduler.plugin_execution_duration_seconds
        self.e2e_scheduling_duration_seconds = registry.add(
            Histogram(
                "scheduler_e2e_scheduling_duration_seconds",
                f"Dropped by kube-scheduler in 1.23 for {attempts.name}.",
                ("result", "profile"),
                attempts.buckets,
            )
        )
        self.binding_duration_seconds = registry.add(
            Histogram(
                "scheduler_binding_duration_seconds",
                f"Dropped by kube-scheduler in 1.23 for {points.name} at Bind.",
                (),
                points.buckets,
            )
        )
        self.volume_scheduling_duration_seconds = registry.add(
            Histogram(
                "scheduler_volume_scheduling_duration_seconds",
                f"Dropped by kube-scheduler in 1.23 for {plugins.name} of VolumeBinding.",
                ("operation",),
                plugins.buckets,
            )
        )
        registry.before_collect(self._update)

    def _update(self) -> None:
        scheduler = self._scheduler
        for labels, cell in scheduler.scheduling_attempt_duration_seconds.cells():
            _become(self.e2e_scheduling_duration_seconds.labels(*labels), [cell])
        points = scheduler.framework_extension_point_duration_seconds.cells()
        binds = (cell for (point, _, _), cell in points if point == "Bind")
        _become(self.binding_duration_seconds.labels(), binds)
        runs = scheduler.plugin_execution_duration_seconds.cells()
        for point, operation in _VOLUME_OPERATIONS.items():
            of_point = (c for (name, at, _), c in runs if name == "VolumeBinding" and at == point)
            _become(self.volume_scheduling_duration_seconds.labels(operation), of_point)


def _become(cell: HistogramCell, sources: Iterable[HistogramCell]) -> None:
    """Make a cell the sum of others."""
    cell.counts, cell.sum = [0] * len(cell.counts), 0.0
    for source in sources:
        cell.merge(source.counts, source.sum)
