"""The report of the benchmark of explanations."""

from __future__ import annotations

from podsched.lab.bench.explaining import ExplainResult, percentiles


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles([float(n) for n in range(100, 0, -1)]) == (50.0, 90.0, 99.0)
    assert percentiles([3.0]) == (3.0, 3.0, 3.0)


def test_the_report_tells_what_askers_cost_the_others() -> None:
    result = ExplainResult(
        5000, 1000, {"waiting pod": (9.0, 12.0, 20.0)}, [1000.0, 1100.0], [900.0, 990.0], 42
    )
    assert result.ratio == 0.9
    assert result.lines() == [
        "Explain: 5,000 nodes, rounds of 1,000 pods",
        "  waiting pod: p50 9.0 ms, p90 12.0 ms, p99 20.0 ms",
        "  pods/s without explanations: 1,000, 1,100",
        "  pods/s with one explanation after another: 900, 990 (90%; 42 explanations)",
    ]
