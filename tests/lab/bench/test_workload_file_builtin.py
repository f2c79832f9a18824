"""The built-in workloads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod
from podsched.api.validation import validate
from podsched.lab.bench.ops import Churn, CreateAny, CreateNodes, CreatePods, Workload
from podsched.lab.bench.workload_file import builtin_workloads, sized


def objects_of(workload: Workload) -> Iterator[AnyObject]:
    """Yield some of everything that a workload creates."""
    for op in workload.ops:
        match op:
            case CreateNodes():
                yield from op.nodes(0, 2)
            case CreatePods():
                yield from op.pods(0, 6)
            case CreateAny():
                yield from list(op.objects())[:4]
            case Churn():
                yield from op.step(0).create


def measured(name: str, count: int) -> list[Pod]:
    workload = sized(name, {"measurePods": count})
    *_, op = [op for op in workload.ops if isinstance(op, CreatePods) and op.measured]
    return op.pods(0, count)


@pytest.mark.parametrize("name", builtin_workloads())
def test_the_objects_of_a_workload_are_valid(name: str) -> None:
    objects = list(objects_of(builtin_workloads()[name]))
    assert {kind_of(item).name for item in objects} >= {"Node", "Pod"}
    for item in objects:
        assert not validate(kind_of(item), item)


def test_nodes_of_a_workload_have_names_of_their_own() -> None:
    for workload in builtin_workloads().values():
        names = [
            node.metadata.name
            for op in workload.ops
            if isinstance(op, CreateNodes)
            for node in op.nodes(0, 20)
        ]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "nodes", "first", "pods"),
    [
        ("SchedulingBasic", 5000, 1000, 10000),
        ("PreemptionBasic", 1000, 4000, 1000),
        ("SchedulingDaemonset", 15001, 0, 30000),
        ("SchedulingWhileGated", 1, 20000, 20000),
    ],
)
def test_workloads_have_the_sizes_of_scheduler_perf(
    name: str, nodes: int, first: int, pods: int
) -> None:
    workload = builtin_workloads()[name]
    assert (workload.nodes, workload.first, workload.pods) == (nodes, first, pods)


def test_a_workload_in_another_size_is_not_compared_with_kube_scheduler() -> None:
    own = builtin_workloads()["SchedulingBasic"]
    assert own.kube_scheduler == 273.5
    assert sized("SchedulingBasic", {"initNodes": own.nodes}).kube_scheduler == 273.5
    smaller = sized("SchedulingBasic", {"initNodes": 100, "measurePods": 50})
    assert (smaller.nodes, smaller.pods, smaller.kube_scheduler) == (100, 50, 0.0)


def different(pods: list[Pod]) -> int:
    """Return how many different pods there are, names aside."""
    for pod in pods:
        pod.metadata.name = ""
    return len({pod.SerializeToString(deterministic=True) for pod in pods})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SchedulingBasic", 1),
        ("Templates", 100),
        ("TemplatesMixed", 100),
        ("UniqueLabels", 300),
        ("UniqueRequests", 300),
        ("UniqueClaims", 300),
    ],
)
def test_pods_differ_as_much_as_the_workload_says(name: str, expected: int) -> None:
    assert different(measured(name, 300)) == expected


def test_every_fifth_of_the_mixed_templates_prefers_nodes_without_its_own_pods() -> None:
    pods = measured("TemplatesMixed", 100)
    preferring = [
        at for at, pod in enumerate(pods) if pod.spec.affinity.HasField("pod_anti_affinity")
    ]
    assert preferring == list(range(0, 100, 5))


def test_the_pods_of_one_template_have_several_of_ten_priorities() -> None:
    pods = measured("TemplatesPriorities", 1000)
    assert len({pod.spec.priority_class_name for pod in pods}) == 10
    assert len({pod.spec.priority_class_name for pod in pods[::100]}) > 1
