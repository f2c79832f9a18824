"""Victims for a whole group: the least important pods, and no more of them than needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import PodGroup, Try
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status
from podsched.plugins.default_preemption.pod_group import search_victims
from podsched.v1 import objects_pb2 as v1
from support.engine_pods import pod_info
from support.engine_world import node

GROUP = PodGroup("default/g", "uid-g", 2, priority=10)


def running(
    cache: Cache, name: str, priority: int = 0, start: float = 1.0, **metadata: Any
) -> PodInfo:
    pod = pod_info(name, {"priority": priority, "nodeName": "n1"}, **metadata)
    pod.start_time = start
    cache.add_pod(pod)
    return pod


def search(
    cache: Cache, fits_without: Callable[[Sequence[PodInfo]], bool]
) -> tuple[Victims | Status, int]:
    """Return the outcome of a search, and the number of tries."""
    found = search_victims(GROUP, [pod_info("member", {"priority": 10})], cache.cluster, ())
    fits, tries = None, 0
    while True:
        try:
            pods = found.send(fits)
        except StopIteration as end:
            return end.value, tries
        assert not isinstance(pods, Try)
        if pods is not None:
            fits, tries = fits_without(pods), tries + 1


def cluster() -> Cache:
    cache = Cache()
    cache.placed.add_node(node("n1"))
    return cache


def test_other_tasks_may_run_after_each_node_that_is_looked_at() -> None:
    cache = Cache()
    for number in range(9):
        cache.placed.add_node(node(f"n{number}"))
    low = running(cache, "low")
    found = search_victims(GROUP, [pod_info("member", {"priority": 10})], cache.cluster, ())
    assert list(islice(found, 10)) == [*[None] * 9, (low,)]


def test_other_tasks_may_run_while_pods_are_compared_with_budgets() -> None:
    cache = cluster()
    low = running(cache, "low")
    found = search_victims(GROUP, [pod_info("member", {"priority": 10})], cache.cluster, ())
    assert list(islice(found, 2)) == [None, (low,)]
    assert found.send(True) is None


def test_without_pods_of_lower_priority_there_are_no_victims() -> None:
    cache = cluster()
    running(cache, "equal", priority=10)
    found, tries = search(cache, lambda pods: True)
    assert isinstance(found, Status)
    assert found.message == "No preemption victims found for incoming preemptor"
    assert tries == 0


def test_no_pod_is_evicted_if_the_group_does_not_fit_even_without_all_of_them() -> None:
    cache = cluster()
    running(cache, "low")
    found, _ = search(cache, lambda pods: False)
    assert isinstance(found, Status)
    assert found.code is Code.UNSCHEDULABLE


def test_a_protected_pod_is_spared_before_one_of_higher_priority() -> None:
    cache = cluster()
    running(cache, "middle", priority=5)
    running(cache, "protected", labels={"app": "x"})
    budget = v1.PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "b", "default"
    budget.spec.selector.match_labels["app"] = "x"
    cache.cluster.put("PodDisruptionBudget", budget)
    found, _ = search(cache, lambda pods: bool(pods))
    assert isinstance(found, Victims)
    assert [pod.name for pod in found.pods] == ["middle"]
    assert found.num_pdb_violations == 0


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_the_victims_are_those_of_putting_pods_back_one_by_one(
    priorities: list[int], needed: int
) -> None:
    """Several are put back at once; any pod makes the same room, so that ``needed`` must go."""
    cache = cluster()
    pods = [running(cache, f"p{i}", p, start=float(i + 1)) for i, p in enumerate(priorities)]
    found, tries = search(cache, lambda without: len(without) >= needed)
    if needed > len(pods):
        assert isinstance(found, Status)
        return
    assert isinstance(found, Victims)
    by_importance = sorted(pods, key=lambda pod: (-pod.priority, pod.start_time))
    assert list(found.pods) == by_importance[len(pods) - needed :]
    assert tries <= 1 + (needed + 1) * (2 * len(pods).bit_length() + 1)
