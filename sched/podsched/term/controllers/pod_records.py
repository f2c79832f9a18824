"""The records that the controllers of workloads keep of pods, and the order of their deletion."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    POD_READY,
    REASON_PREEMPTION_BY_SCHEDULER,
    TRUE,
    condition_of,
    is_finished,
    is_terminating,
    true_condition,
)
from podsched.api.objects import ContainerStatus, Pod, PodCondition, seconds_of
from podsched.api.queue_labels import FLAVORS_ANNOTATION, QUEUE_GROUP_NAME
from podsched.api.resources import is_sidecar
from podsched.queues.order import EVICTED_BY_READINESS
from podsched.term.admission.endings import DEACTIVATED, LOCAL_QUEUE_STOPPED, QUEUE_STOPPED
from podsched.term.controllers.job_indexes import int32

JOB_TRACKING = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
#: The reasons with which queues evict pods that have done nothing wrong.
_OF_QUEUES = (
    REASON_PREEMPTION_BY_SCHEDULER,
    QUEUE_STOPPED,
    LOCAL_QUEUE_STOPPED,
    EVICTED_BY_READINESS,
    DEACTIVATED,
)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class OwnedPod(NamedTuple):
    """The properties of a pod that matter to its owner. Times are Unix seconds."""

    key: str
    uid: str
    phase: str
    node: str
    is_deleting: bool
    is_lost: bool
    """Whether it is deleted and no kubelet will report how it ended."""
    matches: bool
    """Whether the owner's selector matches it."""
    ready_at: float | None
    created: float
    restarts: tuple[int, int]
    """The most restarts of a container, and of a sidecar."""
    all_restarts: int
    """The restarts of all containers together."""
    cost: int
    """The pod-deletion-cost annotation."""
    is_tracked: bool
    """Whether it has the finalizer of Jobs that count it."""
    completion: int
    """Its completion index, -1 for none."""
    finished_at: float
    """When it finished, or was deleted."""
    eviction: str = ""
    """Why its queue has evicted it, so that its end is no failure; "" for others."""

    @property
    def is_active(self) -> bool:
        """Whether it counts as one of its owner's pods."""
        return not self.is_deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted and may still run."""
        return self.is_deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class PodSet:
    """The pods of one owner by key, in several sets, so that examining them need not read all."""

    __slots__ = ("all", "live", "others", "tracked", "uncounted")

    def __init__(self) -> None:
        self.all: dict[str, OwnedPod] = {}
        self.live: dict[str, OwnedPod] = {}
        """The pods that count as their owner's: active, and selected."""
        self.others: dict[str, OwnedPod] = {}
        self.tracked: dict[str, None] = {}
        """The uids of pods that a Job has not counted."""
        self.uncounted: dict[str, OwnedPod] = {}
        """The pods that a Job has not counted and that are not live."""

    def put(self, pod: OwnedPod) -> None:
        self.remove(pod.key)
        self.all[pod.key] = pod
        is_live = pod.is_active and pod.matches
        (self.live if is_live else self.others)[pod.key] = pod
        if pod.is_tracked:
            self.tracked[pod.uid] = None
            if not is_live:
                self.uncounted[pod.key] = pod

    def remove(self, key: str) -> OwnedPod | None:
        """Remove a pod and return it, if it is there."""
        pod = self.all.pop(key, None)
        if pod is not None:
            for part in (self.live, self.others, self.uncounted):
                part.pop(key, None)
            self.tracked.pop(pod.uid, None)
        return pod


def record_of(key: str, pod: Pod, matches: bool) -> OwnedPod:
    """Return the record of a pod; ``matches``: whether its owner selects it."""
    metadata, status = pod.metadata, pod.status
    annotations = metadata.annotations
    is_deleting = is_terminating(pod)
    ready = condition_of(status, POD_READY)
    is_ready = ready is not None and ready.status == TRUE
    return OwnedPod(
        key,
        metadata.uid,
        status.phase,
        pod.spec.node_name,
        is_deleting,
        is_deleting and _is_lost(pod),
        matches,
        seconds_of(ready.last_transition_time) if ready is not None and is_ready else None,
        float(metadata.creation_timestamp.seconds),
        *(_restarts(pod) if status.container_statuses else ((0, 0), 0)),
        int32(annotations.get(_DELETION_COST, "")) or 0,
        JOB_TRACKING in metadata.finalizers,
        completion_index(annotations.get(COMPLETION_INDEX, "")),
        _finished_at(pod, ready) if is_deleting or is_finished(pod) else 0.0,
        _eviction(pod) if is_deleting and status.phase != "Succeeded" else "",
    )


