"""Measure how busy a replica is, as one line of text in its Lease, for the web page.

Counts begin with the process, so two lines give the rates between them.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields

from podsched.ask.web.rows import MOST_AMOUNT
from podsched.ask.web.sources import Load
from podsched.telemetry.instruments import Histogram
from podsched.telemetry.metrics import SchedulerMetrics

#: Seconds until the line changes, as between two writes of a replica's Lease.
PERIOD = 2.0
#: Successive lines that include an observation, so that the page sees it in its 5-second samples.
_STEPS = 4
#: Max characters of a line; no replica writes longer ones.
_LONGEST = 500
_RESULTS = ("scheduled", "unschedulable", "error")


class LoadMeter:
    """Computes the load of a replica from its metrics."""

    def __init__(self, metrics: SchedulerMetrics, queues: Callable[[], Mapping[str, int]]) -> None:
        """``queues``: returns the number of pods by queue, with the names of ``pending_pods``."""
        self._metrics = metrics
        self._queues = queues
        self._attempts = _Window(metrics.scheduling_attempt_duration_seconds)
        self._pods = _Window(metrics.pod_scheduling_sli_duration_seconds)
        self._due = 0.0
        self._latest: Load | None = None

    def load(self) -> Load:
        """Return the load, at most two seconds old."""
        if self._latest is None or time.monotonic() >= self._due:
            self._due = time.monotonic() + PERIOD
            self._latest = self._read()
        return self._latest

    def line(self) -> str:
        """Return the load as the text for a Lease."""
        return json.dumps(astuple(self.load()), separators=(",", ":"))

    def _read(self) -> Load:
        counts = dict.fromkeys(_RESULTS, 0)
        for (result, _), cell in self._metrics.schedule_attempts_total.cells():
            counts[result] = counts.get(result, 0) + int(cell.value)
        queues = self._queues()
        return Load(
            round(time.time(), 2),
            *(counts[result] for result in _RESULTS),
            *(queues.get(name, 0) for name in ("active", "backoff", "unschedulable", "gated")),
            *(round(seconds, 6) for seconds in (*self._attempts.step(), *self._pods.step())),
        )


class _Window:
    """The latest observations of a histogram: those since ``_STEPS`` calls ago."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        none = [0] * (len(histogram.buckets) + 1)
        self._counts = deque([none], maxlen=_STEPS)

    def step(self) -> tuple[float, float]:
        """Return median and 99th percentile of the latest observations; 0.0 without any."""
        cells = [cell.counts for _, cell in self._histogram.cells()]
        now = [sum(counts) for counts in zip(*cells, strict=True)] if cells else self._counts[-1]
        new = [after - before for after, before in zip(now, self._counts[0], strict=True)]
        self._counts.append(now)
        bounds = self._histogram.buckets
        return quantile(bounds, new, 0.5), quantile(bounds, new, 0.99)


def quantile(bounds: Sequence[float], counts: Sequence[int], part: float) -> float:
    """Return a quantile of a histogram, interpolated like Prometheus' histogram_quantile.

    ``bounds``: upper bounds of the buckets. ``counts``: observations by bucket, the last ones above
    all bounds, for which the last bound is returned. ``part``: the quantile, 0 to 1.
    """
    rank = part * sum(counts)
    if not rank:
        return 0.0
    below, lower = 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= rank:
            return lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound
    return bounds[-1]


def load_of(line: str) -> Load | None:
    """Return the load in a line that a replica has written; None if the line is invalid."""
    if not line or len(line) > _LONGEST:
        return None
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, list) or len(values) != len(fields(Load)):
        return None
    return Load(*values) if all(map(_is_amount, values)) else None


def _is_amount(value: object) -> bool:
    """Whether a value is a number that the page can show."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST_AMOUNT
