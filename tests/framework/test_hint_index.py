from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podsched.framework.hint_index import KeyedIndex, ThresholdIndex
from podsched.framework.pods import PodInfo
from support.queue_world import pod, pod_class

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(-2, 5))


@given(st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=150), st.lists(AMOUNTS, max_size=5))
def test_thresholds_find_exactly_the_demands_within_the_supply(
    demands: list[tuple[dict[str, int], bool]], supplies: list[dict[str, int]]
) -> None:
    index = ThresholdIndex(lambda info: info.cls.requests, lambda old, new: new)
    kept = {}
    for number, (demand, removed) in enumerate(demands):
        index.add(number, pod(f"p{number}", pod_class(requests=demand)))
        kept[number] = demand
        if removed:
            gone = number // 2 if number // 2 in kept else number
            index.remove(gone)
            del kept[gone]
    for supply in supplies:
        fits = {
            number
            for number, demand in kept.items()
            if all(n <= 0 or n <= supply.get(name, 0) for name, n in demand.items())
        }
        found = index.candidates(None, supply)
        assert found is not None and set(found) == fits


def test_resources_that_no_pod_demands_any_more_take_no_memory() -> None:
    index = ThresholdIndex(lambda info: info.cls.requests, lambda old, new: new)
    for number in range(1000):
        index.add(number, pod(f"p{number}"))
    tracemalloc.start()
    try:
        for number in range(500):
            index.add("new", pod("new", pod_class(requests={f"example.com/{number}": 1})))
            index.remove("new")
        assert tracemalloc.get_traced_memory()[0] < 1 << 20, "a column takes 8 kB"
    finally:
        tracemalloc.stop()


def test_an_unknown_supply_may_help_anybody() -> None:
    index = ThresholdIndex(lambda info: info.cls.requests, lambda old, new: None)
    index.add("a", pod("a"))
    assert index.candidates(None, None) is None


def labels_of(info: PodInfo) -> Iterable[str] | None:
    return None if info.name == "any" else list(info.cls.labels)


def offered(old: Any, new: list[str] | None) -> list[str] | None:
    return new


def test_keys_find_those_that_share_one_and_those_that_wait_for_anything() -> None:
    index = KeyedIndex(labels_of, offered)
    index.add("zone", pod("zone", pod_class(labels={"zone": "a", "disk": "ssd"})))
    index.add("rack", pod("rack", pod_class(labels={"rack": "1"})))
    index.add("any", pod("any"))
    assert list(index.candidates(None, ["zone", "disk"]) or ()) == ["any", "zone"]
    assert index.candidates(None, None) is None
    index.remove("zone")
    index.remove("any")
    assert list(index.candidates(None, ["zone", "rack"]) or ()) == ["rack"]
