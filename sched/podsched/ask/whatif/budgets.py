"""Track which evictions disruption budgets permit while pods are evicted and replaced.

The rules are those of Kubernetes' eviction subresource (``registry/core/pod/storage/eviction.go``,
v1.36). A pod's replacement counts as healthy once it has a node, so the budget then permits one
more eviction; in a cluster that happens when the replacement has become ready.

For a budget without a status (from a manifest that was not applied), the numbers are computed from
the pods that it selects. A percentage is then a share of these pods, not of their owners' replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from podsched.api.conditions import (
    DISRUPTION_ALLOWED,
    SYNC_FAILED,
    condition_of,
    is_finished,
    is_pod_ready,
    is_terminating,
)
from podsched.api.disruption_budgets import needs_no_budget, scaled_value, selector_of
from podsched.api.objects import Pod, PodDisruptionBudget
from podsched.api.selectors import Selector


@dataclass(slots=True)
class Budget:
    """One budget: how many evictions it permits, and how many healthy pods it has and needs."""

    name: str
    namespace: str
    selector: Selector
    healthy: int
    desired: int
    always_unhealthy: bool
    #: How many evictions fewer its status permits than its healthy pods would.
    withheld: int = 0
    #: Why its pods cannot be counted, so that it permits no eviction; "" if they can.
    failure: str = ""

    @property
    def allowed(self) -> int:
        """The number of evictions that it permits now."""
        return 0 if self.failure else max(0, self.healthy - self.desired - self.withheld)

    def covers(self, pod: Pod) -> bool:
        """Whether the budget selects the pod."""
        meta = pod.metadata
        return meta.namespace == self.namespace and self.selector.matches(meta.labels)


class Budgets:
    """The budgets of a cluster: evictions spend them, replacements restore them."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[Pod]) -> None:
        """``pods``: all pods; they are counted for budgets without a status.

        A pod that is being deleted has its replacement already.
        """
        counted = [pod for pod in pods if not is_finished(pod) and not is_terminating(pod)]
        self.all = [_read(budget, counted) for budget in budgets]

    def of(self, pod: Pod) -> list[Budget]:
        """Return the budgets that cover a pod."""
        return [budget for budget in self.all if budget.covers(pod)]

    def refusal(self, pod: Pod) -> str:
        """Return why the pod must not be evicted now; "" if it may be."""
        if needs_no_budget(pod):
            return ""
        found = self.of(pod)
        if len(found) > 1:
            names = ", ".join(budget.name for budget in found)
            return f"several budgets cover it ({names}), which evictions do not support"
        for budget in found:
            if _counts(budget, pod) and not budget.allowed:
                needs = f"needs {budget.desired} healthy pods and has {budget.healthy}"
                return f"budget {budget.name} {budget.failure or needs}"
        return ""

    def spend(self, pod: Pod) -> None:
        """Count an eviction, permitted or not."""
        for budget in self.of(pod):
            budget.healthy -= _healthy(pod)

    def restore(self, pod: Pod) -> None:
        """Count the pod's replacement as running and ready."""
        for budget in self.of(pod):
            budget.healthy += 1


def _healthy(pod: Pod) -> bool:
    """Whether the pod is ready and stays; a pod without a status counts as ready."""
    return not is_terminating(pod) and (not pod.status.phase or is_pod_ready(pod))


def _counts(budget: Budget, pod: Pod) -> bool:
    """Whether the pod's eviction counts against the budget."""
    if _healthy(pod):
        return True
    return not budget.always_unhealthy and not budget.healthy >= budget.desired > 0


def _read(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> Budget:
    spec, status, meta = budget.spec, budget.status, budget.metadata
    read = Budget(
        meta.name,
        meta.namespace,
        selector_of(budget),
        status.current_healthy,
        status.desired_healthy,
        spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
    found = condition_of(status, DISRUPTION_ALLOWED)
    if found is not None and found.reason == SYNC_FAILED:
        read.failure = f"failed sync: {found.message}"
        return read
    if status.observed_generation or status.expected_pods:
        read.withheld = max(0, read.healthy - read.desired) - status.disruptions_allowed
        return read
    covered = [pod for pod in pods if read.covers(pod)]
    read.healthy = sum(_healthy(pod) for pod in covered if pod.spec.node_name)
    # A budget without a number that its controller can read permits no eviction.
    read.desired = len(covered)
    with suppress(ValueError):
        if spec.HasField("min_available"):
            read.desired = scaled_value(spec.min_available, len(covered))
        elif spec.HasField("max_unavailable"):
            read.desired = max(0, len(covered) - scaled_value(spec.max_unavailable, len(covered)))
    return read
