"""Read and set conditions, as k8s.io/kubernetes/pkg/api/v1/pod and node do.

A condition's lastTransitionTime moves only when its status changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Protocol, TypeVar

from podsched.api import objects as o

POD_SCHEDULED = "PodScheduled"
POD_READY = "Ready"
DISRUPTION_TARGET = "DisruptionTarget"
NODE_READY = "Ready"
DISRUPTION_ALLOWED = "DisruptionAllowed"
#: The reason of a budget whose pods cannot be counted.
SYNC_FAILED = "SyncFailed"
POD_GROUP_SCHEDULED = "PodGroupScheduled"
#: Of PodGroups: whether quota is reserved for their pods, so that their queue stays.
QUOTA_RESERVED = "QuotaReserved"
#: True while the members of a group are being bound; removed afterwards.
POD_GROUP_BINDING = "podsched.io/Binding"
#: The reason of POD_GROUP_BINDING.
REASON_BINDING = "MembersAreBeingBound"

REASON_UNSCHEDULABLE = "Unschedulable"
REASON_SCHEDULER_ERROR = "SchedulerError"
REASON_SCHEDULING_GATED = "SchedulingGated"
REASON_PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

#: What a condition says, beside the times.
_told = attrgetter("status", "reason", "message", "observed_generation")


C = TypeVar("C", bound=o.Condition | o.NodeCondition | o.PodCondition | o.WorkloadCondition)
_C_co = TypeVar("_C_co", covariant=True)


class HasConditions(Protocol[_C_co]):
    """The status of an object of any kind that has conditions."""

    @property
    def conditions(self) -> Iterable[_C_co]: ...


def condition_of(status: HasConditions[C], type_: str) -> C | None:
    """Return the condition of this type."""
    for condition in status.conditions:
        if condition.type == type_:
            return condition
    return None


def true_condition(status: HasConditions[C], type_: str) -> C | None:
    """Return the condition of this type, if its status is True."""
    found = condition_of(status, type_)
    return found if found is not None and found.status == TRUE else None


def bound_at(pod: o.Pod) -> o.Timestamp | None:
    """Return when a pod got its node; None if its condition PodScheduled does not tell."""
    condition = true_condition(pod.status, POD_SCHEDULED)
    return None if condition is None else condition.last_transition_time


def set_pod_condition(status: o.PodStatus, condition: o.PodCondition, now: o.Timestamp) -> bool:
    """Set a condition in place; return whether anything changed. ``condition`` is not kept."""
    old = condition_of(status, condition.type)
    if old is not None and _told(old) == _told(condition):
        return False
    if old is None:
        old = status.conditions.add()
    elif old.status == condition.status:
        now = o.copy_of(old.last_transition_time)
    old.CopyFrom(condition)
    old.last_transition_time.CopyFrom(now)
    return True


def set_disruption_allowed(status: o.PodDisruptionBudgetStatus, now: o.Timestamp) -> None:
    """Set the condition DisruptionAllowed of a budget from the disruptions that it allows."""
    if status.disruptions_allowed > 0:
        set_budget_condition(status, TRUE, "SufficientPods", "", now)
    else:
        set_budget_condition(status, FALSE, "InsufficientPods", "", now)


def set_budget_condition(
    status: o.PodDisruptionBudgetStatus, value: str, reason: str, message: str, now: o.Timestamp
) -> None:
    """Set the condition DisruptionAllowed of a budget, as of the generation observed."""
    condition = set_condition(status, DISRUPTION_ALLOWED, value, reason, message, now)
    condition.observed_generation = status.observed_generation


def remove_condition(status: o.PodGroupStatus, type_: str) -> None:
    """Remove a condition of a group."""
    kept = [c for c in status.conditions if c.type != type_]
    del status.conditions[:]
    status.conditions.extend(kept)


def set_condition(
    status: o.PodDisruptionBudgetStatus
    | o.PodGroupStatus
    | o.ClusterQueueStatus
    | o.LocalQueueStatus,
    type_: str,
    value: str,
    reason: str,
    message: str,
    now: o.Timestamp,
) -> o.Condition:
    """Set a condition of a status that has a list of them, and return it."""
    condition = condition_of(status, type_) or status.conditions.add(type=type_)
    if condition.status != value:
        condition.last_transition_time.CopyFrom(now)
    condition.status = value
    condition.reason = reason
    condition.message = message
    return condition


def is_node_ready(status: o.NodeStatus) -> bool:
    """Whether the node's Ready condition is True."""
    return true_condition(status, NODE_READY) is not None


def is_pod_ready(pod: o.Pod) -> bool:
    """Whether the pod's Ready condition is True."""
    return true_condition(pod.status, POD_READY) is not None


def is_finished(pod: o.Pod) -> bool:
    """Whether the pod has ended, so that its requests no longer count."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(item: o.AnyObject) -> bool:
    """Whether an object is being deleted."""
    return item.metadata.HasField("deletion_timestamp")