def _eviction(pod: Pod) -> str:
    metadata, target = pod.metadata, true_condition(pod.status, DISRUPTION_TARGET)
    if target is None or FLAVORS_ANNOTATION not in metadata.annotations:
        return ""
    in_group = pod.spec.HasField("scheduling_group") or QUEUE_GROUP_NAME in metadata.labels
    # Of a pod without a group nothing counts how often it was late, so its Job has to back off.
    if target.reason == EVICTED_BY_READINESS and not in_group:
        return ""
    return target.reason if target.reason in _OF_QUEUES else ""


def _is_lost(pod: Pod) -> bool:
    """Return whether a deleted pod never ran, or was deleted without a grace period.

    The latter is how the pods of nodes that are gone are deleted.
    """
    return not pod.spec.node_name or pod.metadata.deletion_grace_period_seconds == 0


def completion_index(text: str) -> int:
    """Return the completion index in an annotation, -1 if it has none."""
    index = int32(text)
    return -1 if index is None or index < 0 else index


def _restarts(pod: Pod) -> tuple[tuple[int, int], int]:
    """Return the most restarts of a container and of a sidecar, and those of all containers."""
    own = [each.restart_count for each in pod.status.container_statuses]
    most = max((each.restart_count for each in _sidecar_statuses(pod)), default=0)
    first = sum(each.restart_count for each in pod.status.init_container_statuses)
    return (max(own, default=0), most), sum(own) + first


def _sidecar_statuses(pod: Pod) -> list[ContainerStatus]:
    sidecars = {each.name for each in pod.spec.init_containers if is_sidecar(each)}
    return [each for each in pod.status.init_container_statuses if each.name in sidecars]


def _finished_at(pod: Pod, ready: PodCondition | None) -> float:
    """Return when a pod finished (getFinishedTime of pkg/controller/job/backoff_utils.go)."""
    containers = [*pod.status.container_statuses, *_sidecar_statuses(pod)]
    ends = [seconds_of(status.state.terminated.finished_at) for status in containers]
    if ends and all(ends):
        return max(ends)
    if ready is not None and ready.status != TRUE and ready.last_transition_time.seconds:
        return seconds_of(ready.last_transition_time)
    metadata = pod.metadata
    if metadata.HasField("deletion_timestamp"):
        return float(metadata.deletion_timestamp.seconds - metadata.deletion_grace_period_seconds)
    return float(metadata.creation_timestamp.seconds)


def deletion_rank(pod: OwnedPod, on_node: Counter[str], now: float) -> tuple[object, ...]:
    """Return a sort key: pods of a ReplicaSet with smaller keys are deleted first.

    on_node: how many pods of related owners are on each node. now: Unix time.
    Source: ActivePodsWithRanks of pkg/controller/controller_utils.go. There, pods whose ready times
    are of the same magnitude are compared by uid; here their restarts are compared first.
    """
    return (
        bool(pod.node),
        _PHASES.get(pod.phase, 0),
        pod.ready_at is not None,
        pod.cost,
        -on_node[pod.node],
        _magnitude(now - pod.ready_at) if pod.ready_at is not None else 0,
        -pod.restarts[0],
        -pod.restarts[1],
        _magnitude(now - pod.created),
        pod.uid,
    )


def removal_rank(pod: OwnedPod) -> tuple[object, ...]:
    """Return a sort key: active pods of a Job with smaller keys are removed first.

    First those that will never be counted: their removal has begun, perhaps by the last leader.
    Then as ActivePods of pkg/controller/controller_utils.go.
    """
    return (
        pod.is_tracked,
        bool(pod.node),
        _PHASES.get(pod.phase, 0),
        pod.ready_at is not None,
        -pod.ready_at if pod.ready_at is not None else 0.0,
        -pod.restarts[0],
        -pod.restarts[1],
        -pod.created,
    )


def _magnitude(age: float) -> int:
    """Return the logarithm of an age in nanoseconds to base 2: pods of similar ages are equal."""
    return int(age * 1e9).bit_length() if age > 0 else 0
