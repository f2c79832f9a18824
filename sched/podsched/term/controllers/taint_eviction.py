"""Evict pods from nodes with NoExecute taints when their tolerations end.

A pod that does not tolerate one of its node's NoExecute taints is evicted at once. A pod that
tolerates all of them, but some for a limited time, is evicted when the first tolerationSeconds have
passed since the taint's timeAdded or the pod's binding, whichever is later. So the time is the same
under every leader; kube-controller-manager counts from when it saw the taint. If the taint is
removed before that, the eviction is cancelled. Source: pkg/controller/tainteviction of Kubernetes
1.36.

    the node has a NoExecute taint  -->  eviction is scheduled  --at its time-->  evicted
                                              '--taint gone, or tolerated-->  cancelled
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from podsched.api.conditions import bound_at, is_terminating
from podsched.api.objects import Node, Pod, Taint, Timestamp, latest_time
from podsched.api.tolerations import NO_EXECUTE, tolerates
from podsched.lib.groups import Groups
from podsched.serve.client.informer import Event
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant, Objects, find
from podsched.term.controllers.timed_evictions import Meters, Notices, TimedEvictions
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_NOTICES = Notices(
    reason="DeletionByTaintManager",
    message="Taint manager: deleting due to NoExecute taint",
    event="TaintManagerEviction",
    marking="Marking for deletion Pod {}",
    cancelling="Cancelling deletion of Pod {}",
    controller="taint-eviction-controller",
)

TaintId = tuple[str, int]
"""The key and time of a NoExecute taint: a removed and restored taint is another one."""


def taint_id(taint: Taint) -> TaintId:
    """Return the taint's TaintId."""
    return taint.key, taint.time_added.seconds


def no_execute_taints(node: Node | None) -> list[Taint]:
    """Return the NoExecute taints of a node."""
    return [t for t in node.spec.taints if t.effect == NO_EXECUTE] if node is not None else []


def leaving_time(
    pod: Pod, taints: Sequence[Taint], taint_seen: Mapping[TaintId, float], pod_seen: float
) -> float | None:
    """Return the Unix time at which these taints evict a pod; 0 for at once, None for never.

    ``taint_seen``: when taints were first seen; ``pod_seen``: when the pod was first seen bound.
    They are more exact than the API's timestamps, which are whole seconds.
    """
    bound = latest_time(_bound_at(pod), pod_seen)
    times: list[float] = []
    for taint in taints:
        # The first decides, even if a later one is shorter (GetMatchingTolerations).
        covering = next((t for t in pod.spec.tolerations if tolerates(t, taint)), None)
        if covering is None:
            return 0.0
        if not covering.HasField("toleration_seconds"):
            continue
        if covering.toleration_seconds <= 0:
            return 0.0
        added = taint.time_added if taint.HasField("time_added") else None
        start = max(bound, latest_time(added, taint_seen[taint_id(taint)]))
        times.append(start + covering.toleration_seconds)
    return min(times, default=None)


def _bound_at(pod: Pod) -> Timestamp | None:
    if (bound := bound_at(pod)) is not None:
        return bound
    return pod.metadata.creation_timestamp if pod.metadata.HasField("creation_timestamp") else None


class TaintEvictionController(Controller):
    """Evicts pods from nodes with NoExecute taints."""

    name = "taint-eviction"
    kinds = ("Pod", "Node")
    ignores_bare_pods = False

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        recorder: EventRecorder,
        metrics: ControllerMetrics,
    ) -> None:
        super().__init__(objects, writes)
        meters = Meters(metrics.pod_deletions_total, metrics.pod_deletion_duration_seconds)
        self._evictions = TimedEvictions(objects, writes, recorder, _NOTICES, meters)
        #: Bound pods by node, with the Unix time at which they were first seen there.
        self._pods_on = Groups[str, str, float]()
        self._taint_seen: dict[str, dict[TaintId, float]] = {}
        """Unix time at which the NoExecute taints of a node were first seen; only tainted nodes."""

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == "Pod":
            self._pod_changed(event, now)
        elif event.kind == "Node":
            node = event.new if isinstance(event.new, Node) else None
            old = event.old if isinstance(event.old, Node) else None
            if old is None or node is None or old.spec != node.spec:
                self._look_at_node(event.key, node, now)

    def work(self, now: Instant) -> float | None:
        return self._evictions.work(now)

    def pods_on(self, node: str) -> Collection[str]:
        return self._pods_on.of(node).keys()

    def _pod_changed(self, event: Event, now: Instant) -> None:
        key = event.key
        old = event.old.spec.node_name if isinstance(event.old, Pod) else ""
        pod = event.new if isinstance(event.new, Pod) else None
        node = pod.spec.node_name if pod is not None else ""
        if old and old != node:
            self._pods_on.drop(old, key)
        if node and key not in self._pods_on.of(node):
            self._pods_on.put(node, key, now.wall)
        if pod is None:
            self._evictions.forget(key)
        elif node in self._taint_seen:
            self._look_at_pod(key, pod, self._taints_of(node), now)

    def _taints_of(self, node: str) -> list[Taint]:
        taints = no_execute_taints(find(self._objects, Node, node))
        # A taint that is not seen yet: its event follows in the same batch.
        return [taint for taint in taints if taint_id(taint) in self._taint_seen[node]]

    def _look_at_node(self, name: str, node: Node | None, now: Instant) -> None:
        taints = no_execute_taints(node)
        if not taints and name not in self._taint_seen:
            return
        before = self._taint_seen.pop(name, {})
        if taints:
            self._taint_seen[name] = {t: before.get(t, now.wall) for t in map(taint_id, taints)}
        for key in list(self._pods_on.of(name)):
            pod = find(self._objects, Pod, key)
            # Objects are those at the end of a batch: this may be a new pod, whose event follows.
            if pod is not None and pod.spec.node_name == name:
                with self._writes.skipping("Pod", key):
                    self._look_at_pod(key, pod, taints, now)

    def _look_at_pod(self, key: str, pod: Pod, taints: Sequence[Taint], now: Instant) -> None:
        name = pod.spec.node_name
        if is_terminating(pod):
            self._evictions.forget_terminating(key)
            return
        at: float | None = None
        if taints:
            seen = self._taint_seen[name]
            pod_seen = self._pods_on.of(name).get(key, now.wall)
            at = leaving_time(pod, taints, seen, pod_seen)
        if at is None:
            self._evictions.cancel(key, pod)
        else:
            # Other taints in place of these do not defer it: a node that was not ready first and
            # then unreachable keeps its pods no longer. Only a new leader counts from the new one.
            before = self._evictions.time_of(key, pod)
            self._evictions.schedule(key, pod, at if before is None else min(at, before))
