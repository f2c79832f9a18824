"""The order of turns and the figures of a comparison."""

from __future__ import annotations

from podsched.lab.bench.comparison import ComparisonResult, Turn, order, throughput, too_fast


def turn(scheduler: str, rate: float, **more: object) -> Turn:
    return Turn("W", scheduler, 10, 100, 100, rate, **more)  # type: ignore[arg-type]


def result(*turns: Turn) -> ComparisonResult:
    return ComparisonResult({"API server": "v1.36.2"}, list(turns))


ROUNDS = result(
    turn("kube-scheduler", 100.0, cpu_us_per_pod={"scheduler": 900.0}, load=0.5),
    turn("podsched", 300.0, cpu_us_per_pod={"scheduler": 400.0}, load=2.5),
    turn("podsched", 500.0, cpu_us_per_pod={"scheduler": 500.0}, load=1.0),
    turn("kube-scheduler", 200.0, cpu_us_per_pod={"scheduler": 800.0}, load=1.0),
    turn("kube-scheduler", 150.0, cpu_us_per_pod={"scheduler": 850.0}, load=1.0),
    turn("podsched", 600.0, cpu_us_per_pod={"scheduler": 300.0}, load=1.0),
)


def test_the_scheduler_that_ends_a_round_begins_the_next() -> None:
    ours, theirs = "podsched", "kube-scheduler"
    assert order(3) == [(theirs, ours), (ours, theirs), (theirs, ours)]


def test_the_throughput_counts_from_when_the_scheduler_leads_to_the_last_binding() -> None:
    assert throughput([12.0, 10.0, 10.0, 10.5, 11.0, 11.5], began=9.0) == 2.0


def test_the_throughput_of_no_pods_is_zero() -> None:
    assert throughput([], began=9.0) == 0.0


def test_a_turn_that_is_over_before_the_clock_starts_is_a_problem() -> None:
    assert too_fast(bound=5, rate=throughput([8.0, 8.5], began=9.0)) == [
        "the pods were bound before its lease was seen: measure more pods"
    ]
    assert too_fast(bound=5, rate=throughput([9.5], began=9.0)) == []
    assert too_fast(bound=0, rate=0.0) == []


def test_the_ratio_is_that_of_the_medians() -> None:
    compared = ROUNDS.compared[0]
    assert compared.ratio == 500 / 150
    assert compared.ratios == [3.0, 2.5, 4.0]


def test_medians_and_spreads_have_stable_names() -> None:
    figures = ROUNDS.as_dict()["compared"]
    assert figures == [
        {
            "workload": "W",
            "kube-scheduler": {
                "pods_per_second": 150.0,
                "spread": [100.0, 200.0],
                "cpu_us_per_pod": {"scheduler": 850.0},
            },
            "podsched": {
                "pods_per_second": 500.0,
                "spread": [300.0, 600.0],
                "cpu_us_per_pod": {"scheduler": 400.0},
            },
            "ratio": 3.33,
            "ratio_spread": [2.5, 4.0],
        }
    ]


def test_the_report_names_what_was_measured_with_what() -> None:
    lines = ROUNDS.lines()
    assert lines[0] == "compare: 10 nodes, 100 pods, 3 rounds; medians"
    assert "  API server: v1.36.2" in lines
    assert "  load average: 0.5 to 2.5 when turns began" in lines
    assert " ".join(lines[-1].split()) == "W podsched 500 300 to 600 3.3 2.5 to 4.0 400"


def test_a_single_round_is_one_round() -> None:
    once = result(turn("kube-scheduler", 1.0), turn("podsched", 10.0))
    assert once.lines()[0] == "compare: 10 nodes, 100 pods, 1 round; medians"


def test_a_ratio_to_an_unknown_throughput_is_zero() -> None:
    compared = result(turn("kube-scheduler", 0.0), turn("podsched", 10.0)).compared[0]
    assert (compared.ratio, compared.ratios) == (0.0, [0.0])


def test_a_problem_names_the_workload_and_the_scheduler() -> None:
    found = result(turn("podsched", 1.0, problems=["1 of 100 pods were not bound"])).problems
    assert found == ["W by podsched: 1 of 100 pods were not bound"]
