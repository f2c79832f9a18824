"""PodDisruptionBudget status: how many pods there should be, are healthy, and may be disrupted.

Source: pkg/controller/disruption of Kubernetes 1.36 (trySync, getExpectedPodCount,
countHealthyPods, buildDisruptedPodMap). Guarantees: the counts are kept by event, so that a change
of one pod costs the same whatever the number of pods; a status is written for the version of the
budget it was computed on, since evictions spend from it at the same time.

Pods without a controller count for an integer minAvailable alone; percentages and maxUnavailable
are of the replicas their controllers ask for (ReplicaSet, StatefulSet, ReplicationController). A
controller that does not exist makes the status one of failure that allows no disruption.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import is_pod_ready
from podsched.api.objects import (
    AnyObject,
    Condition,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    seconds_of,
    timestamp,
)
from podsched.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from podsched.client.informer import Event
from podsched.controllers.ports import Now, Objects, Writes, earliest
from podsched.v1.api_pb2 import PatchRequest

DELETION_TIMEOUT = 120.0
"""Seconds an evicted pod counts as disrupted while its deletion is not seen."""
DISRUPTION_ALLOWED = "DisruptionAllowed"
SCALED_KINDS = ("ReplicaSet", "StatefulSet", "ReplicationController")


class Owner(NamedTuple):
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


class Member(NamedTuple):
    """What a budget knows of a pod it selects."""

    ready: bool
    deleting: bool
    owner: Owner | None


@dataclass(slots=True)
class Counts:
    """The pods a budget selects, counted."""

    selector: Selector
    members: dict[str, Member] = field(default_factory=dict)
    """By the pod's name: a budget has one namespace."""
    healthy: int = 0
    owners: Counter[Owner] = field(default_factory=Counter)

    def put(self, name: str, member: Member | None) -> bool:
        """Count a pod as it is now (None: not any more); whether that changed anything."""
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
    """A number that says how large a share is wanted."""

    expected: int
    desired: int


def member_of(pod: Pod) -> Member:
    """Return a pod as a budget sees it."""
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    return Member(
        is_pod_ready(pod),
        pod.metadata.HasField("deletion_timestamp"),
        None if owner is None else Owner(owner.kind, owner.name, owner.uid),
    )


def scaled_value(text: str, total: int) -> int:
    """Return a number, or a percentage of `total` rounded up (GetScaledValueFromIntOrPercent)."""
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)


def new_status(
    budget: PodDisruptionBudget, counts: Counts, scale: Callable[[Owner], int | None], now: float
) -> tuple[PodDisruptionBudgetStatus, float | None]:
    """Return the status a budget should have, and the Unix time at which it changes by itself.

    scale: the replicas a controller asks for; None when it does not exist.
    """
    status = PodDisruptionBudgetStatus()
    status.CopyFrom(budget.status)
    status.observed_generation = budget.metadata.generation
    found = _expected(budget, counts, scale)
    if isinstance(found, Owner):
        status.disruptions_allowed = 0
        message = f"found no controllers for pods of {found.kind} {found.name!r}"
        _set_condition(status, "False", "SyncFailed", message, now)
        return status, None
    recheck, disrupted_healthy = _keep_disrupted(status, counts, now)
    status.expected_pods = found.expected
    status.desired_healthy = found.desired
    status.current_healthy = counts.healthy - disrupted_healthy
    allowed = status.current_healthy - found.desired
    status.disruptions_allowed = max(0, allowed) if found.expected > 0 else 0
    if status.disruptions_allowed > 0:
        _set_condition(status, "True", "SufficientPods", "", now)
    else:
        _set_condition(status, "False", "InsufficientPods", "", now)
    return status, recheck


def _expected(
    budget: PodDisruptionBudget, counts: Counts, scale: Callable[[Owner], int | None]
) -> Scaled | Owner:
    """How many pods there should be and be healthy; an Owner: that controller does not exist."""
    spec = budget.spec
    if spec.HasField("min_available") and not spec.min_available.endswith("%"):
        return Scaled(len(counts.members), int(spec.min_available))
    total = 0
    for owner in counts.owners:
        replicas = scale(owner)
        if replicas is None:
            return owner
        total += replicas
    if spec.HasField("max_unavailable"):
        return Scaled(total, max(0, total - scaled_value(spec.max_unavailable, total)))
    if spec.HasField("min_available"):
        return Scaled(total, scaled_value(spec.min_available, total))
    return Scaled(0, 0)


def _keep_disrupted(
    status: PodDisruptionBudgetStatus, counts: Counts, now: float
) -> tuple[float | None, int]:
    """Forget evictions that are done or have failed; when the next one fails, healthy ones left."""
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


def _set_condition(
    status: PodDisruptionBudgetStatus, value: str, reason: str, message: str, now: float
) -> None:
    condition = next((c for c in status.conditions if c.type == DISRUPTION_ALLOWED), None)
    if condition is None:
        condition = status.conditions.add(type=DISRUPTION_ALLOWED)
    if condition.status != value:
        condition.last_transition_time.CopyFrom(timestamp(now, whole=True))
    condition.status = value
    condition.reason = reason
    condition.message = message
    condition.observed_generation = status.observed_generation


