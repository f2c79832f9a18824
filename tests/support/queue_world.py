"""Pods, plugins and a recording observer for tests of the scheduling queue."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from podsched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.pods import PodAmounts, PodClass, PodInfo, QueuedPodInfo, SpecParts
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.v1 import objects_pb2 as v1

PROFILE = "default-scheduler"
NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_TAINT = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(Resource.POD, ActionType.DELETE)
_ids = itertools.count()


def pod_class(
    *,
    priority: int = 0,
    requests: Mapping[str, int] | None = None,
    profile: str = PROFILE,
    spec: v1.PodSpec | None = None,
    labels: Mapping[str, str] | None = None,
) -> PodClass:
    """A class of its own."""
    return PodClass(
        id=next(_ids),
        namespace="default",
        labels=labels or {},
        spec_parts=SpecParts(spec or v1.PodSpec()),
        controller=None,
        amounts=PodAmounts(requests or {}, (100, 200 << 20), requests or {}),
        scheduler_name=profile,
        priority=priority,
        preemption_policy="PreemptLowerPriority",
    )


def pod(
    name: str,
    cls: PodClass | None = None,
    *,
    priority: int = 0,
    nominated: str = "",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
) -> PodInfo:
    """A pod, of its own class unless told."""
    cls = cls or pod_class(priority=priority)
    meta = v1.ObjectMeta(name=name, namespace="default", annotations=annotations or {})
    message = v1.Pod(metadata=meta, spec=cls.spec)
    return PodInfo(
        uid=uid or f"uid-{name}",
        key=f"default/{name}",
        name=name,
        cls=cls,
        pod=message,
        nominated_node_name=nominated,
    )


class PrioritySort:
    name = "PrioritySort"

    def sort_key(self, pod: QueuedPodInfo) -> tuple[Any, ...]:
        return (-pod.info.priority, pod.timestamp)


class Gate:
    """Holds the pods whose uid is in ``held``."""

    def __init__(self, name: str = "SchedulingGates") -> None:
        self.name = name
        self.held: set[str] = set()
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodInfo) -> Status:
        self.asked.append(pod.uid)
        return unresolvable("waiting") if pod.uid in self.held else SUCCESS


class Hint:
    """A hint that answers Queue about the classes in ``helped`` and remembers what it was asked."""

    def __init__(self, *helped: PodClass, always: bool = False) -> None:
        self.helped = {cls.id for cls in helped}
        self.always = always
        self.asked: list[tuple[PodInfo, Any, Any]] = []

    def __call__(self, pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        self.asked.append((pod, old, new))
        helped = self.always or pod.cls.id in self.helped
        return QueueingHint.QUEUE if helped else QueueingHint.SKIP


class Incoming:
    """Counts what the queue reports."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.failed: list[tuple[str, str]] = []
        self.hints: list[tuple[str, str]] = []

    def incoming(self, queue: str, event: str, count: int) -> None:
        self.counts[queue, event] += count

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        self.failed.append((plugin, point))

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        self.hints.append((plugin, event))
        return ask()


def queue_of(
    hints: Mapping[str, list[ClusterEventWithHint]] | None = None,
    *gates: Gate,
    observer: Incoming | None = None,
    **options: float,
) -> SchedulingQueue:
    """A queue with one profile."""
    return SchedulingQueue(
        PrioritySort(), {PROFILE: gates}, {PROFILE: hints or {}}, observer=observer, **options
    )


def reject(
    queue: SchedulingQueue, now: float, *plugins: str, pending: tuple[str, ...] = ()
) -> QueuedPodInfo:
    """Pops a pod and gives it back as rejected."""
    popped = queue.attempts.pop(now)
    assert popped is not None
    queue.attempts.add_unschedulable_if_not_present(
        popped, now, unschedulable_plugins=plugins, pending_plugins=pending
    )
    return popped
