"""Compute the status of a PodDisruptionBudget from the pods that it selects. Pure.

Source: pkg/controller/disruption of Kubernetes 1.36 (trySync, getExpectedPodCount,
countHealthyPods, buildDisruptedPodMap).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import (
    DISRUPTION_ALLOWED,
    FALSE,
    SYNC_FAILED,
    condition_of,
    is_pod_ready,
    is_terminating,
    set_budget_condition,
    set_disruption_allowed,
)
from podsched.api.disruption_budgets import scaled_value
from podsched.api.objects import (
    Condition,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    copy_of,
    seconds_of,
    timestamp,
)
from podsched.api.owners import controller_of
from podsched.api.selectors import Selector
from podsched.lib.due_times import earliest
from podsched.serve.client.cluster import object_patch
from podsched.v1.api_pb2 import PatchRequest

_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a "
    "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
    'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
    "integer value."
)
DELETION_TIMEOUT = 120.0
"""Seconds for which an evicted pod counts as disrupted while its deletion is not seen."""


class Owner(NamedTuple):
    """The controller of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


class Scale(NamedTuple):
    """How many pods a controller asks for; ``uid`` is that of its own controller, if it has one."""

    uid: str
    replicas: int


#: Returns the scale of a controller; else why it has none, "" if it does not exist.
ScaleOf = Callable[[Owner], Scale | str]


class Member(NamedTuple):
    """The properties of a selected pod that matter to a budget."""

    ready: bool
    deleting: bool
    owner: Owner | None


@dataclass(slots=True)
class Counts:
    """The pods that a budget selects, and how many are healthy."""

    selector: Selector
    members: dict[str, Member] = field(default_factory=dict)
    """By pod name: all pods of a budget are in its namespace."""
    healthy: int = 0
    owners: Counter[Owner] = field(default_factory=Counter)

    def put(self, name: str, member: Member | None) -> bool:
        """Add or replace a pod (None removes it); return whether anything changed."""
        before = self.members.pop(name, None)
        if member is not None:
            self.members[name] = member
        if before == member:
            return False
        for item, amount in ((before, -1), (member, 1)):
            if item is None:
                continue
            self.healthy += amount * (item.ready and not item.deleting)
            if item.owner is not None:
                self.owners[item.owner] += amount
                if not self.owners[item.owner]:
                    del self.owners[item.owner]
        return True


class Scaled(NamedTuple):
    """The expected number of pods, and how many of them must be healthy."""

    expected: int
    desired: int


def member_of(pod: Pod) -> Member:
    """Return the properties of a pod that matter to a budget."""
    owner = controller_of(pod.metadata)
    return Member(
        is_pod_ready(pod),
        is_terminating(pod),
        None if owner is None else Owner(owner.api_version, owner.kind, owner.name, owner.uid),
    )


def new_status(
    budget: PodDisruptionBudget, counts: Counts, scale: ScaleOf, now: float
) -> tuple[PodDisruptionBudgetStatus, float | None]:
    """Return the status of a budget, and the Unix time at which it changes without an event."""
    status = copy_of(budget.status)
    found = _expected(budget, counts, scale)
    if isinstance(found, str):
        # As failSafe: the rest stays, so that no eviction counts on an old status.
        status.disruptions_allowed = 0
        set_budget_condition(status, FALSE, SYNC_FAILED, found, timestamp(now, whole=True))
        return status, None
    status.observed_generation = budget.metadata.generation
    recheck, disrupted_healthy = _keep_disrupted(status, counts, now)
    status.expected_pods = found.expected
    status.desired_healthy = found.desired
    status.current_healthy = counts.healthy - disrupted_healthy
    allowed = status.current_healthy - found.desired
    status.disruptions_allowed = max(0, allowed) if found.expected > 0 else 0
    set_disruption_allowed(status, timestamp(now, whole=True))
    return status, recheck


def _expected(budget: PodDisruptionBudget, counts: Counts, scale: ScaleOf) -> Scaled | str:
    """Return the expected number of pods, or why it is unknown."""
    spec = budget.spec
    if spec.HasField("min_available") and not spec.min_available.endswith("%"):
        return Scaled(len(counts.members), int(spec.min_available))
    if not spec.HasField("max_unavailable") and not spec.HasField("min_available"):
        return Scaled(0, 0)
    replicas: dict[str, int] = {}
    for owner in counts.owners:
        found = scale(owner)
        if isinstance(found, str):
            pod = next(name for name, of in counts.members.items() if of.owner == owner)
            return found or f'found no controllers for pod "{pod}"'
        replicas[found.uid] = found.replicas
    total = sum(replicas.values())
    if spec.HasField("max_unavailable"):
        return Scaled(total, max(0, total - scaled_value(spec.max_unavailable, total)))
    return Scaled(total, scaled_value(spec.min_available, total))


class Note(NamedTuple):
    """An event about a budget."""

    type: str
    reason: str
    message: str


def notes_of(
    budget: PodDisruptionBudget, counts: Counts, status: PodDisruptionBudgetStatus
) -> list[Note]:
    """Return the events that explain a new status."""
    spec, found = budget.spec, []
    if not counts.members:
        found.append(Note("Normal", "NoPods", "No matching pods found"))
    condition = condition_of(status, DISRUPTION_ALLOWED)
    if condition is not None and condition.reason == SYNC_FAILED:
        message = f"Failed to calculate the number of expected pods: {condition.message}"
        found.append(Note("Warning", "CalculateExpectedPodCountFailed", message))
    elif (spec.max_unavailable or spec.min_available.endswith("%")) and any(
        member.owner is None for member in counts.members.values()
    ):
        message = _UNMANAGED.format(_go_text(spec.selector))
        found.append(Note("Warning", "UnmanagedPods", message))
    return found


def _go_text(selector: LabelSelector) -> str:
    """Return a selector as Kubernetes' events show it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{of.key},Operator:{of.operator},"
        f"Values:[{' '.join(of.values)}],}},"
        for of in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _keep_disrupted(
    status: PodDisruptionBudgetStatus, counts: Counts, now: float
) -> tuple[float | None, int]:
    """Drop expired disruptedPods; return when the next one expires, and the healthy pods left."""
    recheck: float | None = None
    healthy = 0
    for name, stamp in list(status.disrupted_pods.items()):
        member = counts.members.get(name)
        fails_at = seconds_of(stamp) + DELETION_TIMEOUT
        if member is None or member.deleting or fails_at <= now:
            del status.disrupted_pods[name]
            continue
        healthy += member.ready
        recheck = earliest(recheck, fails_at)
    return recheck, healthy


def status_patch(
    budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus
) -> PatchRequest | None:
    """Return the patch that sets a budget's status; None if it is up to date."""
    if status == budget.status:
        return None
    conditions: list[Condition] = list(status.conditions)
    content: dict[str, Any] = {
        "observedGeneration": status.observed_generation,
        "expectedPods": status.expected_pods,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "disruptionsAllowed": status.disruptions_allowed,
        "conditions": [write(condition) for condition in conditions],
    }
    gone = [name for name in budget.status.disrupted_pods if name not in status.disrupted_pods]
    if gone:
        content["disruptedPods"] = dict.fromkeys(gone)
    return object_patch(budget, {"status": content})