def status_patch(
    budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus
) -> PatchRequest | None:
    """Return the patch that gives a budget its new status, None if it has it."""
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
    metadata = budget.metadata
    return PatchRequest(
        kind="PodDisruptionBudget",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=int(metadata.resource_version or 0),
        merge_patch=json.dumps({"status": content}).encode(),
    )


class DisruptionController:
    """Keeps the status of all budgets."""

    name = "disruption"
    kinds = ("Pod", "PodDisruptionBudget", *SCALED_KINDS)

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects = objects
        self._writes = writes
        self._counts: dict[str, dict[str, Counts]] = {}
        """By namespace and the budget's key."""
        self._dirty: dict[str, None] = {}
        self._rechecks: dict[str, float] = {}
        """Unix time at which a budget changes by itself."""

    def start(self, now: Now) -> None:
        """Count the pods of all budgets."""
        for key, budget in self._objects.objects("PodDisruptionBudget").items():
            try:
                self._budget_changed(key, budget)
            except Exception as error:
                self._writes.skipped("PodDisruptionBudget", key, error)

    def changed(self, event: Event, now: Now) -> None:
        """Return a budget, a pod or a controller has changed."""
        if event.kind == "Pod":
            self._pod_changed(event)
        elif event.kind == "PodDisruptionBudget":
            self._budget_changed(event.key, event.new)
        else:
            namespace = event.key.partition("/")[0]
            self._dirty.update(dict.fromkeys(self._counts.get(namespace, ())))

    def work(self, now: Now) -> float | None:
        """Write the statuses that have changed."""
        for key, at in list(self._rechecks.items()):
            if at <= now.wall:
                del self._rechecks[key]
                self._dirty[key] = None
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            try:
                self._sync(key, now)
            except Exception as error:
                self._writes.skipped("PodDisruptionBudget", key, error)
        if not self._rechecks:
            return None
        return now.monotonic + max(0.0, min(self._rechecks.values()) - now.wall)

    def _sync(self, key: str, now: Now) -> None:
        budget = self._objects.get("PodDisruptionBudget", key)
        namespace = key.partition("/")[0]
        counts = self._counts.get(namespace, {}).get(key)
        if not isinstance(budget, PodDisruptionBudget) or counts is None:
            return
        status, recheck = new_status(budget, counts, self._scale_in(namespace), now.wall)
        if recheck is not None:
            self._rechecks[key] = recheck
        patch = status_patch(budget, status)
        if patch is not None:
            self._writes.patch(key, patch, lambda: self._mark(key))

    def _mark(self, key: str) -> None:
        self._dirty[key] = None

    def _scale_in(self, namespace: str) -> Callable[[Owner], int | None]:
        def scale(owner: Owner) -> int | None:
            if owner.kind not in SCALED_KINDS:
                return None
            found = self._objects.get(owner.kind, f"{namespace}/{owner.name}")
            if not isinstance(found, ReplicaSet | StatefulSet | ReplicationController):
                return None
            return found.spec.replicas if found.metadata.uid == owner.uid else None

        return scale

    def _budget_changed(self, key: str, budget: AnyObject | None) -> None:
        namespace = key.partition("/")[0]
        of_namespace = self._counts.setdefault(namespace, {})
        if not isinstance(budget, PodDisruptionBudget):
            of_namespace.pop(key, None)
            self._rechecks.pop(key, None)
            if not of_namespace:
                del self._counts[namespace]
            return
        selector = _selector_of(budget)
        known = of_namespace.get(key)
        if known is None or known.selector != selector:
            of_namespace[key] = self._counted(namespace, selector)
        self._dirty[key] = None

    def _counted(self, namespace: str, selector: Selector) -> Counts:
        counts = Counts(selector)
        for item in self._objects.objects("Pod").values():
            metadata = item.metadata
            if metadata.namespace == namespace and selector.matches(metadata.labels):
                assert isinstance(item, Pod)
                counts.put(metadata.name, member_of(item))
        return counts

    def _pod_changed(self, event: Event) -> None:
        namespace, _, name = event.key.partition("/")
        of_namespace = self._counts.get(namespace)
        if not of_namespace:
            return
        pod = event.new
        labels: Mapping[str, str] = pod.metadata.labels if pod is not None else {}
        member = member_of(pod) if isinstance(pod, Pod) else None
        for key, counts in of_namespace.items():
            counted = member if member is not None and counts.selector.matches(labels) else None
            if counts.put(name, counted):
                self._dirty[key] = None


def _selector_of(budget: PodDisruptionBudget) -> Selector:
    """Return what the budget selects: nothing without a selector, or with one that is broken."""
    if not budget.spec.HasField("selector"):
        return NOTHING
    try:
        return compile_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING
