"""Delete orphaned pods, whose node does not exist, and surplus finished pods.

All pods are scanned once per period, and deleted without grace period. A node must have been
missing for a quarantine period, as observed by this leader, because it may come back. Source:
pkg/controller/podgc of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from podsched.api.conditions import is_finished
from podsched.api.objects import AnyObject, Pod, object_key
from podsched.config.settings import ControllerSettings
from podsched.serve.client.cluster import eviction
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects
from podsched.term.controllers.write_queues import Writes
from podsched.v1.api_pb2 import EvictRequest

REASON = "DeletionByPodGC"
NODE_GONE = "PodGC: node no longer exists"
_AT_ONCE = 2000
"""Max pods examined per call of ``work``: some 3 ms."""
_PAUSE = 0.01


class Absences:
    """Tracks since when names have been missing."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def missing(self, names: Iterable[str], now: float) -> None:
        """Record the names that are missing now; all others exist."""
        self._since = {name: self._since.get(name, now) for name in names}

    def for_long(self, name: str, seconds: float, now: float) -> bool:
        since = self._since.get(name)
        return since is not None and now - since >= seconds


def surplus(finished: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the oldest finished pods beyond the threshold; none if that is 0."""
    if threshold <= 0:
        return []
    by_age = sorted(
        finished, key=lambda pod: (pod.metadata.creation_timestamp.seconds, pod.metadata.name)
    )
    return by_age[: max(0, len(by_age) - threshold)]


@dataclass(slots=True)
class _Scan:
    """A scan of all pods, done in parts."""

    left: Iterator[AnyObject]
    finished: list[Pod] = field(default_factory=list)
    orphans: list[Pod] = field(default_factory=list)

    def go_on(self, objects: Objects, writes: Writes) -> bool:
        """Examine the next pods; return whether the scan is complete."""
        nodes = objects.objects("Node")
        part = list(islice(self.left, _AT_ONCE))
        for pod in part:
            assert isinstance(pod, Pod)
            try:  # Instead of ``skipping``, which takes longer than the look at a pod.
                self._look_at(pod, nodes)
            except Exception as error:
                writes.skipped("Pod", object_key(pod), error)
        return len(part) < _AT_ONCE

    def _look_at(self, pod: Pod, nodes: Container[str]) -> None:
        if is_finished(pod):
            self.finished.append(pod)
        node = pod.spec.node_name
        if node and node not in nodes:
            self.orphans.append(pod)


class PodGarbageCollector:
    """Deletes orphaned and surplus pods."""

    name = "pod-garbage-collector"
    kinds = ("Node",)
    ignores_bare_pods = True

    def __init__(self, objects: Objects, writes: Writes, settings: ControllerSettings) -> None:
        self._objects = objects
        self._writes = writes
        self._settings = settings
        self._nodes = Absences()
        self._scan: _Scan | None = None
        self._next = 0.0

    def start(self, now: Instant) -> Iterator[None]:
        self._next = now.monotonic
        yield

    def changed(self, event: Event, now: Instant) -> None:
        """Scan soon after a node was deleted: its absence counts from the next scan."""
        if event.new is None:
            self._next = min(self._next, now.monotonic + 1.0)

    def work(self, now: Instant) -> float | None:
        """Scan once per period, in parts of some thousand pods."""
        if self._scan is None:
            if now.monotonic < self._next:
                return self._next
            self._next = now.monotonic + self._settings.pod_gc_period
            self._scan = _Scan(iter(list(self._objects.objects("Pod").values())))
        if not self._scan.go_on(self._objects, self._writes):
            return now.monotonic + _PAUSE
        scan, self._scan = self._scan, None
        self._collect(scan, now.monotonic)
        return self._next

    def _collect(self, scan: _Scan, now: float) -> None:
        self._nodes.missing({p.spec.node_name for p in scan.orphans}, now)
        quarantine = self._settings.pod_gc_quarantine
        for pod in surplus(scan.finished, self._settings.terminated_pod_gc_threshold):
            self._delete(pod, eviction(pod, "", "", grace=0))
        for pod in scan.orphans:
            if self._nodes.for_long(pod.spec.node_name, quarantine, now):
                request = eviction(pod, REASON, NODE_GONE, grace=0)
                self._delete(pod, request, without_node=pod.spec.node_name)

    def _delete(self, pod: Pod, request: EvictRequest, without_node: str = "") -> None:
        # The next scan retries what failed.
        self._writes.evict(object_key(pod), request, lambda: None, without_node=without_node)
