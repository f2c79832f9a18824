"""Traces the start of pods: from the agent's first sight of a bound pod until it runs.

    bound pod seen --"start pod"--> status sent (API request) --> answered: Running

Pods without a trace context are not traced, nor is any without an exporter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from podsched.api.objects import Pod
from podsched.api.reasons import StatusCode
from podsched.api.trace_context import context_of, joined, trace_id
from podsched.telemetry.logs import get_logger
from podsched.telemetry.tracing import Span, SpanName, Tracer
from podsched.v1 import api_pb2 as v1

_log = get_logger("agent")


class StartTraces:
    """The traced pods that are being started, by key."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: monotonic seconds."""
        self._tracer = tracer
        self._clock = clock
        self._starting: dict[str, Span] = {}

    def seen(self, key: str, pod: Pod) -> None:
        """Begin the span of a bound pod that does not run yet."""
        if not self._tracer.enabled or key in self._starting:
            return
        span = self._tracer.resume(
            SpanName.START_POD, context_of(pod.metadata.annotations), at=self._clock()
        )
        if span.recording:
            self._starting[key] = span

    def contexts(self, patches: Sequence[v1.PatchRequest]) -> str:
        """Return the contexts of a call that writes the statuses of pods."""
        if not self._starting:
            return ""
        keys = (f"{patch.namespace}/{patch.name}" for patch in patches)
        return joined(self._starting[key].context for key in keys if key in self._starting)

    def answered(self, key: str, pod: Pod | None, code: int) -> None:
        """End the span of a pod whose status was written; a failed write is retried."""
        if not self._starting or code != StatusCode.OK or key not in self._starting:
            return
        span = self._starting.pop(key)
        node = pod.spec.node_name if pod is not None else ""
        span.end(self._clock(), {"pod": key, "node": node})
        trace = trace_id(span.context)
        _log.info("Started a traced pod", pod=key, node=node, trace_id=trace)

    def gone(self, key: str) -> None:
        """End the span of a pod that was deleted before it ran."""
        span = self._starting.pop(key, None) if self._starting else None
        if span is not None:
            span.end(self._clock(), {"pod": key}, "gone")
