"""Traces: one per scheduling attempt, across gRPC and Ray, exported by OTLP when configured.

Times are seconds of the monotonic clock (``time.monotonic()``, the event loop's ``time()``). The
engine notes times while it works and records spans afterwards, with their start and end.

**Cost.** A span takes about 15 µs in the SDK. Without an exporter, and for attempts that are not
sampled, ``Tracer.start`` returns ``NO_SPAN``, whose methods do nothing; hot loops can also check
``tracer.enabled`` or ``span.recording`` first. Roots are sampled here, by ratio. Children of a
remote parent are recorded if the parent is.

**Context** travels as a W3C traceparent in a plain string ("" for none): as gRPC metadata, or as an
argument of a Ray call.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from enum import StrEnum
from types import TracebackType
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 0x01
#: Seconds a batch may take to be exported, and so the longest a shutdown waits for the collector.
_EXPORT_TIMEOUT = 3

Attribute = str | int | float | bool


class SpanName(StrEnum):
    """The spans of a scheduling attempt in their order, then those of remote calls."""

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
    SHARD_EVALUATE = "evaluate shard"
    SHARD_TRY = "try shard"
    API_REQUEST = "API request"


class Span:
    """An open span; as a context manager it ends itself, with the error that left the block."""

    __slots__ = ("_span", "_tracer", "context")
    recording = True

    def __init__(self, tracer: Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span
        ids = span.get_span_context()
        self.context = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-01"
        """The traceparent to hand to whoever continues this trace."""

    def child(
        self,
        name: str,
        start: float,
        end: float,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
    ) -> None:
        """Record a child that has already ended."""
        self.start_child(name, start).end(end, attributes, error)

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


class _NoSpan(Span):
    """A span that is not recorded; its methods do nothing."""

    __slots__ = ()
    recording = False

    def __init__(self) -> None:
        self.context = ""

    def child(
        self,
        name: str,
        start: float,
        end: float,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
    ) -> None:
        return

    def start_child(self, name: str, at: float | None = None) -> Span:
        return self

    def end(
        self,
        at: float | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
    ) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        return


NO_SPAN: Final[Span] = _NoSpan()


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
        if parent and (match := _TRACEPARENT.fullmatch(parent)):
            if not int(match[3], 16) & _SAMPLED:
                return NO_SPAN
            above = trace.NonRecordingSpan(
                trace.SpanContext(
                    int(match[1], 16), int(match[2], 16), True, trace.TraceFlags(_SAMPLED)
                )
            )
            return Span(self, self.sdk_span(name, above, at, attributes))
        if not self._sample():
            return NO_SPAN
        return Span(self, self.sdk_span(name, trace.INVALID_SPAN, at, attributes))

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
