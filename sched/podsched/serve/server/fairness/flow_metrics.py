"""Records metrics of the gate, with kube-apiserver's names."""

from __future__ import annotations

from collections import Counter

from podsched.serve.server.fairness.flows import Flow, Flows
from podsched.serve.server.fairness.levels import LEVELS, SCHEMAS
from podsched.telemetry.instruments import CounterCell, HistogramCell, MetricRegistry
from podsched.telemetry.metrics import FlowControlMetrics


class FlowTelemetry:
    """Counts calls of the gate, at one dictionary lookup per call."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._metrics = FlowControlMetrics(registry)
        self._dispatched: dict[str, tuple[CounterCell, HistogramCell]] = {}

    def dispatched(self, flow: Flow, waited: float) -> None:
        """Count a call that got a seat after ``waited`` seconds."""
        schema = flow.schema
        cells = self._dispatched.get(schema.name)
        if cells is None:
            labels = schema.level.name, schema.name
            cells = self._dispatched[schema.name] = (
                self._metrics.dispatched_requests_total.labels(*labels),
                self._metrics.request_wait_duration_seconds.labels(*labels),
            )
        cells[0].inc()
        cells[1].observe(waited)

    def rejected(self, flow: Flow, reason: str) -> None:
        """Count a refusal; reason: "queue-full", "time-out" or "unauthenticated"."""
        labels = flow.schema.level.name, flow.schema.name
        self._metrics.rejected_requests_total.labels(*labels, reason).inc()

    def follow(self, flows: Flows) -> None:
        """Read the numbers of waiting calls and taken seats whenever metrics are collected."""
        metrics = self._metrics

        def update() -> None:
            waiting: Counter[str] = Counter()
            held: Counter[str] = Counter()
            for flow in flows:
                waiting[flow.schema.name] += len(flow.waiting)
                held[flow.schema.name] += flow.held
            for schema in SCHEMAS:
                labels = schema.level.name, schema.name
                metrics.current_inqueue_requests.labels(*labels).set(waiting[schema.name])
                metrics.current_executing_seats.labels(*labels).set(held[schema.name])
            for level in LEVELS:
                metrics.nominal_limit_seats.labels(level.name).set(level.seats)
            metrics.shared_part.set(flows.loop.shared_part)

        self._registry.before_collect(update)
