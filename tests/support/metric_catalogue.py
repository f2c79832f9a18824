"""Every metric that a process of podsched has."""

from __future__ import annotations

from podsched.telemetry import metrics
from podsched.telemetry.former_metrics import FormerMetrics
from podsched.telemetry.instruments import MetricRegistry


def every_metric() -> MetricRegistry:
    """Declare those of all processes, as if they were one."""
    registry = MetricRegistry()
    FormerMetrics(registry, metrics.SchedulerMetrics(registry))
    for family in (
        metrics.PodGroupMetrics,
        metrics.PreemptionMetrics,
        metrics.EvaluationMetrics,
        metrics.BindingMetrics,
        metrics.DecisionMetrics,
        metrics.ShadowMetrics,
        metrics.ConfigMetrics,
        metrics.ElectionMetrics,
        metrics.ClientMetrics,
        metrics.ControllerMetrics,
        metrics.ApiServerMetrics,
        metrics.FlowControlMetrics,
        metrics.ProcessMetrics,
        metrics.BuildMetrics,
        metrics.RegistryMetrics,
        metrics.AgentMetrics,
    ):
        family(registry)
    return registry
