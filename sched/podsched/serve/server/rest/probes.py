"""Answers /healthz, /livez, /readyz and /metrics in the REST API, as the health port does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from podsched.serve.server.access.rights import rights
from podsched.serve.server.rest.failures import check_method, page_not_found
from podsched.serve.server.rest.messages import EXCLUDE, TEXT, Answer, Request
from podsched.telemetry.health import HealthChecks, Probe

Metrics = Callable[[str], tuple[bytes, str]]
"""From an Accept header to the metrics and their content type."""


#: Seconds for which the text of metrics is kept. Making it takes some 10 ms, in which the server
#: answers nobody else, so that 400 requests at once would take four seconds.
_KEPT: Final = 0.1


class Probes:
    """Answers probes."""

    def __init__(
        self,
        checks: HealthChecks,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """metrics: None if there are none. clock: seconds."""
        self._checks = checks
        self._metrics = metrics
        self._clock = clock
        #: By Accept header, the last text, its content type, and when it was made.
        self._texts: dict[str, tuple[bytes, str, float]] = {}

    def answer(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer a probe; None for any other path. Raises ApiError."""
        first = segments[0]
        if first == "metrics" and len(segments) == 1 and self._metrics is not None:
            # Not the path as it was sent: "/metrics/" would be permitted by "/metrics/*".
            rights().check_path("get", "/metrics")
            return self._answer_metrics(self._metrics, request.headers.get("accept", ""))
        if first not in frozenset(Probe) or len(segments) > 2:
            return None
        check_method(request, "GET", "HEAD")
        if len(segments) == 2:
            one = self._checks.answer_one(Probe(first), segments[1])
            if one is None:
                return page_not_found()
            return Answer(one.text.encode(), 200 if one.ok else 500, TEXT)
        exclude = [name for v in request.values.get(EXCLUDE, ()) for name in v.split(",")]
        found = self._checks.answer(
            Probe(first), verbose="verbose" in request.query, exclude=exclude
        )
        return Answer(found.text.encode(), 200 if found.ok else 500, TEXT)

    def _answer_metrics(self, metrics: Metrics, accept: str) -> Answer:
        now, known = self._clock(), self._texts.get(accept)
        if known is None or known[2] + _KEPT <= now:
            known = *metrics(accept), now
            self._texts = {accept: known}
        return Answer(known[0], content_type=known[1])
