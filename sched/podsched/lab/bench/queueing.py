"""Cost of the scheduling queue's operations with 100,000 pods, with the real plugins' hints.

Pods of 1,000 classes that fit no node are waiting. Ten others fit after the last event, the
deletion of a pod. Everything runs in this process; times are its CPU times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from podsched.api.objects import Pod
from podsched.config.load import load_config
from podsched.framework.events import ASSIGNED_POD_DELETE
from podsched.framework.pods import PodInfo
from podsched.lab.bench.shapes import copies, node, pod_template
from podsched.registry import factories
from podsched.term.state import SchedulingState, build_state

T = TypeVar("T")

PODS = 100_000
CLASSES = 1_000
HELPED = 10
EVENTS = 100
PLUGIN = "NodeResourcesFit"


@dataclass(slots=True)
class QueueResult:
    """Microseconds per operation of the scheduling queue with ``pods`` waiting."""

    pods: int
    helped: int
    microseconds: dict[str, float]
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {"workload": "Queue", **asdict(self)}

    def lines(self) -> list[str]:
        each = [f"  {name}: {value:.1f} us" for name, value in self.microseconds.items()]
        return [f"Queue: {self.pods:,} waiting pods; CPU time per operation", *each]


def run_queue(pods: int = PODS) -> QueueResult:
    """Measure the microseconds to add, pop and return a pod, and to handle an event."""
    state = build_state(load_config({}), factories(), seed=0)
    queue = state.queue
    state.cache.placed.add_node(node("node-0"))
    small, leaving = _placed("small", "500m"), _placed("leaving", "1")
    for pod in (small, leaving, _placed("staying", "2500m")):
        state.cache.apply("Pod", None, pod)
    waiting = _waiting(state, pods)
    micros = {"add": _each(waiting, lambda info: queue.add(info, 0.0))}
    popped = []
    began = time.process_time()
    while (one := queue.attempts.pop(0.0)) is not None:
        popped.append(one)
    micros["pop"] = _micros(began, pods)
    began = time.process_time()
    for one in popped:
        queue.attempts.add_unschedulable_if_not_present(one, 0.0, unschedulable_plugins=(PLUGIN,))
    micros["return as unschedulable"] = _micros(began, pods)
    state.cache.apply("Pod", small, None)
    micros["event that helps no pod"] = _each(
        range(EVENTS), lambda n: _deleted(state, small, now=1.0 + n)
    )
    state.cache.apply("Pod", leaving, None)
    spent = 0.0
    for number in range(EVENTS):
        now = 1000.0 + 100 * number
        began = time.process_time()
        helped = _deleted(state, leaving, now=now)
        spent += time.process_time() - began
        for one in queue.attempts.pop_batch(now, pods):
            queue.attempts.add_unschedulable_if_not_present(
                one, now, unschedulable_plugins=(PLUGIN,)
            )
    micros[f"event that helps {HELPED} pods"] = spent / EVENTS * 1e6
    return QueueResult(pods, helped, {name: round(each, 1) for name, each in micros.items()})


def _placed(name: str, cpu: str) -> Pod:
    pod = pod_template(cpu=cpu)
    pod.metadata.name = pod.metadata.uid = name
    pod.spec.node_name = "node-0"
    return pod


def _waiting(state: SchedulingState, pods: int) -> list[PodInfo]:
    infos = []
    helped = copies(pod_template(cpu="1"), "helped", HELPED)
    per_class = -(-(pods - HELPED) // CLASSES)
    others = (
        pod
        for number in range(CLASSES)
        for pod in copies(pod_template(cpu=f"{2000 + number}m"), f"other-{number}", per_class)
    )
    for pod, _ in zip((*helped, *others), range(pods), strict=False):
        pod.metadata.uid = pod.metadata.name
        state.cache.apply("Pod", None, pod)
        infos.append(state.cache.cluster.pods[f"default/{pod.metadata.name}"])
    return infos


def _deleted(state: SchedulingState, pod: Pod, *, now: float) -> int:
    return state.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None, now)


def _each(items: Sequence[T], act: Callable[[T], object]) -> float:
    began = time.process_time()
    for item in items:
        act(item)
    return _micros(began, len(items))


def _micros(began: float, count: int) -> float:
    return (time.process_time() - began) / count * 1e6
