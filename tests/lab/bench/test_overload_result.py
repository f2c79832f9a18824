"""What Overload promises, checked on made-up phases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsched.lab.bench.overload import OverloadResult, Phase, grown, most_of, percentile

MIB = 1 << 20


def phases(
    *, p99: float = 0.01, seconds: float = 2.0, errors: int = 0, bound: int = 100, last: int = 90
) -> OverloadResult:
    """Two rounds; the arguments describe the last flood."""

    def phase(*, flooded: bool, memory: int) -> Phase:
        found = Phase(flooded, [0.01] * 100, [], 100, 100, 2.0)
        found.resident = found.peak = {"apiserver-0": memory * MIB}
        return found

    flood = phase(flooded=True, memory=last)
    flood.latencies, flood.bind_seconds, flood.bound = [p99] * 100, seconds, bound
    flood.errors = ["refused"] * errors
    flood.flood = {"lists OK": 3}
    quiet = phase(flooded=False, memory=80)
    return OverloadResult([quiet, phase(flooded=True, memory=80), quiet, flood])


def test_a_flood_that_others_hardly_notice_breaks_no_promise() -> None:
    assert phases(p99=0.019).problems == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"p99": 0.05}, "p99 is 5.0 times"),
        ({"seconds": 30.0}, "binds 8.0 times slower"),
        ({"errors": 2}, "2 of the ordinary client's calls failed: refused"),
        ({"bound": 99, "seconds": 1.9}, "not bound: 1 pod"),
        ({"last": 200}, "apiserver-0 grew from 80 to 200 MiB"),
    ],
)
def test_each_promise_that_is_broken_is_named(changed: dict[str, float], says: str) -> None:
    (found,) = phases(**changed).problems  # type: ignore[arg-type]
    assert says in found


def test_without_a_call_in_quiet_phases_nobody_knows_how_much_slower_a_flood_makes_calls() -> None:
    result = phases()
    for phase in result.phases:
        phase.latencies = phase.latencies if phase.flooded else []
    assert result.problems == ["the ordinary client's p99 is ? times that of quiet"]


def test_memory_that_grows_without_a_flood_as_well_is_not_the_floods() -> None:
    result = OverloadResult([replace(phase) for phase in phases().phases])
    for phase, size in zip(result.phases, (80, 130, 130, 180), strict=True):
        phase.resident = {"etcd": size * MIB}
    assert len(result.problems) == 1
    for phase, size in zip(result.phases, (80, 110, 140, 170), strict=True):
        phase.resident = {"etcd": size * MIB}
    assert result.problems == []


def test_the_report_has_the_figures_of_both_sides() -> None:
    result = phases(p99=0.015)
    assert "10.0 -> 15.0 ms (1.5x)" in "\n".join(result.lines())
    assert result.as_dict()["flood"] == {"lists OK": 3}
    assert result.as_dict()["problems"] == []


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile(range(1, 101), 99) == 99
    assert percentile([1.0, 2.0], 50) == 1.0
    assert percentile([], 99) == 0.0


def test_memory_has_levelled_off_when_it_stays_below_what_it_was() -> None:
    up_and_down = [{"etcd": size * MIB} for size in (80, 100, 90, 95, 101)]
    assert grown(up_and_down) == {}
    assert grown([*up_and_down, {"etcd": 104 * MIB}]) == {"etcd": (100 * MIB, 104 * MIB)}


def test_the_most_of_each_process_is_kept() -> None:
    assert most_of([{"a": 1, "b": 5}, {"a": 3}, {"a": 2, "b": 4}]) == {"a": 3, "b": 5}


def test_memory_that_never_levels_off_breaks_the_promise() -> None:
    result = phases()
    result.filling = [{"etcd": size * MIB} for size in (50, 100, 150)]
    (found,) = result.problems
    assert "etcd was still growing" in found
