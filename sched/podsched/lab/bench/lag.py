"""How long the event loops of processes were held up, from the metrics that they export."""

from __future__ import annotations

import asyncio
import math
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from podsched.app.local_cluster import LocalCluster

_WITHIN = 5.0

#: Cumulative counts of a histogram by the upper bounds of its buckets.
Buckets = Mapping[float, float]


class Lags(NamedTuple):
    """Histograms of a loop's lag, and of how much of it the process itself can have caused."""

    all: Buckets = MappingProxyType({})
    own: Buckets = MappingProxyType({})


def lags_in(metrics: str) -> Lags:
    """Return the histograms in a text of metrics; empty if there are none."""
    buckets: dict[str, dict[float, float]] = {
        f"podsched_event_loop_{name}seconds_bucket": {} for name in ("lag_", "own_lag_")
    }
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in buckets:
                buckets[sample.name][float(sample.labels["le"])] = sample.value
    return Lags(*buckets.values())


def longest_ms(before: Buckets, after: Buckets) -> float:
    """Return the bound, in milliseconds, that no lag between two readings was above.

    Lags above the largest finite bound (3 s) count as that; 0 without any.
    """
    counts = {bound: count - before.get(bound, 0.0) for bound, count in sorted(after.items())}
    samples = counts.pop(math.inf, 0.0)
    if not samples:
        return 0.0
    bounds = (bound for bound, count in counts.items() if count >= samples)
    return round(next(bounds, max(counts, default=0.0)) * 1000, 1)


async def read_lags(cluster: LocalCluster) -> dict[str, Lags]:
    """Return the histograms of all processes that answer and have one."""
    names = [process.spec.name for process in cluster.processes]
    ports = [process.spec.health_port for process in cluster.processes]
    texts = await asyncio.gather(*(asyncio.to_thread(_metrics, port) for port in ports))
    read = {name: lags_in(text) for name, text in zip(names, texts, strict=True)}
    return {name: lags for name, lags in read.items() if lags.all}


def _metrics(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_WITHIN) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""
