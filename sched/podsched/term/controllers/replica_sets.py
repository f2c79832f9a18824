"""Makes the pods of ReplicaSets, and deletes those that are too many.

    too few pods        created, in batches that double with each success (``owned_pods``)
    too many pods       the least useful are deleted (``pod_records.deletion_rank``)
    a matching pod that nothing controls    adopted
    a pod that does not match any more      released
    counts differ from the status           the status is written

A ReplicaSet that is being deleted only gets its status written: the garbage collector deletes its
pods. Source: pkg/controller/replicaset of Kubernetes 1.36.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import TRUE
from podsched.api.manifest import merge_patch
from podsched.api.objects import AnyObject, ReplicaSet, ReplicaSetStatus, timestamp
from podsched.api.owners import controller_of
from podsched.api.selectors import Selector, compile_selector
from podsched.serve.client.informer import Event
from podsched.term.controllers.agenda import Agenda
from podsched.term.controllers.controller import (
    Instant,
    Objects,
    Recorder,
    Writes,
    earliest,
    object_patch,
)
from podsched.term.controllers.owned_pods import MOST_AT_ONCE, Owned, PodsOfOwners
from podsched.term.controllers.pod_records import OwnedPod, deletion_rank

_FAILURE: Final = "ReplicaFailure"
#: Seconds for which changes of pods are collected, for each pod of their ReplicaSet.
_PER_POD: Final = 0.0002
#: Max pods of the ReplicaSets that are examined in one call of ``work``.
_POD_BUDGET: Final = 5000
_PAUSE: Final = 0.001


class _Seen(NamedTuple):
    """A ReplicaSet with its pods, at one time."""

    key: str
    item: ReplicaSet
    owned: Owned
    active: Sequence[OwnedPod]
    now: Instant


class ReplicaSetController:
    """See the module."""

    name = "replicaset"
    kinds = ("ReplicaSet", "Pod")

    def __init__(self, objects: Objects, writes: Writes, recorder: Recorder) -> None:
        self._objects = objects
        self._writes = writes
        self._agenda = Agenda()
        self._now = 0.0
        """Monotonic time of the last call of ``changed`` or ``work``."""
        self._written: dict[str, str] = {}
        """The version from which a status was computed that is on its way, by key."""
        self._pods = PodsOfOwners(
            "ReplicaSet",
            objects,
            writes,
            recorder,
            selector_of=_selector_of,
            notify=self._notify,
        )

    def start(self, now: Instant) -> Iterator[None]:
        """Read the existing ReplicaSets and pods."""
        self._now = now.monotonic
        for key in list(self._objects.objects("ReplicaSet")):
            yield
            self._owner_changed(key, self._objects.get("ReplicaSet", key))
        for key in list(self._objects.objects("Pod")):
            yield
            self._pods.pod_changed(key, None, self._objects.get("Pod", key))

    def changed(self, event: Event, now: Instant) -> None:
        """Note a change of a ReplicaSet or of a pod."""
        self._now = now.monotonic
        if event.kind == "Pod":
            self._pods.pod_changed(event.key, event.old, event.new)
        else:
            self._owner_changed(event.key, event.new, search=True)

    def _owner_changed(self, key: str, owner: AnyObject | None, *, search: bool = False) -> None:
        self._written.pop(key, None)
        self._pods.owner_changed(key, owner, search=search)
        if owner is not None:
            self._agenda.put(key, self._now)

    def _notify(self, key: str) -> None:
        item = self._objects.get("ReplicaSet", key)
        if item is not None:
            pods = len(self._pods.of(item.metadata.uid).pods)
            self._agenda.put(key, self._now + pods * _PER_POD)

    # ------------------------------------------------------------------ work

    def work(self, now: Instant) -> float | None:
        """Examine the ReplicaSets that are due, up to a number of pods."""
        self._now = now.monotonic
        searching = self._pods.search(now)
        budget = _POD_BUDGET
        for key in self._agenda.due(now.monotonic):
            item = self._objects.get("ReplicaSet", key)
            if not isinstance(item, ReplicaSet) or self._pods.is_searching(key):
                continue
            try:
                budget -= 10 + self._examine(key, item, now)
            except Exception as error:
                self._writes.skipped("ReplicaSet", key, error)
            if budget <= 0:
                break
        due = self._agenda.next
        return earliest(due, now.monotonic + _PAUSE if searching else None)

    def _examine(self, key: str, item: ReplicaSet, now: Instant) -> int:
        """Make the pods what they should be, and write the status; return the number of pods."""
        owned = self._pods.of(item.metadata.uid)
        owned.forget_lost(now.monotonic)
        self._pods.claim(key, item)
        seen = _Seen(key, item, owned, owned.active(), now)
        if not item.metadata.HasField("deletion_timestamp"):
            self._scale(seen)
        self._write_status(seen)
        if owned.not_before > now.monotonic:
            self._agenda.put(key, owned.not_before)
        for made in owned.creating.values():
            self._agenda.put(key, made.until)
            break
        return len(owned.pods)

    def _scale(self, seen: _Seen) -> None:
        key, item, owned, active, now = seen
        missing = item.spec.replicas - len(active) - len(owned.creating)
        if missing > 0:
            count = self._pods.room(owned, missing, now)
            template, prefix = item.spec.template, f"{item.metadata.name}-"
            new = [(self._pods.new_pod(item, template, prefix), -1) for _ in range(count)]
            if new:
                self._pods.create(key, item, new, now)
            return
        if not owned.creating:
            owned.batch, owned.error = 1, ""
        if missing < 0 and active:
            surplus = min(-missing, MOST_AT_ONCE, len(active))
            self._pods.delete(key, item, self._least_useful(seen, surplus))

    def _least_useful(self, seen: _Seen, count: int) -> Sequence[OwnedPod]:
        if count == len(seen.active):
            return seen.active
        ready_on_node = Counter(
            pod.node
            for uid in self._related(seen.item)
            for pod in self._pods.of(uid).active()
            if pod.ready_at is not None
        )
        rank = partial(deletion_rank, ready_on_node=ready_on_node, now=seen.now.wall)
        return heapq.nsmallest(count, seen.active, key=rank)

    def _related(self, item: ReplicaSet) -> list[str]:
        """Return the uids of the ReplicaSets of the same Deployment, this one among them."""
        owner = controller_of(item.metadata)
        if owner is None:
            return [item.metadata.uid]
        others = [other.metadata for other in self._objects.objects("ReplicaSet").values()]
        return [
            other.uid
            for other in others
            if (found := controller_of(other)) is not None and found.uid == owner.uid
        ]

    # ------------------------------------------------------------------ status

    def _write_status(self, seen: _Seen) -> None:
        key, item, *_ = seen
        version = item.metadata.resource_version
        status = self._status(seen)
        if status == item.status or self._written.get(key) == version:
            return
        patch = merge_patch(write(item.status), write(status))
        self._written[key] = version

        def again() -> None:
            self._written.pop(key, None)
            self._notify(key)

        self._writes.patch(key, object_patch(item, {"status": patch}), again)

    def _status(self, seen: _Seen) -> ReplicaSetStatus:
        key, item, owned, active, now = seen
        wait = item.spec.min_ready_seconds
        ready = [pod.ready_at for pod in active if pod.ready_at is not None]
        unavailable = [at + wait for at in ready if at + wait > now.wall] if wait else []
        if unavailable:
            self._agenda.put(key, now.monotonic + min(unavailable) - now.wall)
        status = ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=self._fully_labeled(item, active),
            ready_replicas=len(ready),
            available_replicas=len(ready) - len(unavailable),
            terminating_replicas=sum(
                pod.is_terminating and pod.matches for pod in owned.pods.values()
            ),
            observed_generation=item.metadata.generation,
            conditions=item.status.conditions,
        )
        _set_failure(status, owned.error, now)
        return status

    def _fully_labeled(self, item: ReplicaSet, active: Sequence[OwnedPod]) -> int:
        """Return how many pods have all labels of the template."""
        wanted = item.spec.template.metadata.labels
        selected = item.spec.selector.match_labels
        further = [pair for pair in wanted.items() if selected.get(pair[0]) != pair[1]]
        if not further:
            return len(active)
        pods = (self._objects.get("Pod", pod.key) for pod in active)
        labels = (pod.metadata.labels for pod in pods if pod is not None)
        return sum(all(of.get(key) == value for key, value in further) for of in labels)


def _selector_of(item: ReplicaSet) -> Selector:
    return compile_selector(item.spec.selector if item.spec.HasField("selector") else None)


def _set_failure(status: ReplicaSetStatus, error: str, now: Instant) -> None:
    """Set or remove the condition ReplicaFailure."""
    known = next((each for each in status.conditions if each.type == _FAILURE), None)
    if error and known is None:
        stamp = timestamp(now.wall, whole=True)
        status.conditions.add(
            type=_FAILURE,
            status=TRUE,
            reason="FailedCreate",
            message=error,
            last_transition_time=stamp,
        )
    elif not error and known is not None:
        status.conditions.remove(known)
