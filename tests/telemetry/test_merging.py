"""Metrics of several processes as one text."""

from __future__ import annotations

from podsched.telemetry.instruments import Counter, Gauge, Histogram, MetricRegistry
from podsched.telemetry.merging import merged


def text_of(calls: int, verb: str) -> str:
    registry = MetricRegistry()
    registry.add(Counter("calls_total", "Calls {all}.", ("verb",))).labels(verb).inc(calls)
    registry.add(Gauge("up", "Up.")).labels().set(1)
    registry.add(Histogram("seconds", "Time.", (), (0.5,))).labels().observe(0.1)
    return registry.render()[0].decode()


def test_samples_are_told_apart_by_a_label_and_stay_with_their_metric() -> None:
    assert merged({"0": text_of(3, "Get"), "1": text_of(4, "List")}, "worker") == (
        "# HELP calls_total Calls {all}.\n"
        "# TYPE calls_total counter\n"
        'calls_total{worker="0",verb="Get"} 3.0\n'
        'calls_total{worker="1",verb="List"} 4.0\n'
        "# HELP up Up.\n"
        "# TYPE up gauge\n"
        'up{worker="0"} 1.0\n'
        'up{worker="1"} 1.0\n'
        "# HELP seconds Time.\n"
        "# TYPE seconds histogram\n"
        'seconds_bucket{worker="0",le="0.5"} 1.0\n'
        'seconds_bucket{worker="0",le="+Inf"} 1.0\n'
        'seconds_count{worker="0"} 1.0\n'
        'seconds_sum{worker="0"} 0.1\n'
        'seconds_bucket{worker="1",le="0.5"} 1.0\n'
        'seconds_bucket{worker="1",le="+Inf"} 1.0\n'
        'seconds_count{worker="1"} 1.0\n'
        'seconds_sum{worker="1"} 0.1\n'
    )
