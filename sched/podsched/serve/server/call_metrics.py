"""Records metrics and traces of an API server, with kube-apiserver's names where they exist.

Cost per call: two dictionary look-ups and, if the client's attempt is sampled, a span. Metrics that
can be computed on collection are computed only then.
"""

from __future__ import annotations

from typing import Any

from podsched.api import trace_context
from podsched.api.kinds import KINDS, UnknownKindError, find_kind
from podsched.api.reasons import StatusCode
from podsched.api.trace_context import Metadata
from podsched.serve.server.audit.log import AuditLog
from podsched.serve.server.core import ServerCore
from podsched.serve.server.methods import METHODS, PASSED_ON
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.logs import bind_trace
from podsched.telemetry.metrics import ApiServerMetrics
from podsched.telemetry.tracing import DISABLED, NO_SPAN, Span, SpanName, Tracer, set_current_span

_STREAMS = (
    "Watch",
    "SubmitPods",
    *(name for name, method in METHODS.items() if method.subresource in PASSED_ON),
)
_PLURALS = {kind.oneof_field: kind.plural for kind in KINDS.values()}


def resource_of(request: Any) -> str:
    """Return the resource of a request (plural); "" if it names no kind or several."""
    fields = request.DESCRIPTOR.fields_by_name
    if "kind" in fields:
        try:
            return find_kind(request.kind).plural
        except UnknownKindError:
            return ""
    if "object" in fields:
        return _PLURALS.get(request.object.WhichOneof("object") or "", "")
    name = request.DESCRIPTOR.name
    if name in ("CreateBatchRequest", "PatchBatchRequest", "DeleteBatchRequest", "WatchRequest"):
        return ""
    return "" if name.endswith("ReviewRequest") else "pods"


class ServerTelemetry:
    """Counts, times and traces calls."""

    def __init__(self, registry: MetricRegistry, tracer: Tracer = DISABLED) -> None:
        self._registry = registry
        self._tracer = tracer
        self._metrics = ApiServerMetrics(registry)

    def follow_audit(self, log: AuditLog) -> None:
        """Read the audit log's counters whenever metrics are collected."""
        metrics = self._metrics

        def update() -> None:
            metrics.audit_event_total.labels().value = float(log.written)
            for plugin, count in log.dropped.items():
                metrics.audit_error_total.labels(plugin).value = float(count)

        self._registry.before_collect(update)

    def follow(self, core: ServerCore) -> None:
        """Read the state of a server whenever metrics are collected."""
        metrics, cache = self._metrics, core.cache

        def update() -> None:
            metrics.watchers.set(core.watcher.watching)
            metrics.watch_events_total.labels().value = float(core.watcher.sent)
            metrics.watch_cache_events.set(len(cache.ring))
            metrics.watch_cache_revision.set(cache.revision)
            metrics.etcd_up.set(float(not core.etcd.problem))
            metrics.compacted_revision.set(core.compactor.compacted)
            if core.etcd.status is not None:
                metrics.storage_size_bytes.set(core.etcd.status.db_size)
            for kind in KINDS.values():
                metrics.storage_objects.labels(kind.plural).set(len(cache.objects(kind)))
                metrics.unreadable_objects.labels(kind.plural).set(len(cache.unreadable(kind)))

        self._registry.before_collect(update)

    def call_began(self, method: str, metadata: Metadata, started: float) -> Span:
        """Record the start of a call; return the span in which it is handled."""
        if not self._tracer.enabled or method == "Watch":
            return NO_SPAN
        span = self._tracer.resume(
            SpanName.API_REQUEST, trace_context.of_metadata(metadata), at=started
        )
        # Also if there is none: calls of a connection may share the context variable.
        set_current_span(span)
        bind_trace(span.context)
        return span

    def call_ended(
        self,
        method: str,
        request: Any,
        code: str,
        started: float,
        ended: float,
        span: Span,
        request_id: str,
    ) -> None:
        """Record the end of a call.

        started, ended: monotonic seconds; code: name of the gRPC status; request: the decoded
        message, None if decoding failed; span: from ``call_began``.
        """
        resource = resource_of(request) if request is not None else ""
        self._metrics.request_total.labels(method, resource, code).inc()
        if method == "Watch" and code == StatusCode.OUT_OF_RANGE.name:
            self._metrics.watchers_dropped_total.labels("compacted").inc()
        if span.recording:
            attributes = {
                "rpc.method": method,
                "k8s.resource": resource,
                "podsched.request_id": request_id,
            }
            span.end(ended, attributes, "" if code == StatusCode.OK.name else code)
        if method in _STREAMS:
            return  # the duration of a stream depends on the client
        self._metrics.request_duration_seconds.labels(method, resource).observe(ended - started)
