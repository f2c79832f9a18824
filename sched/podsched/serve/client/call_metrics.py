"""Metrics of an API server's client, with client-go's names where it has the metric."""

from __future__ import annotations

from podsched.serve.client.cluster import InformerPort
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ClientMetrics


class ClientTelemetry:
    """Counts and times calls, in HTTP's terms (``http_terms``); four dictionary look-ups per call.

    ``host`` is the server's host:port.
    """

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._metrics = ClientMetrics(registry)

    def call_tried(
        self, verb: str, code: str, host: str, seconds: float, sent: int, received: int | None
    ) -> None:
        """Record an attempt: a server's answer or failure; a call may have several.

        sent, received: bytes; None without an answer.
        """
        metrics = self._metrics
        metrics.requests_total.labels(code, verb, host).inc()
        metrics.request_duration_seconds.labels(verb, host).observe(seconds)
        metrics.request_size_bytes.labels(verb, host).observe(sent)
        if received is not None:
            metrics.response_size_bytes.labels(verb, host).observe(received)

    def call_repeated(self, verb: str, code: str, host: str) -> None:
        """Record a retry of a call because of this code from this server."""
        self._metrics.request_retries_total.labels(code, verb, host).inc()

    def call_waited(self, verb: str, host: str, seconds: float) -> None:
        """Record that a request was delayed by a rate limit."""
        self._metrics.rate_limiter_duration_seconds.labels(verb, host).observe(seconds)

    def follow(self, informer: InformerPort) -> None:
        """Report an informer's progress whenever metrics are collected."""
        metrics = self._metrics

        def update() -> None:
            metrics.informer_revision.set(informer.revision)
            metrics.informer_undecodable.set(informer.undecodable)
            metrics.informer_relists_total.labels().value = float(informer.relists)

        self._registry.before_collect(update)
