"""What a run says of the cluster over time."""

from __future__ import annotations

import pytest

from podsched.lab.replay.history import History, NodeSpan, PodHistory, large_pod, quantiles, samples

GIB = 1 << 30


def pod(name: str, cpu: int, created: float, bound: float | None, **more: object) -> PodHistory:
    requests = {"cpu": cpu, "memory": GIB}
    return PodHistory(name, name, requests, created, bound=bound, **more)  # type: ignore[arg-type]


def run(*pods: PodHistory) -> History:
    offered = {"cpu": 4000, "memory": 8 * GIB}
    nodes = [NodeSpan("n1", 0.0, 100.0, offered), NodeSpan("n2", 50.0, 100.0, offered)]
    return History(100.0, {pod.uid: pod for pod in pods}, nodes)


def test_utilisation_counts_what_runs_on_the_nodes_that_are_there() -> None:
    found = samples(run(pod("a", 2000, 0, 10.0, node="n1", ended=90.0)), (1, 1), 5)
    assert [sample.at for sample in found] == [0.0, 25.0, 50.0, 75.0, 100.0]
    assert [sample.utilisation["cpu"] for sample in found] == [0.0, 0.5, 0.25, 0.25, 0.0]
    assert found[1].utilisation["memory"] == pytest.approx(1 / 8)


def test_free_cpu_is_fragmented_where_a_large_pod_has_no_room() -> None:
    found = samples(run(pod("a", 3000, 0, 0.0, node="n1")), (2000, GIB), 3)
    # On n1 1000m are free, too few; from 50 s on n2 has 4000m free.
    assert [sample.fragmentation for sample in found] == [1.0, pytest.approx(0.2), 0.2]


def test_a_pod_waits_until_it_is_bound_or_gone() -> None:
    pods = [
        pod("bound", 1, 10.0, 60.0, node="n1"),
        pod("gone", 1, 10.0, None, ended=30.0),
        pod("never", 1, 10.0, None),
        pod("others", 1, 10.0, None, decided=False),
    ]
    assert [sample.waiting for sample in samples(run(*pods), (1, 1), 5)] == [0, 3, 2, 1, 1]


def test_a_large_pod_is_one_that_nine_of_ten_are_not_larger_than() -> None:
    pods = [pod(str(n), 100 * n, 0, None) for n in range(1, 11)]
    assert large_pod(pods) == (1000, GIB)
    assert large_pod(pods[:1]) == (100, GIB)
    assert large_pod([]) == (0, 0)


def test_quantiles_of_nothing_are_zero() -> None:
    assert quantiles([], (0.5, 1.0)) == [0.0, 0.0]
    assert quantiles([1.0, 3.0], (0.5, 1.0)) == [2.0, 3.0]
