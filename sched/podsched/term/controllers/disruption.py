"""Compute the statuses of PodDisruptionBudgets: expected pods, healthy pods, disruptionsAllowed.

Source: pkg/controller/disruption of Kubernetes 1.36. Guarantees: the counts are updated by event,
so the cost of a pod's change does not depend on the number of pods. A status is written only to the
version of the budget from which it was computed, because evictions update the budget concurrently.

New budgets, and budgets with a changed selector, are counted together in one pass over all pods,
in parts. Their status is not written before the pass ends.

Pods without a controller count only for an integer minAvailable; percentages and maxUnavailable
refer to the replicas of their controllers (Deployment, ReplicaSet, StatefulSet,
ReplicationController). If a controller does not exist, the status reports a failure and allows no
disruption.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from podsched.api.conditions import is_terminating
from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import (
    AnyObject,
    Deployment,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from podsched.api.owners import SCALED_KINDS, controller_of, owner_kind
from podsched.lib.due_times import DueTimes, earliest
from podsched.lib.groups import Groups
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref, find
from podsched.term.controllers.disruption_status import (
    Counts,
    Owner,
    Scale,
    member_of,
    new_status,
    notes_of,
    status_patch,
)
from podsched.term.controllers.pod_pass import PodPass
from podsched.term.controllers.selector_index import SelectorIndex
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

#: Max pods counted for new budgets per call of ``work``: 5 ms.
_MOST_PODS: Final = 500
_BUDGET: Final = "PodDisruptionBudget"
_Scaled = Deployment | ReplicaSet | StatefulSet | ReplicationController


class DisruptionController(QueueController):
    """Keeps the status of all PodDisruptionBudgets up to date."""

    name = "disruption"
    kinds = (_BUDGET, "Pod", *SCALED_KINDS)
    most_at_once = 100  # 1 ms.

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        super().__init__(objects, writes)
        self._recorder = recorder
        self._budgets: dict[str, SelectorIndex[Counts]] = {}
        """By namespace."""
        self._asking = Groups[Ref, str, None]()
        """By controller of pods, or of that one: the budgets that its scale matters to."""
        #: The other way round, to forget what a budget asks for no more.
        self._asked = Groups[str, Ref, None]()
        self._uncounted = PodPass(objects, writes, self._count)
        #: The Unix times at which the status of budgets changes without an event.
        self._rechecks = DueTimes()

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while there are no budgets; a new one counts the pods of its namespace."""
        return not self._budgets

    def pods_follow(self) -> None:
        self._uncounted.clear()

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == "Pod":
            self._count(event.key, event.new, event.old)
        elif event.kind == _BUDGET:
            self._budget_changed(event.key, event.new)
        else:
            # A budget that still asks for it is noted again.
            asking = self._asking.pop(Ref(event.kind, event.key))
            self._queue.update(Ref(_BUDGET, key) for key in asking)

    def work(self, now: Instant) -> float | None:
        self._queue.update(Ref(_BUDGET, key) for key, _ in self._rechecks.pop_due(now.wall))
        self._queue.update(Ref(_BUDGET, key) for key in self._uncounted.go_on(_MOST_PODS))
        due = super().work(now)
        if self._uncounted:
            return now.monotonic
        at = self._rechecks.next_time()
        return due if at is None else earliest(due, now.monotonic + max(0.0, at - now.wall))

    def _examine(self, ref: Ref, now: Instant) -> None:
        key = ref.key
        for controller in self._asked.pop(key):
            self._asking.drop(controller, key)
        budget = find(self._objects, PodDisruptionBudget, key)
        namespace = key.partition("/")[0]
        budgets = self._budgets.get(namespace)
        counts = budgets.items.get(key) if budgets is not None else None
        if budget is None or counts is None or key in self._uncounted:
            return
        status, recheck = new_status(budget, counts, partial(self._scale, key), now.wall)
        if recheck is not None:
            self._rechecks.set(key, recheck)
        patch = status_patch(budget, status)
        if patch is not None:
            self._writes.send(key, patch, self._queue.adder(ref))
            self._record(budget, counts, status)

    def _record(
        self, budget: PodDisruptionBudget, counts: Counts, status: PodDisruptionBudgetStatus
    ) -> None:
        """Record the events about a new status; Kubernetes repeats them for an unchanged one."""
        record = partial(self._recorder.record, controller="controllermanager")
        for note in notes_of(budget, counts, status):
            record(
                budget.metadata,
                type_=note.type,
                reason=note.reason,
                message=note.message,
                kind=_BUDGET,
            )
        namespace = budget.metadata.namespace
        for name in budget.status.disrupted_pods:
            pod = find(self._objects, Pod, f"{namespace}/{name}")
            if name in status.disrupted_pods or pod is None or is_terminating(pod):
                continue
            # Kubernetes names the namespace twice, in place of the budget.
            message = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            record(pod.metadata, type_="Warning", reason="NotDeleted", message=message)

    def _scale(self, budget: str, owner: Owner) -> Scale | str:
        """Return the scale of a controller; that of a Deployment for each of its ReplicaSets.

        ``budget``: the key of the budget that asks.
        """
        namespace = budget.partition("/")[0]
        reference = OwnerReference(api_version=owner.api_version, kind=owner.kind)
        kind = owner_kind(reference)
        if kind is None:
            return f'no matches for kind "{owner.kind}" in version "{owner.api_version}"'
        if kind.name not in SCALED_KINDS:
            return f"{kind.resource} does not implement the scale subresource"
        ref = Ref(kind.name, f"{namespace}/{owner.name}")
        self._ask(ref, budget)
        found = self._objects.get(*ref)
        if not isinstance(found, _Scaled) or found.metadata.uid != owner.uid:
            return ""
        whole = controller_of(found.metadata) if isinstance(found, ReplicaSet) else None
        if whole is not None and whole.kind == "Deployment":
            ref = Ref(whole.kind, f"{namespace}/{whole.name}")
            self._ask(ref, budget)
            deployment = find(self._objects, Deployment, ref.key)
            if deployment is not None and deployment.metadata.uid == whole.uid:
                found = deployment
        return Scale(found.metadata.uid, found.spec.replicas)

    def _ask(self, controller: Ref, budget: str) -> None:
        self._asking.put(controller, budget, None)
        self._asked.put(budget, controller, None)

    def _budget_changed(self, key: str, budget: AnyObject | None) -> None:
        self._queue.add(Ref(_BUDGET, key))
        namespace = key.partition("/")[0]
        budgets = self._budgets.setdefault(namespace, SelectorIndex())
        if not isinstance(budget, PodDisruptionBudget):
            budgets.remove(key)
            self._rechecks.discard(key)
            self._uncounted.discard(key)
            if not budgets.items:
                del self._budgets[namespace]
            return
        selector = selector_of(budget)
        known = budgets.items.get(key)
        if known is None or known.selector != selector:
            budgets.put(key, selector, Counts(selector))
            self._uncounted.add(key)

    def _count(self, key: str, pod: AnyObject | None, before: AnyObject | None = None) -> None:
        """Update the counts of all budgets that may select the old or the new version of a pod."""
        namespace, _, name = key.partition("/")
        budgets = self._budgets.get(namespace)
        if budgets is None:
            return
        labels: Mapping[str, str] = pod.metadata.labels if pod is not None else {}
        former: Mapping[str, str] = before.metadata.labels if before is not None else {}
        asking = budgets.asking_for(labels, former)
        member = member_of(pod) if asking and isinstance(pod, Pod) else None
        for budget, counts in asking.items():
            counted = member if member is not None and counts.selector.matches(labels) else None
            if counts.put(name, counted):
                self._queue.add(Ref(_BUDGET, budget))
