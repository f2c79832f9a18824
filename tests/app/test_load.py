"""How busy a replica says that it is."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from podsched.app.load import LoadMeter, load_of, quantile
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import SchedulerMetrics
from support.page_world import load


def test_a_replica_counts_attempts_queues_and_times() -> None:
    metrics = SchedulerMetrics(MetricRegistry())
    meter = LoadMeter(metrics, lambda: {"active": 3, "unschedulable": 5, "gated": 1})
    metrics.schedule_attempts_total.labels("scheduled", "default-scheduler").inc(40)
    metrics.schedule_attempts_total.labels("scheduled", "other").inc(2)
    metrics.schedule_attempts_total.labels("unschedulable", "other").inc(7)
    metrics.scheduling_attempt_duration_seconds.labels("scheduled", "other").observe_n(0.003, 100)
    found = meter.load()
    assert (found.scheduled, found.unschedulable, found.errors) == (42, 7, 0)
    assert (found.active, found.backoff, found.waiting, found.gated) == (3, 0, 5, 1)
    assert 0.002 < found.attempt_p50 <= found.attempt_p99 <= 0.004
    assert found.pod_p99 == 0.0
    assert meter.load() is found, "the same for two seconds"


def test_one_attempt_shows_for_longer_than_a_page_takes_between_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = SchedulerMetrics(MetricRegistry())
    meter = LoadMeter(metrics, dict)
    metrics.scheduling_attempt_duration_seconds.labels("scheduled", "x").observe_n(0.003, 1)
    shown = []
    for second in range(0, 14, 2):
        monkeypatch.setattr("time.monotonic", lambda now=1e9 + second: now)
        shown.append(meter.load().attempt_p50 > 0)
    assert shown == [True] * 4 + [False] * 3


def test_what_a_replica_writes_can_be_read() -> None:
    metrics = SchedulerMetrics(MetricRegistry())
    meter = LoadMeter(metrics, dict)
    assert load_of(meter.line()) == meter.load()
    assert len(meter.line()) < 100


GARBAGE = ("", "x", "{}", "[1, 2]", "[" + "1," * 300 + "1]", str([True] * 12), str(["1"] * 12))
BEYOND = (str([10**400, *[1] * 11]), str([*[1] * 11, -1]), "[" + "NaN," * 11 + "1]")


@pytest.mark.parametrize("line", [*GARBAGE, *BEYOND])
def test_what_no_replica_writes_is_no_load(line: str) -> None:
    assert load_of(line.replace("'", '"').replace("True", "true")) is None
    assert len(astuple(load(0.0))) == 12


def test_quantiles_are_interpolated_in_their_bucket() -> None:
    bounds = (1.0, 2.0, 4.0)
    assert quantile(bounds, [0, 0, 0, 0], 0.5) == 0.0
    assert quantile(bounds, [0, 10, 0, 0], 0.5) == 1.5
    assert quantile(bounds, [10, 10, 20, 0], 0.75) == 3.0
    assert quantile(bounds, [0, 0, 0, 5], 0.5) == 4.0, "beyond the last bound"
