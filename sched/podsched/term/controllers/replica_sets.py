"""Create missing pods of ReplicaSets, delete surplus ones, and write the status.

    too few pods                          others are created, in batches that double with each
                                          success (``owned_pods``)
    too many pods                         the least useful are deleted
                                          (``pod_records.deletion_rank``)
    a matching pod without a controller   it is adopted
    a pod that does not match any more    it is released
    the status is outdated                it is written

A ReplicaSet that is being deleted only gets its status written: the garbage collector deletes its
pods. Source: pkg/controller/replicaset of Kubernetes 1.36.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from podsched.api.conditions import TRUE, condition_of, is_terminating
from podsched.api.objects import AnyObject, ReplicaSet, ReplicaSetStatus, timestamp
from podsched.api.owners import controller_of
from podsched.lib.groups import Grouped
from podsched.term.controllers.controller import Instant, Objects, find
from podsched.term.controllers.owned_pods import Owned
from podsched.term.controllers.pod_records import OwnedPod, deletion_rank
from podsched.term.controllers.workload_controller import WorkloadController
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_FAILURE: Final = "ReplicaFailure"
#: Max pods deleted at a time: choosing them among thousands takes longer than deleting them.
_MOST_DELETED: Final = 300


class _Seen(NamedTuple):
    """A ReplicaSet with its pods, at one time."""

    key: str
    item: ReplicaSet
    owned: Owned
    active: Sequence[OwnedPod]
    now: Instant


class ReplicaSetController(WorkloadController):
    """See the module."""

    name = "replicaset"
    owner_kind = "ReplicaSet"

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        super().__init__(objects, writes, recorder)
        #: The keys of ReplicaSets by the uid of their Deployment.
        self._of_deployment = Grouped[str, str, None]()

    def _owner_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        owner = controller_of(new.metadata) if new is not None else None
        self._of_deployment.move(key, owner.uid if owner is not None else None, None)
        super()._owner_changed(key, old, new)

    def _sync(self, key: str, owner: ReplicaSet, owned: Owned, now: Instant) -> None:
        self._adoption.claim(key, owner)
        seen = _Seen(key, owner, owned, owned.active(), now)
        if not is_terminating(owner):
            self._scale(seen)
        self._write_status(key, owner, self._status(seen))

    def _scale(self, seen: _Seen) -> None:
        key, item, owned, active, _ = seen
        # Those that are being created or adopted count: else others would be made in their place.
        missing = item.spec.replicas - len(active) - len(owned.creating) - len(owned.adoptable)
        if missing > 0:
            count = self._pod_writes.room(owned, missing)
            template, prefix = item.spec.template, f"{item.metadata.name}-"
            new = [self._pod_writes.new_pod(item, template, prefix) for _ in range(count)]
            self._pod_writes.create(key, item, new)
            return
        if not owned.creating:
            owned.batch, owned.error = 1, ""
        # One that is not seen yet may be the one to delete, or may not be adopted.
        if missing < 0 and not (owned.creating or owned.adoptable):
            surplus = min(-missing, _MOST_DELETED)
            self._pod_writes.delete(key, item, self._least_useful(seen, surplus))
            if surplus < -missing:
                self._due.advance(key, self._now)

    def _least_useful(self, seen: _Seen, count: int) -> Sequence[OwnedPod]:
        if count == len(seen.active):
            return seen.active
        related = self._related(seen.item)
        on_node = Counter(pod.node for of in related for pod in self._pods.of(of.metadata).active())
        rank = partial(deletion_rank, on_node=on_node, now=seen.now.wall)
        return heapq.nsmallest(count, seen.active, key=rank)

    def _related(self, item: ReplicaSet) -> Iterable[ReplicaSet]:
        """Return the ReplicaSets of the same Deployment, this one among them.

        None without a Deployment: then, as in Kubernetes, pods that share a node rank as others.
        """
        owner = controller_of(item.metadata)
        keys: Iterable[str] = self._of_deployment.of(owner.uid) if owner is not None else ()
        found = (find(self._objects, ReplicaSet, key) for key in keys)
        return (one for one in found if one is not None)

    def _status(self, seen: _Seen) -> ReplicaSetStatus:
        key, item, owned, active, now = seen
        wait = item.spec.min_ready_seconds
        ready = [pod.ready_at for pod in active if pod.ready_at is not None]
        unavailable = [at + wait for at in ready if at + wait > now.wall] if wait else []
        if unavailable:
            self._due.advance(key, now.monotonic + min(unavailable) - now.wall)
        status = ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=self._fully_labeled(item, active),
            ready_replicas=len(ready),
            available_replicas=len(ready) - len(unavailable),
            terminating_replicas=sum(
                pod.is_terminating and pod.matches for pod in owned.pods.others.values()
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


def _set_failure(status: ReplicaSetStatus, error: str, now: Instant) -> None:
    known = condition_of(status, _FAILURE)
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
