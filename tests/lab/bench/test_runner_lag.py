"""How long event loops were held up."""

from __future__ import annotations

import math

from podsched.lab.bench.runner import lags_in, longest_ms

TEXT = """
# TYPE podsched_event_loop_lag_seconds histogram
podsched_event_loop_lag_seconds_bucket{le="0.005"} 90.0
podsched_event_loop_lag_seconds_bucket{otel="x",le="0.05"} 100.0
podsched_event_loop_lag_seconds_bucket{le="+Inf"} 100.0
podsched_event_loop_lag_seconds_count 100.0
podsched_event_loop_own_lag_seconds_bucket{le="0.005"} 99.0
podsched_event_loop_own_lag_seconds_bucket{le="+Inf"} 100.0
other_bucket{le="9"} 1.0
"""


def test_the_histograms_are_found_among_other_metrics() -> None:
    found = lags_in(TEXT)
    assert found.all == {0.005: 90.0, 0.05: 100.0, math.inf: 100.0}
    assert found.own == {0.005: 99.0, math.inf: 100.0}
    assert not any(lags_in(""))


def test_the_longest_lag_is_one_between_the_two_readings() -> None:
    before = {0.005: 90.0, 0.05: 99.0, math.inf: 100.0}
    assert longest_ms(before, {0.005: 190.0, 0.05: 199.0, math.inf: 200.0}) == 5.0
    assert longest_ms(before, {0.005: 190.0, 0.05: 200.0, math.inf: 201.0}) == 50.0
    assert longest_ms(before, {0.005: 190.0, 0.05: 199.0, math.inf: 202.0}) == 50.0
    assert longest_ms({}, {}) == 0.0
