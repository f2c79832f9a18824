"""A soak fails when a process keeps growing after the first rounds."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from podsched.bench.soak import SoakResult


def soaked(*sizes: int) -> SoakResult:
    result = SoakResult(most_growth=300)
    for number, size in enumerate(sizes, start=1):
        result.add(number * 10_000, {"scheduler-0": size, "etcd": 50_000_000})
    return result


def test_a_process_that_grows_by_2_kb_a_pod_is_a_problem() -> None:
    result = soaked(*(95_000_000 + 20_000_000 * n for n in range(10)))
    assert result.growth == {"scheduler-0": 2000.0, "etcd": 0.0}
    assert result.problems == ["scheduler-0 grows by 2,000 bytes a pod (at most 300)"]


def test_what_is_filled_in_the_first_rounds_is_no_growth() -> None:
    assert not soaked(80_000_000, 150_000_000, 190_000_000, *[200_000_000] * 7).problems


def test_a_process_that_comes_or_goes_on_the_way_counts_as_nothing_while_it_is_away() -> None:
    result = SoakResult()
    result.add(10, {"a": 5})
    result.add(20, {"b": 7})
    assert result.memory == {"a": [5, 0], "b": [0, 7]}


def test_figures_are_shown_as_lines_as_data_and_as_a_chart() -> None:
    result = soaked(*(95_000_000 for _ in range(10)))
    assert "scheduler-0" in "\n".join(result.lines())
    assert max(map(len, result.lines())) <= 80
    assert result.as_dict()["growth_bytes_per_pod"] == {"scheduler-0": 0.0, "etcd": 0.0}
    assert "scheduler-0" in "".join(ET.fromstring(result.chart()).itertext())
