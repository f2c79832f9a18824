"""Decides whether a disruption budget permits an eviction, as Kubernetes' eviction subresource.

Pure: takes pod, budget and time; returns the budget to be written or None, or raises a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from podsched.api.conditions import is_pod_ready, set_disruption_allowed
from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import Pod, PodDisruptionBudget, timestamp
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
        cause = (
            f"The disruption budget {name} needs {status.desired_healthy} healthy pods "
            f"and has {status.current_healthy} currently"
        )
        if status.current_healthy > status.desired_healthy:
            cause = f"The disruption budget {name} does not allow evicting pods currently"
        raise errors.budget(name, cause)
    status.disruptions_allowed -= 1
    if status.disruptions_allowed == 0:
        set_disruption_allowed(status, timestamp(now, whole=True))
    # The budget's controller counts this pod as gone until it has seen its deletion; else it would
    # allow the same disruption again.
    status.disrupted_pods[pod.metadata.name].CopyFrom(timestamp(now, whole=True))
    return budget


def more_than_one() -> ApiError:
    """Make Kubernetes' error for a pod with several budgets."""
    return ApiError(
        StatusCode.FAILED_PRECONDITION,
        StatusReason.MULTIPLE_BUDGETS,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support.",
    )
