"""100,000 waiting pods. The bounds are those promised, some ten times what it takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from podsched.framework.events import ClusterEventWithHint, QueueingHint
from podsched.framework.hint_index import ThresholdIndex
from podsched.framework.pods import PodInfo
from support.queue_world import NODE_ADD, Gate, pod, pod_class, queue_of

PODS = 100_000
BOUND = 100e-6


def supply(old: Any, new: Mapping[str, int]) -> Mapping[str, int]:
    return new


@pytest.mark.parametrize("classes", [1_000, 10_000])
def test_a_hundred_thousand_pods_cost_no_more_each_than_a_few(classes: int) -> None:
    asked = []

    def fits(info: PodInfo, old: Any, new: Mapping[str, int]) -> QueueingHint:
        asked.append(info)
        fit = info.cls.requests["cpu"] <= new["cpu"]
        return QueueingHint.QUEUE if fit else QueueingHint.SKIP

    def index() -> ThresholdIndex:
        return ThresholdIndex(lambda info: info.cls.requests, supply)

    kinds = [pod_class(requests={"cpu": 2_000 + n, "memory": 1 << 30}) for n in range(classes)]
    small = pod_class(requests={"cpu": 1_000, "memory": 1 << 30})
    infos = [pod(f"p{n}", kinds[n % classes] if n >= 10 else small) for n in range(PODS)]
    queue = queue_of({"Fit": [ClusterEventWithHint(NODE_ADD, fits, index=index)]}, Gate())

    started = time.perf_counter()
    for info in infos:
        queue.add(info, 1.0)
    adding = time.perf_counter() - started

    popped = []
    started = time.perf_counter()
    while (one := queue.pop(1.0)) is not None:
        popped.append(one)
    popping = time.perf_counter() - started
    for one in popped:
        queue.add_unschedulable_if_not_present(one, 1.0, unschedulable_plugins=["Fit"])

    started = time.perf_counter()
    for _ in range(100):
        queue.move_all_to_active_or_backoff(NODE_ADD, None, {"cpu": 999, "memory": 1 << 40}, 9.0)
    events = time.perf_counter() - started
    assert asked == []

    helped = {"cpu": 1_000, "memory": 1 << 40}
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, helped, 9.0) == 10
    assert asked == [infos[0]]
    assert queue.counts()["unschedulable"] == PODS - 10
    assert adding / PODS < BOUND and popping / PODS < BOUND and events / 100 < BOUND
