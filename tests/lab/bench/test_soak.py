"""A soak fails when a process keeps growing after the first rounds."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from podsched.lab.bench.soak import SoakResult


def soaked(*sizes: int) -> SoakResult:
    result = SoakResult(most_growth=300)
    for number, size in enumerate(sizes, start=1):
        result.add(number * 10_000, {"scheduler-0": size, "etcd": 50_000_000})
    return result


def test_a_process_that_grows_by_2_kb_a_pod_is_a_problem() -> None:
    result = soaked(*(95_000_000 + 20_000_000 * n for n in range(10)))
    assert result.growth == {"scheduler-0": 2000.0, "etcd": None}
    assert result.problems == ["scheduler-0 grows by 2,000 bytes a pod (at most 300)"]


def test_etcd_is_judged_once_its_log_is_full() -> None:
    """Until then it grows by some 5,000 bytes a pod."""

    def etcd(*sizes: int) -> SoakResult:
        result = SoakResult()
        for number, size in enumerate(sizes, start=1):
            result.add(number * 10_000, {"etcd": size})
        return result

    filling = [50_000_000 * n for n in range(1, 13)]
    assert etcd(*filling[:10]).growth == {"etcd": None}
    assert etcd(*filling, *[filling[-1]] * 8).problems == []
    grown = etcd(*filling, *(filling[-1] + 10_000_000 * n for n in range(8)))
    assert "etcd grows by 1,000 bytes a pod" in grown.problems[0]


def test_megabytes_are_no_growth_however_few_pods_there_were() -> None:
    """An allocator's noise beside 4,000 pods; a leak of 2 kB a pod is seen from 10,000 on."""
    result = SoakResult()
    for number in range(10):
        result.add((number + 1) * 1000, {"scheduler-0": 95_000_000 + 1_000_000 * number})
    assert result.growth == {"scheduler-0": 1000.0}
    assert result.problems == []


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
    assert result.as_dict()["growth_bytes_per_pod"] == {"scheduler-0": 0.0, "etcd": None}
    assert "scheduler-0" in "".join(ET.fromstring(result.chart()).itertext())
