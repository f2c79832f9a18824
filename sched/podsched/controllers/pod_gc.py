"""Pods that nobody will ever clean up: of nodes that are gone, of owners that are gone, too many.

Looked for once a period; deleted at once, whatever their grace period, except ownerless ones, which
get theirs. A node or owner must have been gone for a quarantine as this leader has seen it: it may
be about to come back. Source: pkg/controller/podgc and garbagecollector of Kubernetes 1.36.

Only owners of kinds that podsched keeps are judged; a pod with any other owner is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.api.conditions import is_finished
from podsched.api.objects import AnyObject, Pod
from podsched.client.informer import Event
from podsched.config.settings import ControllerSettings
from podsched.controllers.disruption import SCALED_KINDS
from podsched.controllers.ports import Now, Objects, Writes
from podsched.controllers.taint_eviction import eviction
from podsched.v1.api_pb2 import EvictRequest

REASON = "DeletionByPodGC"
NODE_GONE = "PodGC: node no longer exists"


class Absences:
    """Since when things have been missing."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def missing(self, names: Iterable[str], now: float) -> None:
        """These are missing, and nothing else is."""
        self._since = {name: self._since.get(name, now) for name in names}

    def for_long(self, name: str, seconds: float, now: float) -> bool:
        """Whether it has been missing for so long."""
        since = self._since.get(name)
        return since is not None and now - since >= seconds


def dangling_owner(pod: Pod, objects: Objects) -> str:
    """The uid of an owner, if every owner of the pod is gone; else ""."""
    owners = pod.metadata.owner_references
    for owner in owners:
        if owner.kind not in SCALED_KINDS:
            return ""
        found = objects.get(owner.kind, f"{pod.metadata.namespace}/{owner.name}")
        if found is not None and found.metadata.uid == owner.uid:
            return ""
    return owners[0].uid if owners else ""


def surplus(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """The oldest finished pods beyond the threshold; none if that is 0."""
    if threshold <= 0:
        return []
    finished = sorted(
        (pod for pod in pods if is_finished(pod)),
        key=lambda pod: (pod.metadata.creation_timestamp.seconds, pod.metadata.name),
    )
    return finished[: max(0, len(finished) - threshold)]


class PodGarbageCollector:
    """Deletes leftover pods."""

    name = "pod-garbage-collector"

    def __init__(self, objects: Objects, writes: Writes, settings: ControllerSettings) -> None:
        self._objects = objects
        self._writes = writes
        self._settings = settings
        self._nodes = Absences()
        self._owners = Absences()
        self._next = 0.0

    def start(self, now: Now) -> None:
        """Nothing is missing yet."""
        self._next = now.monotonic

    def changed(self, event: Event, now: Now) -> None:
        """A node that goes begins its absence with the next look."""
        if event.kind == "Node" and event.new is None:
            self._next = min(self._next, now.monotonic + 1.0)

    def work(self, now: Now) -> float | None:
        """Look for leftovers once a period."""
        if now.monotonic >= self._next:
            self._next = now.monotonic + self._settings.pod_gc_period
            self._collect(now.monotonic)
        return self._next

    def _collect(self, now: float) -> None:
        pods = [p for p in self._objects.objects("Pod").values() if isinstance(p, Pod)]
        nodes: Mapping[str, AnyObject] = self._objects.objects("Node")
        orphans = [p for p in pods if p.spec.node_name and p.spec.node_name not in nodes]
        self._nodes.missing({p.spec.node_name for p in orphans}, now)
        ownerless = [(p, uid) for p in pods if (uid := dangling_owner(p, self._objects))]
        self._owners.missing({uid for _, uid in ownerless}, now)
        quarantine = self._settings.pod_gc_quarantine
        for pod in surplus(pods, self._settings.terminated_pod_gc_threshold):
            self._delete(pod, _deletion(pod, 0))
        for pod in orphans:
            if self._nodes.for_long(pod.spec.node_name, quarantine, now):
                self._delete(pod, eviction(pod, REASON, NODE_GONE, grace=0))
        for pod, uid in ownerless:
            deleting = pod.metadata.HasField("deletion_timestamp")
            if not deleting and self._owners.for_long(uid, quarantine, now):
                self._delete(pod, _deletion(pod, None))

    def _delete(self, pod: Pod, request: EvictRequest) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        # What fails is found again by the next look.
        self._writes.evict(key, request, lambda: None)


def _deletion(pod: Pod, grace: int | None) -> EvictRequest:
    request = EvictRequest(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        ignore_disruption_budgets=True,
        grace_period_seconds=grace,
    )
    request.preconditions.uid = pod.metadata.uid
    return request
