"""Delete pods whose node does not exist or is out of service, and surplus finished pods.

All pods are scanned once per period, and deleted without grace period. A node must have been
missing for a quarantine period, as observed by this leader, because it may come back. On a node
that is not ready and has the taint ``out-of-service``, no kubelet ends the pods that terminate.
Pods that finalizers keep become Failed, also those that terminate without a node. Source:
pkg/controller/podgc of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter

from podsched.api.conditions import is_finished, is_node_ready, is_terminating
from podsched.api.objects import AnyObject, Node, Pod, object_key
from podsched.api.tolerations import TAINT_OUT_OF_SERVICE
from podsched.config.settings import ControllerSettings
from podsched.serve.client.cluster import eviction, object_patch
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant, Objects
from podsched.term.controllers.write_queues import AbsentObject, Writes

REASON = "DeletionByPodGC"
NODE_GONE = "PodGC: node no longer exists"
_AT_ONCE, _DELETED_AT_ONCE = 2000, 100
"""Max pods examined, and deleted, per call of ``work``: some 3 ms."""
_PAUSE = 0.01
_QUARANTINE = 40.0
"""Seconds that a pod's node must be gone before the pod is deleted."""


class PodGarbageCollector(Controller):
    """Deletes pods whose node is gone or out of service, and surplus ones."""

    name = "pod-garbage-collector"
    kinds = ("Node",)

    def __init__(self, objects: Objects, writes: Writes, settings: ControllerSettings) -> None:
        super().__init__(objects, writes)
        self._settings = settings
        self._missing_since: dict[str, float] = {}
        """Monotonic time at which a scan first missed a node that pods are bound to."""
        self._scan: Iterator[None] | None = None
        """The present scan, which goes on with its next part; None between two scans."""
        self._finished: list[Pod] = []
        self._orphans: list[Pod] = []
        self._abandoned: list[Pod] = []
        """Pods that terminate without a kubelet: without a node, or on one out of service."""
        self._next = 0.0

    def changed(self, event: Event, now: Instant) -> None:
        """Scan soon after a node was deleted: its absence counts from the next scan."""
        if event.new is None:
            self._next = min(self._next, now.monotonic + 1.0)

    def work(self, now: Instant) -> float | None:
        """Scan once per period, in parts."""
        if self._scan is None:
            if now.monotonic < self._next:
                return self._next
            self._next = now.monotonic + self._settings.pod_gc_period
            self._scan = self._parts(now.monotonic)
        for _ in self._scan:
            return now.monotonic + _PAUSE
        self._scan = None
        return self._next

    def _parts(self, now: float) -> Iterator[None]:
        """Examine all pods, then delete some; yield after each part."""
        self._finished, self._orphans, self._abandoned = [], [], []
        pods = iter(list(self._objects.objects("Pod").values()))
        while part := list(islice(pods, _AT_ONCE)):
            self._look_at(part)
            yield
        surplus = yield from self._surplus()
        for number, delete in enumerate(self._deletions(surplus, now), 1):
            delete()
            if number % _DELETED_AT_ONCE == 0:
                yield

    def _look_at(self, part: Sequence[AnyObject]) -> None:
        nodes = self._objects.objects("Node")
        for pod in part:
            assert isinstance(pod, Pod)
            try:  # Instead of ``skipping``, which takes longer than the look at a pod.
                if is_finished(pod):
                    self._finished.append(pod)
                if pod.spec.node_name and pod.spec.node_name not in nodes:
                    self._orphans.append(pod)
                elif is_terminating(pod) and _is_abandoned(pod, nodes):
                    self._abandoned.append(pod)
            except Exception as error:
                self._writes.skipped("Pod", object_key(pod), error)

    def _deletions(self, surplus: Sequence[Pod], now: float) -> Iterator[Callable[[], None]]:
        missing = {pod.spec.node_name for pod in self._orphans}
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        # The next scan retries what failed.
        for pod in (*surplus, *self._abandoned):
            yield partial(self._delete, pod, "", "")
        for pod in self._orphans:
            node = pod.spec.node_name
            if now - self._missing_since[node] >= _QUARANTINE:
                # The informer may lack a node that exists: watches omit objects that cannot be
                # decoded. The pods of such a node keep running.
                without = [AbsentObject("Node", "", node)]
                told = ("", "") if is_finished(pod) else (REASON, NODE_GONE)
                yield partial(self._delete, pod, *told, without=without)

    def _delete(
        self, pod: Pod, reason: str, message: str, without: Sequence[AbsentObject] = ()
    ) -> None:
        key = object_key(pod)
        if pod.metadata.finalizers and not is_finished(pod):
            failed = object_patch(pod, {"status": {"phase": "Failed"}})
            failed.resource_version = 0  # The deletion changes it, and no kubelet does.
            self._writes.send(key, failed, lambda: None, without=without)
        request = eviction(pod, reason, message, grace=0)
        self._writes.send(key, request, lambda: None, without=without)

    def _surplus(self) -> Generator[None, None, Sequence[Pod]]:
        """Return the finished pods beyond the threshold, evicted and then old ones first.

        Empty if the threshold is 0. Source: byEvictionAndCreationTimestamp.
        """
        threshold = self._settings.terminated_pod_gc_threshold
        count = len(self._finished) - threshold if threshold > 0 else 0
        if count <= 0:
            return ()
        ranked: list[tuple[tuple[bool, int, str], Pod]] = []
        for start in range(0, len(self._finished), _AT_ONCE):
            ranked += [(_rank(pod), pod) for pod in self._finished[start : start + _AT_ONCE]]
            yield
        ranked.sort(key=itemgetter(0))
        return [pod for _, pod in ranked[:count]]


def _is_abandoned(pod: Pod, nodes: Mapping[str, AnyObject]) -> bool:
    """Return whether no kubelet ends a pod, whose node exists if it has one."""
    node = nodes.get(pod.spec.node_name)
    if not isinstance(node, Node):
        return True
    if is_node_ready(node.status):
        return False
    return any(taint.key == TAINT_OUT_OF_SERVICE for taint in node.spec.taints)


def _rank(pod: Pod) -> tuple[bool, int, str]:
    is_evicted = (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")
    return not is_evicted, pod.metadata.creation_timestamp.seconds, pod.metadata.name
