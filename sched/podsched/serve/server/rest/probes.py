"""Answers /healthz, /livez, /readyz and /metrics in the REST API, as the health port does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.serve.server.access.rights import rights
from podsched.serve.server.rest.failures import check_method, page_not_found
from podsched.serve.server.rest.messages import TEXT, Answer, Request
from podsched.telemetry.health import HealthChecks, Probe

Metrics = Callable[[str], tuple[bytes, str]]
"""From an Accept header to the metrics and their content type."""


class Probes:
    """Answers probes. metrics: None if there are none."""

    def __init__(self, checks: HealthChecks, metrics: Metrics | None = None) -> None:
        self._checks = checks
        self._metrics = metrics

    def answer(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer a probe; None for any other path. Raises ApiError."""
        first = segments[0]
        if first == "metrics" and len(segments) == 1 and self._metrics is not None:
            rights().check_path("get", request.path)
            text, content_type = self._metrics(request.headers.get("accept", ""))
            return Answer(text, content_type=content_type)
        if first not in frozenset(Probe) or len(segments) > 2:
            return None
        check_method(request, "GET", "HEAD")
        if len(segments) == 2:
            one = self._checks.answer_one(Probe(first), segments[1])
            if one is None:
                return page_not_found()
            return Answer(one.text.encode(), 200 if one.ok else 500, TEXT)
        exclude = request.query.get("exclude", "").split(",") if "exclude" in request.query else []
        found = self._checks.answer(
            Probe(first), verbose="verbose" in request.query, exclude=exclude
        )
        return Answer(found.text.encode(), 200 if found.ok else 500, TEXT)
