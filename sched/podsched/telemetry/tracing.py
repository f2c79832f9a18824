"""Traces of pods and scheduling attempts, across gRPC, etcd and Ray, exported by OTLP.

Times are seconds of the monotonic clock (``time.monotonic()``, the event loop's ``time()``). The
scheduler notes times while it works and records spans afterwards, with their start and end.

**Cost.** A span takes about 15 µs in the SDK. Without an exporter, and for attempts that are not
sampled, ``Tracer.start`` returns ``NO_SPAN``, whose methods do nothing; hot loops can also check
``tracer.enabled`` or ``span.recording`` first. Roots are sampled here, by ratio. Children of a
remote parent are recorded if the parent is.

**Context** travels as a W3C traceparent in a plain string ("" for none, several separated by
commas): as gRPC metadata, in an annotation of a pod, or as an argument of a Ray call
(``api.trace_context``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from types import TracebackType
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from podsched.api import trace_context

#: Max seconds to export a batch; so a shutdown waits no longer for the collector.
_EXPORT_TIMEOUT = 3

Attribute = str | int | float | bool


class SpanName(StrEnum):
    """The names of spans: those of a pod in their order, then those of remote calls."""

    WATCH = "watch"
    ATTEMPT = "scheduling attempt"
    QUEUE_WAIT = "queue wait"
    PRE_FILTER = "PreFilter"
    FILTER = "Filter"
    POST_FILTER = "PostFilter"
    SCORE = "Score"
    EVALUATE = "evaluate"
    RESERVE = "Reserve"
    PERMIT = "Permit"
    PRE_BIND = "PreBind"
    BIND = "Bind"
    POST_BIND = "PostBind"
    SHARD_EVALUATE = "evaluate shard"
    SHARD_TRY = "try shard"
    API_REQUEST = "API request"
    ETCD = "etcd transaction"
    START_POD = "start pod"


class Span:
    """An open span. As a context manager it ends with its block, failed if an error left it."""

    __slots__ = ("_span", "_tracer", "context")

    def __init__(self, tracer: Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span
        ids = span.get_span_context()
        self.context = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-01"
        """The W3C traceparent, to be passed to a process that continues this trace."""

    @property
    def recording(self) -> bool:
        return bool(self.context)

    def child(
        self, name: str, start: float, end: float, attributes: Mapping[str, Attribute] | None = None
    ) -> None:
        """Record a child that has already ended."""
        self.start_child(name, start).end(end, attributes)

    def start_child(self, name: str, at: float | None = None) -> Span:
        return Span(self._tracer, self._tracer.sdk_span(name, self._span, at))

    def end(
        self,
        at: float | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
    ) -> None:
        """End the span; ``error`` marks it as failed and gives the reason."""
        if attributes:
            self._span.set_attributes(attributes)
        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end(self._tracer.wall_nanoseconds(at))

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        self.end(error=f"{type(error).__name__}: {error}" if error is not None else "")


class _SpanGroup(Span):
    """One span in each of several traces; without any, it records nothing (``NO_SPAN``)."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self.context = trace_context.joined(span.context for span in spans)

    def start_child(self, name: str, at: float | None = None) -> Span:
        if not self._spans:
            return self
        return _SpanGroup([span.start_child(name, at) for span in self._spans])

    def end(
        self,
        at: float | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
    ) -> None:
        for span in self._spans:
            span.end(at, attributes, error)


NO_SPAN: Final[Span] = _SpanGroup(())
#: The span of the call that is being handled.
_current: ContextVar[Span] = ContextVar("span", default=NO_SPAN)


def current_span() -> Span:
    """Return the span of the call that this task handles; NO_SPAN if it is not traced."""
    return _current.get()


def set_current_span(span: Span) -> None:
    """Set the span of the call that this task handles."""
    _current.set(span)


