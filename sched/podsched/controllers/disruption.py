"""PodDisruptionBudget status: how many pods there should be, are healthy, and may be disrupted.

Source: pkg/controller/disruption of Kubernetes 1.36. Guarantees: the counts are kept by event, so
that a change of one pod costs the same whatever the number of pods; a status is written for the
version of the budget it was computed on, since evictions spend from it at the same time.

Pods without a controller count for an integer minAvailable alone; percentages and maxUnavailable
are of the replicas their controllers ask for (ReplicaSet, StatefulSet, ReplicationController). A
controller that does not exist makes the status one of failure that allows no disruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import (
    AnyObject,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from podsched.api.owners import SCALED_KINDS
from podsched.api.selectors import Selector
from podsched.client.informer import Event
from podsched.controllers.controller import Instant, Objects, Writes
from podsched.controllers.disruption_status import (
    Counts,
    Owner,
    member_of,
    new_status,
    status_patch,
)


class DisruptionController:
    """Keeps the status of all budgets current."""

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

    def start(self, now: Instant) -> Iterator[None]:
        """Count the pods of all budgets."""
        for key in list(self._objects.objects("PodDisruptionBudget")):
            yield
            try:
                self._budget_changed(key, self._objects.get("PodDisruptionBudget", key))
            except Exception as error:
                self._writes.skipped("PodDisruptionBudget", key, error)

    def changed(self, event: Event, now: Instant) -> None:
        """Note a change of a budget, a pod or a controller."""
        if event.kind == "Pod":
            self._pod_changed(event)
        elif event.kind == "PodDisruptionBudget":
            self._budget_changed(event.key, event.new)
        else:
            namespace = event.key.partition("/")[0]
            self._dirty.update(dict.fromkeys(self._counts.get(namespace, ())))

    def work(self, now: Instant) -> float | None:
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

    def _sync(self, key: str, now: Instant) -> None:
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
        selector = selector_of(budget)
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
