"""Ten thousand waiting pods cost as many steps each as a hundred do.

Steps are function calls, Python's and C's, as the interpreter's profiler counts them. What it takes
is measured by ``sched bench Queue``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from podsched.framework.events import ClusterEventWithHint, QueueingHint
from podsched.framework.hint_index import ThresholdIndex
from podsched.framework.pods import PodInfo
from podsched.queue.scheduling_queue import SchedulingQueue
from support.queue_world import NODE_ADD, Gate, pod, pod_class, queue_of

FEW, MANY = 100, 10_000
#: Pods that a node of 1 cpu helps; all others need more.
HELPED = 10
SMALL_NODE, NODE = {"cpu": 999, "memory": 1 << 40}, {"cpu": 1_000, "memory": 1 << 40}


def steps(work: Callable[[], Any]) -> int:
    """How many functions are called."""
    count = 0

    def called(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


class Waiting:
    """A queue of so many pods of 2 cpu and more, of so many classes; ``HELPED`` pods need 1."""

    def __init__(self, pods: int, classes: int) -> None:
        self.asked: list[PodInfo] = []
        kinds = [pod_class(requests={"cpu": 2_000 + n, "memory": 1 << 30}) for n in range(classes)]
        small = pod_class(requests={"cpu": 1_000, "memory": 1 << 30})
        self.infos = [
            pod(f"p{n}", kinds[n % classes] if n >= HELPED else small) for n in range(pods)
        ]
        hint = ClusterEventWithHint(NODE_ADD, self._fits, index=self._index)
        self.queue: SchedulingQueue = queue_of({"Fit": [hint]}, Gate())

    def _fits(self, info: PodInfo, old: Any, new: Mapping[str, int]) -> QueueingHint:
        self.asked.append(info)
        fit = info.cls.requests["cpu"] <= new["cpu"]
        return QueueingHint.QUEUE if fit else QueueingHint.SKIP

    def _index(self) -> ThresholdIndex:
        return ThresholdIndex(lambda info: info.cls.requests, lambda old, new: new)

    def add_all(self) -> None:
        for info in self.infos:
            self.queue.add(info, 1.0)

    def pop_all(self) -> None:
        self.popped = []
        while (one := self.queue.attempts.pop(1.0)) is not None:
            self.popped.append(one)

    def return_all(self) -> None:
        for one in self.popped:
            self.queue.attempts.add_unschedulable_if_not_present(
                one, 1.0, unschedulable_plugins=["Fit"]
            )

    def event(self, node: Mapping[str, int]) -> int:
        return self.queue.move_all_to_active_or_backoff(NODE_ADD, None, node, 9.0)


@pytest.mark.parametrize("per_class", [1, 10])
@pytest.mark.parametrize("work", [Waiting.add_all, Waiting.pop_all, Waiting.return_all])
def test_a_pod_costs_as_many_steps_among_many_as_among_few(
    work: Callable[[Waiting], None], per_class: int
) -> None:
    each = []
    for pods in (FEW, MANY):
        waiting = Waiting(pods, pods // per_class)
        for earlier in (Waiting.add_all, Waiting.pop_all, Waiting.return_all):
            if earlier is work:
                break
            earlier(waiting)
        each.append(steps(lambda waiting=waiting: work(waiting)) / pods)  # type: ignore[misc]
    assert each[1] < 1.2 * each[0]


def test_an_event_that_helps_no_pod_costs_as_many_steps_among_many_as_among_few() -> None:
    cost = []
    for pods in (FEW, MANY):
        waiting = Waiting(pods, pods)
        waiting.add_all()
        waiting.pop_all()
        waiting.return_all()
        cost.append(steps(lambda waiting=waiting: waiting.event(SMALL_NODE)))  # type: ignore[misc]
        assert waiting.asked == []
    assert cost[0] == cost[1]


def test_an_event_asks_about_one_pod_of_each_class_that_it_may_help() -> None:
    waiting = Waiting(MANY, MANY)
    waiting.add_all()
    waiting.pop_all()
    waiting.return_all()
    assert waiting.event(NODE) == HELPED
    assert waiting.asked == [waiting.infos[0]]
    assert waiting.queue.pending.counts()["unschedulable"] == MANY - HELPED
