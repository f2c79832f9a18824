"""Google's trace of 2011."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.resources import readable_allocatable
from podsched.lab.replay.traces import google2011
from podsched.lab.replay.traces.builder import GIB, BadTrace
from podsched.lab.replay.workload import Workload
from podsched.serve.client.informer import EventType

MACHINES = """\
0,5,0,a,0.5,0.25
0,6,0,a,1,1
90000000,6,1,a,,
"""
#: time, missing, job, index, machine, event, user, class, priority, cpu, memory, disk, apart
TASKS = """\
0,,1,0,,0,u,0,9,0.25,0.125,0,0
0,,1,0,5,1,u,0,9,0.25,0.125,0,0
0,,1,1,,0,u,0,9,0.25,0.125,0,0
10000000,,2,0,,0,u,0,2,0.5,0.5,0,1
12000000,,1,1,6,1,u,0,9,0.25,0.125,0,0
15000000,,2,0,6,1,u,0,2,0.5,0.5,0,1
20000000,,2,0,6,2,u,0,2,0.5,0.5,0,1
20000000,,2,0,,0,u,0,2,0.5,0.5,0,1
30000000,,2,0,5,1,u,0,2,0.5,0.5,0,1
70000000,,2,0,5,4,u,0,2,0.5,0.5,0,1
80000000,,3,0,6,1,u,0,0,,,,
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "machine_events.csv").write_text(MACHINES)
    (tmp_path / "task_events.csv").write_text(TASKS)
    return tmp_path


def pods(workload: Workload) -> dict[str, tuple[float, float | None, str, float | None]]:
    assert workload.recorded is not None
    found = workload.recorded.pods.values()
    return {p.key: (p.created, p.bound, p.node, p.ended) for p in found}


def test_submissions_schedules_and_ends_make_pods(trace: Path) -> None:
    found = google2011.read(trace)
    assert pods(found) == {
        "trace/job-1-0": (0.0, 0.0, "machine-5", None),
        "trace/job-1-1": (0.0, 12.0, "machine-6", None),
        "trace/job-2-0": (10.0, 15.0, "machine-6", 20.0),
        "trace/job-2-0-2": (20.0, 30.0, "machine-5", 70.0),
        "trace/job-3-0": (80.0, 80.0, "machine-6", None),
    }
    assert found.run_times == {"uid-job-2-0-2": 40.0}, "how long an evicted one runs is unknown"
    assert found.recorded is not None
    assert found.recorded.pods["uid-job-2-0"].preempted
    decided = {pod.key for pod in found.recorded.decided()}
    assert "trace/job-1-0" not in decided, "it ran before the trace began"
    assert "trace/job-1-1" in decided


def test_amounts_are_shares_of_the_largest_machine(trace: Path) -> None:
    found = google2011.read(trace)
    nodes = {item.metadata.name: item for item in found.objects}
    offered = readable_allocatable(nodes["machine-5"])  # type: ignore[arg-type]
    assert (offered["cpu"], offered["memory"]) == (32_000, 64 * GIB)
    assert found.recorded is not None
    assert found.recorded.pods["uid-job-1-0"].requests == {"cpu": 16_000, "memory": 32 * GIB}
    assert found.recorded.pods["uid-job-3-0"].requests == {"cpu": 0, "memory": 0}
    submitted = next(change.item for change in found.changes if change.key == "trace/job-2-0")
    assert submitted.spec.priority == 2  # type: ignore[union-attr]
    assert submitted.spec.affinity.HasField("pod_anti_affinity")  # type: ignore[union-attr]


def test_machines_go_when_they_went(trace: Path) -> None:
    gone = [s for s in google2011.read(trace).changes if s.type is EventType.DELETED]
    assert [(change.at, change.key) for change in gone] == [(90.0, "machine-6")]


def test_less_of_the_trace_is_read_when_less_is_wanted(trace: Path) -> None:
    found = google2011.read(trace, 16.0)
    assert found.seconds == 15.0
    assert set(pods(found)) == {"trace/job-1-0", "trace/job-1-1", "trace/job-2-0"}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("1,,1", "line 1: 3 fields, of which number 4 is wanted"),
        ("x,,1,0,,0,u,0,9,1,1,0,0", 'line 1: field 1: "x" is not a number'),
        ("1,,1,0,,0,u,0,9,nan,1,0,0", 'field 10: "nan" is not a number'),
    ],
)
def test_a_row_that_does_not_fit_is_named(trace: Path, row: str, told: str) -> None:
    (trace / "task_events.csv").write_text(row + "\n")
    with pytest.raises(BadTrace) as raised:
        google2011.read(trace)
    assert told in str(raised.value)


def test_a_table_that_is_missing_is_named(trace: Path) -> None:
    (trace / "task_events.csv").unlink()
    with pytest.raises(BadTrace, match="neither task_events"):
        google2011.read(trace)
