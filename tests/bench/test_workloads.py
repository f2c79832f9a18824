"""The benchmarks' pure parts: shapes, what goes on beside the measured pods, figures."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import pytest

from podsched.api.kinds import kind_of
from podsched.api.objects import Node, Pod
from podsched.api.validation import validate
from podsched.bench.disturbances import Step, deletions, mixed_churn, preemptors, unschedulable
from podsched.bench.processes import cpu_seconds, cpu_seconds_of, spent
from podsched.bench.queueing import run_queue
from podsched.bench.results import BenchResult, FailoverResult
from podsched.bench.run import measured_pods
from podsched.bench.shapes import copies
from podsched.bench.workloads import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_objects_of_a_workload_are_valid(name: str) -> None:
    workload = WORKLOADS[name]
    for template in (workload.first_template(), workload.template()):
        (pod,) = copies(template, "pod", 1)
        assert not validate("Pod", pod)
    for index in (0, 1):
        assert not validate("Node", workload.node_of(index))
    small = replace(workload, pods=3)
    needed = workload.objects_for(small.pods) if workload.objects_for else ()
    for item in (*measured_pods(small), *needed):
        assert not validate(kind_of(item), item)


def test_nodes_of_a_workload_have_names_of_their_own() -> None:
    for workload in WORKLOADS.values():
        names = {workload.node_of(n).metadata.name for n in range(min(workload.nodes, 50))}
        assert len(names) == min(workload.nodes, 50)


def classes_of(name: str) -> int:
    """Return how many different pods a workload has, names aside."""
    pods = measured_pods(replace(WORKLOADS[name], pods=300))
    for pod in pods:
        pod.metadata.name = ""
    return len({pod.SerializeToString(deterministic=True) for pod in pods})


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("SchedulingBasic", 1),
        ("Templates", 100),
        ("TemplatesMixed", 100),
        ("UniqueLabels", 300),
        ("UniqueRequests", 300),
        ("UniqueClaims", 300),
    ],
)
def test_pods_differ_as_much_as_the_workload_says(name: str, classes: int) -> None:
    assert classes_of(name) == classes


def test_templates_of_one_workload_have_ten_priorities() -> None:
    pods = measured_pods(replace(WORKLOADS["TemplatesPriorities"], pods=300))
    assert len({pod.spec.priority_class_name for pod in pods}) == 10


def test_churn_takes_away_what_it_made() -> None:
    there: set[str] = set()
    for tick in range(6):
        step = mixed_churn(tick)
        there |= {f"{type(made).__name__}/{made.metadata.name}" for made in step.create}
        there -= {f"{kind}/{name}" for kind, _, name in step.delete}
        assert len(there) == (0 if tick % 2 else 3)
    assert not [wrong for made in mixed_churn(0).create for wrong in validate(kind_of(made), made)]
    nodes = [made for made in mixed_churn(0).create if isinstance(made, Node)]
    assert [node.status.allocatable["pods"] for node in nodes] == ["0"]


@pytest.mark.parametrize("steps", [unschedulable, preemptors])
def test_each_tick_brings_one_more_pod_of_high_priority(steps: object) -> None:
    made: list[Step] = [steps(tick) for tick in range(3)]  # type: ignore[operator]
    pods = list(itertools.chain.from_iterable(step.create for step in made))
    assert len({pod.metadata.name for pod in pods}) == 3
    for pod in pods:
        assert isinstance(pod, Pod) and pod.spec.priority_class_name == "bench-high"


def test_deletions_end_with_the_last_pod() -> None:
    steps = deletions("first", 4, 10)
    names = [name for tick in range(5) for _, _, name in steps(tick).delete]
    assert names == [f"first-{n}" for n in range(10)]


def test_cpu_time_is_read_whatever_a_process_is_called() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1"
    assert cpu_seconds_of(stat) == pytest.approx(300 / tick)
    assert set(cpu_seconds({"me": os.getpid(), "nobody": None})) == {"me"}
    assert spent({"a": 1.0}, {"a": 3.0, "new": 1.0}, 1000) == {"a": 2000.0}


def result(kube_scheduler: float) -> BenchResult:
    return BenchResult("W", 1, 100, 100, "batch", 0.5, 200.0, 0.1, 0.1, 0.2, {"etcd": 5.0},
                       kube_scheduler)  # fmt: skip


def test_a_result_says_how_many_times_kube_schedulers_figure_it_is() -> None:
    assert result(40.0).as_dict()["ratio"] == 5.0
    assert "5.0 times kube-scheduler's 40.0" in "\n".join(result(40.0).lines())
    assert result(0.0).ratio == 0.0
    assert "times" not in "\n".join(result(0.0).lines())


def test_failover_reports_the_median_of_each_signal() -> None:
    figures = FailoverResult({"SIGKILL": [3.0, 1.0, 2.0], "SIGTERM": []}).as_dict()
    assert figures["median_seconds"] == {"SIGKILL": 2.0, "SIGTERM": 0.0}


def test_the_event_that_helps_ten_pods_moves_ten() -> None:
    measured = run_queue(2_000)
    assert measured.helped == 10
    # One pod or event at a time, with room for a busy machine; 100,000 pods are measured by hand.
    assert all(each < 500 for each in measured.microseconds.values())
