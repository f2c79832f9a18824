"""Every metric that a process of podsched has in /metrics."""

from __future__ import annotations

from podsched.telemetry import metrics
from podsched.telemetry.former_metrics import FormerMetrics
from podsched.telemetry.instruments import MetricRegistry, MetricSet


def every_metric() -> MetricRegistry:
    """Declare those of all processes, as if they were one."""
    registry = MetricRegistry()
    FormerMetrics(registry, metrics.SchedulerMetrics(registry))
    for declared in vars(metrics).values():
        if (
            isinstance(declared, type)
            and issubclass(declared, MetricSet)
            # HealthMetrics have a path of their own, /metrics/slis.
            and declared not in (MetricSet, metrics.SchedulerMetrics, metrics.HealthMetrics)
        ):
            declared(registry)
    return registry
