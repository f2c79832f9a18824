"""Compute the statuses of PodDisruptionBudgets: expected pods, healthy pods, disruptionsAllowed.

Source: pkg/controller/disruption of Kubernetes 1.36. Guarantees: the counts are updated by event,
so the cost of a pod's change does not depend on the number of pods. A status is written only to the
version of the budget from which it was computed, because evictions update the budget concurrently.

New budgets, and budgets with a changed selector, are counted together in one pass over all pods,
which yields to other tasks. Their status is not written before the pass ends.

Pods without a controller count only for an integer minAvailable; percentages and maxUnavailable
refer to the replicas of their controllers (ReplicaSet, StatefulSet, ReplicationController). If a
controller does not exist, the status reports a failure and allows no disruption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

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
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref
from podsched.term.controllers.disruption_status import (
    Counts,
    Owner,
    member_of,
    new_status,
    status_patch,
)
from podsched.term.controllers.selector_index import SelectorIndex
from podsched.term.controllers.write_queues import Writes

#: Max pods examined, or statuses computed, per step: 1 ms.
_STEP: Final = 100
#: Cost of a pod in a namespace without uncounted budgets; other pods cost 1.
_PASSED_OVER: Final = 0.05
#: Counting steps per call of ``work``.
_STEPS_A_WORK: Final = 5
_BUDGET: Final = "PodDisruptionBudget"


class DisruptionController(QueueController):
    """Keeps the status of all PodDisruptionBudgets up to date."""

    name = "disruption"
    kinds = ("Pod", _BUDGET, *SCALED_KINDS)
    most_at_once = _STEP

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        self._budgets: dict[str, SelectorIndex[Counts]] = {}
        """By namespace."""
        self._uncounted: dict[str, None] = {}
        """Budgets to count in the next pass."""
        self._counted_now: dict[str, None] = {}
        """Budgets counted in the current pass."""
        self._passing: Iterator[None] | None = None
        self._rechecks: dict[str, float] = {}
        """Unix time at which a budget's status changes without an event."""

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while there are no budgets; a new one counts the pods of its namespace."""
        return not self._budgets

    def start(self, now: Instant) -> Iterator[None]:
        for key in list(self._objects.objects(_BUDGET)):
            yield
            with self._writes.skipping(_BUDGET, key):
                self._budget_changed(key, self._objects.get(_BUDGET, key))
        yield from self._pass()

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == "Pod":
            namespace, _, name = event.key.partition("/")
            self._count(namespace, name, event.new, event.old)
        elif event.kind == _BUDGET:
            self._budget_changed(event.key, event.new)
        else:
            namespace = event.key.partition("/")[0]
            if (budgets := self._budgets.get(namespace)) is not None:
                self._queue.update(Ref(_BUDGET, key) for key in budgets.items)

    def work(self, now: Instant) -> float | None:
        for key, at in list(self._rechecks.items()):
            if at <= now.wall:
                del self._rechecks[key]
                self._queue.add(Ref(_BUDGET, key))
        self._go_on_counting()
        due = super().work(now)
        if self._uncounted or self._passing is not None:
            return now.monotonic
        if due is not None or not self._rechecks:
            return due
        return now.monotonic + max(0.0, min(self._rechecks.values()) - now.wall)

    def _examine(self, ref: Ref, now: Instant) -> None:
        budget, key = self._objects.get(*ref), ref.key
        namespace = key.partition("/")[0]
        budgets = self._budgets.get(namespace)
        counts = budgets.items.get(key) if budgets is not None else None
        if not isinstance(budget, PodDisruptionBudget) or counts is None:
            return
        if key in self._uncounted or key in self._counted_now:
            return
        status, recheck = new_status(budget, counts, partial(self._scale, namespace), now.wall)
        if recheck is not None:
            self._rechecks[key] = recheck
        patch = status_patch(budget, status)
        if patch is not None:
            self._writes.send(key, patch, self._queue.adder(ref))

    def _scale(self, namespace: str, owner: Owner) -> int | None:
        """Return the replicas that a controller asks for; None if it does not exist."""
        if owner.kind not in SCALED_KINDS:
            return None
        found = self._objects.get(owner.kind, f"{namespace}/{owner.name}")
        if not isinstance(found, ReplicaSet | StatefulSet | ReplicationController):
            return None
        return found.spec.replicas if found.metadata.uid == owner.uid else None

    def _budget_changed(self, key: str, budget: AnyObject | None) -> None:
        namespace = key.partition("/")[0]
        budgets = self._budgets.setdefault(namespace, SelectorIndex())
        if not isinstance(budget, PodDisruptionBudget):
            budgets.remove(key)
            self._rechecks.pop(key, None)
            self._uncounted.pop(key, None)
            if not budgets.items:
                del self._budgets[namespace]
            return
        selector = selector_of(budget)
        known = budgets.items.get(key)
        if known is None or known.selector != selector:
            budgets.put(key, selector, Counts(selector))
            self._uncounted[key] = None
        self._queue.add(Ref(_BUDGET, key))

    def _go_on_counting(self) -> None:
        if self._passing is None and self._uncounted:
            self._passing = self._pass()
        if self._passing is None:
            return
        # Fewer steps than asked for: the generator has ended.
        if len(list(islice(self._passing, _STEPS_A_WORK))) < _STEPS_A_WORK:
            self._passing = None

    def _pass(self) -> Iterator[None]:
        """Count all uncounted budgets in one pass; each step examines some pods.

        A pod that changes during the pass is counted in its latest version.
        """
        self._counted_now, self._uncounted = self._uncounted, {}
        namespaces = {key.partition("/")[0] for key in self._counted_now}
        cost = 0.0
        for key in list(self._objects.objects("Pod")):
            namespace, _, name = key.partition("/")
            cost += 1.0 if namespace in namespaces else _PASSED_OVER
            if namespace in namespaces:
                with self._writes.skipping("Pod", key):
                    self._count(namespace, name, self._objects.get("Pod", key))
            if cost >= _STEP:
                cost = 0.0
                yield
        counted, self._counted_now = self._counted_now, {}
        self._queue.update(Ref(_BUDGET, key) for key in counted)

    def _count(
        self, namespace: str, name: str, pod: AnyObject | None, before: AnyObject | None = None
    ) -> None:
        """Update the counts of all budgets that may select the old or the new version of a pod."""
        budgets = self._budgets.get(namespace)
        if budgets is None:
            return
        labels: Mapping[str, str] = pod.metadata.labels if pod is not None else {}
        former: Mapping[str, str] = before.metadata.labels if before is not None else {}
        asking = budgets.asking_for(labels, former)
        member = member_of(pod) if asking and isinstance(pod, Pod) else None
        for key, counts in asking.items():
            counted = member if member is not None and counts.selector.matches(labels) else None
            if counts.put(name, counted):
                self._queue.add(Ref(_BUDGET, key))