class Tracer:
    """Starts spans; without a provider nothing is recorded (``enabled`` is False)."""

    def __init__(self, provider: TracerProvider | None = None, sample_ratio: float = 1.0) -> None:
        if not 0 <= sample_ratio <= 1:
            raise ValueError(f"sample_ratio {sample_ratio} is not between 0 and 1")
        self.enabled = provider is not None
        self._provider = provider
        self._sdk: trace.Tracer = (
            trace.NoOpTracer() if provider is None else provider.get_tracer("podsched")
        )
        self._ratio = sample_ratio
        # Roots are sampled at even intervals, without a random source, starting with the first one.
        self._credit = 1.0 if sample_ratio else 0.0
        self._wall_offset = time.time_ns() - time.monotonic_ns()

    def start(
        self,
        name: str,
        *,
        parent: str = "",
        at: float | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Span:
        """Start a span below ``parent`` (a traceparent), or as the root of a trace if sampled.

        ``at``: monotonic seconds; None means now. A malformed parent counts as no parent.
        """
        if not self.enabled:
            return NO_SPAN
        found = trace_context.parse(parent) if parent else None
        if found is not None:
            above = _remote(found)
            return Span(self, self.sdk_span(name, above, at, attributes)) if above else NO_SPAN
        if not self._sample():
            return NO_SPAN
        return Span(self, self.sdk_span(name, trace.INVALID_SPAN, at, attributes))

    def resume(self, name: str, context: str, *, at: float | None = None) -> Span:
        """Continue the traces of a context: start a span below each one that is sampled.

        Unlike ``start`` it never begins a trace. ``context``: traceparents separated by commas.
        """
        if not self.enabled or not context:
            return NO_SPAN
        parents = map(trace_context.parse, trace_context.contexts(context))
        above = [_remote(found) for found in parents if found is not None]
        spans = [Span(self, self.sdk_span(name, one, at)) for one in above if one is not None]
        if len(spans) < 2:
            return spans[0] if spans else NO_SPAN
        return _SpanGroup(spans)

    def sdk_span(
        self,
        name: str,
        parent: trace.Span,
        at: float | None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> trace.Span:
        """Start a span of the SDK, for ``Span``."""
        return self._sdk.start_span(
            name,
            context=trace.set_span_in_context(parent),
            attributes=attributes,
            start_time=self.wall_nanoseconds(at),
        )

    def wall_nanoseconds(self, at: float | None) -> int:
        """Convert monotonic seconds (None: now) to nanoseconds since 1970, as exported."""
        if at is None:
            return time.monotonic_ns() + self._wall_offset
        return int(at * 1e9) + self._wall_offset

    def monotonic(self, unix_nanoseconds: int) -> float:
        """Convert nanoseconds since 1970 to monotonic seconds."""
        return (unix_nanoseconds - self._wall_offset) / 1e9

    def shutdown(self) -> None:
        """Export the remaining spans; give up after a few seconds if there is no answer."""
        if self._provider is not None:
            self._provider.shutdown()
        self.enabled = False

    def _sample(self) -> bool:
        sampled = self._credit >= 1.0
        if sampled:
            self._credit -= 1.0
        self._credit += self._ratio
        return sampled


def _remote(found: tuple[int, int, bool]) -> trace.Span | None:
    """Return a span of another process as a parent; None if it is not sampled."""
    trace_id, span_id, sampled = found
    if not sampled:
        return None
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    return trace.NonRecordingSpan(trace.SpanContext(trace_id, span_id, True, flags))


#: Default for callers without a tracer.
DISABLED: Final = Tracer()


def configure_tracing(
    service_name: str,
    otlp_endpoint: str | None = None,
    sample_ratio: float = 1.0,
    instance: str = "",
) -> Tracer:
    """Return a tracer that exports to ``otlp_endpoint`` (gRPC, "http://host:4317"; https for TLS).

    Without an endpoint the tracer records nothing. ``instance`` distinguishes replicas
    (service.instance.id). The caller must call ``shutdown``.
    """
    if not otlp_endpoint:
        return Tracer()
    # Imported here because it takes 0.1 s, and most processes do not export traces.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    resource = {"service.name": service_name}
    if instance:
        resource["service.instance.id"] = instance
    provider = TracerProvider(
        resource=Resource.create(resource), sampler=ALWAYS_ON, shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(
        endpoint=otlp_endpoint,
        insecure=not otlp_endpoint.startswith("https://"),
        timeout=_EXPORT_TIMEOUT,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=8192))
    return Tracer(provider, sample_ratio)
