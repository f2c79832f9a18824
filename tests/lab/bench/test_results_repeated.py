"""Several runs of one workload."""

from __future__ import annotations

from podsched.lab.bench.results import BenchResult, RepeatedResult


def run(rate: float, cpu: float, problems: list[str] | None = None) -> BenchResult:
    return BenchResult(
        "W", 5, 100, 100, "batch", 100 / rate, rate, 0.1, 0.1, 0.2, {"etcd": cpu},
        timeline=[(0.1, rate)], problems=problems or [],
    )  # fmt: skip


def test_the_median_and_the_spread_of_all_runs_are_told() -> None:
    repeated = RepeatedResult([run(300.0, 3.0), run(100.0, 9.0), run(200.0, 4.0)])
    figures = repeated.as_dict()
    assert figures["pods_per_second"] == 200.0
    assert figures["spread"]["pods_per_second"] == [100.0, 300.0]  # type: ignore[index]
    assert figures["cpu_us_per_pod"] == {"etcd": 4.0}
    assert (figures["workload"], figures["nodes"], figures["runs"]) == ("W", 5, 3)
    text = "\n".join(repeated.lines())
    assert "200 pods/s" in text and "100 to 300 pods/s (spread 67%)" in text


def test_a_problem_of_any_run_is_one_of_all() -> None:
    repeated = RepeatedResult([run(300.0, 3.0), run(900.0, 1.0, ["node a has 1 of pods"])])
    assert repeated.problems == ["run 2: node a has 1 of pods"]


def test_every_run_is_a_line_of_the_chart() -> None:
    chart = RepeatedResult([run(300.0, 3.0), run(100.0, 3.0)]).chart()
    assert chart.count("<polyline") == 2 and "run 2" in chart
