"""Metrics of a client of the API server, under client-go's names where it has one."""

from __future__ import annotations

from typing import Protocol

from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ClientMetrics


class Followed(Protocol):
    """What is told of an informer."""

    @property
    def revision(self) -> int: ...
    @property
    def set_aside(self) -> int: ...
    @property
    def relists(self) -> int: ...


class ClientTelemetry:
    """A ``CallObserver`` that counts and times; two dictionary look-ups per call."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._metrics = ClientMetrics(registry)

    def call_tried(self, method: str, code: str, host: str, seconds: float) -> None:
        """See ``CallObserver``."""
        self._metrics.requests_total.labels(code, method, host).inc()
        self._metrics.request_duration_seconds.labels(method, host).observe(seconds)

    def call_repeated(self, method: str, code: str, host: str) -> None:
        """See ``CallObserver``."""
        self._metrics.request_retries_total.labels(code, method, host).inc()

    def follow(self, informer: Followed) -> None:
        """Tell how far an informer has come whenever metrics are collected."""
        metrics = self._metrics

        def update() -> None:
            metrics.informer_revision.set(informer.revision)
            metrics.informer_undecodable.set(informer.set_aside)
            metrics.informer_relists_total.labels().value = float(informer.relists)

        self._registry.before_collect(update)
