"""Record runs of plugins as spans.

A separate module, because deciding code imports ``run_log`` and must not import spans.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.decide.runtime.run_log import PluginRun
from podsched.telemetry.tracing import Span


def record_runs(span: Span, runs: Sequence[PluginRun]) -> None:
    """Record runs as children of the span that they were a part of."""
    for run in runs:
        attributes = {"plugin": run.plugin, "extension_point": run.point, "status": run.status}
        span.child(run.plugin, run.began, run.ended, attributes)
