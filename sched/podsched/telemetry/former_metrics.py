"""Metrics under names that kube-scheduler has dropped, for dashboards and rules that use them.

kubernetes-mixin's dashboard "Kubernetes / Scheduler" and its recording rules do. Nothing is
recorded for these metrics: before each scrape they are copied from the metrics that replaced them,
which have the same buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.telemetry.instruments import HistogramCell, MetricRegistry, MetricSet, histogram
from podsched.telemetry.metrics import (
    ATTEMPT_BUCKETS,
    EXTENSION_POINT_BUCKETS,
    PLUGIN_BUCKETS,
    SchedulerMetrics,
)

#: What VolumeBinding does at an extension point, by the label ``operation``.
_VOLUME_OPERATIONS: Mapping[str, str] = {
    "Filter": "predicate",
    "Reserve": "assume",
    "PreBind": "bind",
}


class FormerMetrics(MetricSet):
    """``scheduler_{e2e_scheduling,binding,volume_scheduling}_duration_seconds``."""

    e2e_scheduling_duration_seconds = histogram(
        "scheduler_e2e_scheduling_duration_seconds{result,profile}", ATTEMPT_BUCKETS
    )
    """Dropped by kube-scheduler in 1.23 for scheduler_scheduling_attempt_duration_seconds."""
    binding_duration_seconds = histogram(
        "scheduler_binding_duration_seconds", EXTENSION_POINT_BUCKETS
    )
    """Dropped by kube-scheduler in 1.23 for
    scheduler_framework_extension_point_duration_seconds at Bind."""
    volume_scheduling_duration_seconds = histogram(
        "scheduler_volume_scheduling_duration_seconds{operation}", PLUGIN_BUCKETS
    )
    """Dropped by kube-scheduler in 1.23 for scheduler_plugin_execution_duration_seconds of
    VolumeBinding."""

    def __init__(self, registry: MetricRegistry, scheduler: SchedulerMetrics) -> None:
        super().__init__(registry)
        self._scheduler = scheduler
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
    """Set a cell to the sum of other cells."""
    cell.counts, cell.sum = [0] * len(cell.counts), 0.0
    for source in sources:
        cell.merge(source.counts, source.sum)
