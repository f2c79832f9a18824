"""Decides whether a disruption budget permits an eviction, as Kubernetes' eviction subresource.

Pure: takes pod, budget and time; returns the budget to be written or None, or raises a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from podsched.api.conditions import (
    DISRUPTION_ALLOWED,
    FALSE,
    SYNC_FAILED,
    condition_of,
    is_pod_ready,
    set_disruption_allowed,
)
from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import (
    Condition,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    timestamp,
)
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError

#: Max evictions that a budget records before its controller has seen the pods' deletions. Source:
#: MaxDisruptedPodSize of pkg/registry/core/pod/storage/eviction.go.
MAX_DISRUPTED_PODS = 2000


def budgets_of(pod: Pod, budgets: Iterable[Entry]) -> list[Entry]:
    """Return the budgets in the pod's namespace that select it."""
    return [
        entry
        for entry in budgets
        if entry.message.metadata.namespace == pod.metadata.namespace
        and selector_of(cast(PodDisruptionBudget, entry.message)).matches(pod.metadata.labels)
    ]


def spend(entry: Entry, pod: Pod, now: float) -> PodDisruptionBudget | None:
    """Return the budget after this eviction; None if the eviction does not count against it.

    Raises ApiError if the budget does not allow it.
    """
    budget = entry.decode()
    assert isinstance(budget, PodDisruptionBudget)
    status, name = budget.status, budget.metadata.name
    if not is_pod_ready(pod):
        # It is not among the healthy pods, so that its eviction leaves as many as before.
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return None
        if status.current_healthy >= status.desired_healthy > 0:
            return None
    if status.observed_generation < budget.metadata.generation:
        cause = f"The disruption budget {name} is still being processed by the server."
        raise errors.budget(name, cause)
    if status.disruptions_allowed < 0:
        raise errors.forbidden(entry.kind, name, "pdb disruptions allowed is negative")
    if len(status.disrupted_pods) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden(entry.kind, name, why)
    if status.disruptions_allowed == 0:
        raise errors.budget(name, f"The disruption budget {name} {_refusal(status)}")
    status.disruptions_allowed -= 1
    if status.disruptions_allowed == 0:
        set_disruption_allowed(status, timestamp(now, whole=True))
    # The budget's controller counts this pod as gone until it has seen its deletion; else it would
    # allow the same disruption again.
    status.disrupted_pods[pod.metadata.name].CopyFrom(timestamp(now, whole=True))
    return budget


def _refusal(status: PodDisruptionBudgetStatus) -> str:
    """Return why a budget allows no disruption, in the words of checkAndDecrement."""
    condition = condition_of(status, DISRUPTION_ALLOWED)
    told = condition if condition is not None and condition.status == FALSE else Condition()
    if told.message and told.reason == SYNC_FAILED:
        return f"does not allow evicting pods currently because it failed sync: {told.message}"
    if status.current_healthy <= status.desired_healthy:
        healthy = status.current_healthy
        return f"needs {status.desired_healthy} healthy pods and has {healthy} currently"
    why = f" ({told.reason}): {told.message}" if told.message else ""
    return f"does not allow evicting pods currently{why}"


def more_than_one() -> ApiError:
    """Make Kubernetes' error for a pod with several budgets."""
    return ApiError(
        StatusCode.FAILED_PRECONDITION,
        StatusReason.MULTIPLE_BUDGETS,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support.",
    )
