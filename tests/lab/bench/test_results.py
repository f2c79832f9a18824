"""Figures of benchmarks."""

from __future__ import annotations

import pytest

from podsched.lab.bench.results import BenchResult, timeline


def result(kube_scheduler: float) -> BenchResult:
    return BenchResult("W", 1, 100, 100, "batch", 0.5, 200.0, 0.1, 0.1, 0.2, {"etcd": 5.0},
                       kube_scheduler)  # fmt: skip


def test_a_result_says_how_many_times_kube_schedulers_figure_it_is() -> None:
    assert result(40.0).as_dict()["ratio"] == 5.0
    assert "5.0 times kube-scheduler's 40.0" in "\n".join(result(40.0).lines())
    assert result(0.0).ratio == 0.0
    assert "times" not in "\n".join(result(0.0).lines())


def test_a_timeline_adds_up_to_all_pods() -> None:
    points = timeline([at / 1000 for at in range(12_000)])
    width = 12 / 60
    assert sum(rate * width for _, rate in points) == pytest.approx(12_000, rel=0.01)
    assert points[0][1] == pytest.approx(1000, rel=0.02)
    assert timeline([]) == []


def test_a_timeline_has_parts_without_pods() -> None:
    assert [rate for _, rate in timeline([0.05, 0.35])] == [10.0, 0.0, 0.0, 10.0]
