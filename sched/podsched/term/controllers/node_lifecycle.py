"""Set the conditions of silent nodes to Unknown, and taint nodes by their conditions.

    the node                                 is changed thus
    silent for node_monitor_grace_period     Ready and the pressure conditions become Unknown; if
                                             it was Ready, its pods become not Ready
    Ready is False or Unknown                taint not-ready or unreachable: NoSchedule at once,
                                             NoExecute at the rate of its zone
    memory, disk, PID pressure; no network;  the NoSchedule taint of that name
    unschedulable
    none of these                            the taints are removed
    labelled with its OS or architecture     the beta labels get the same values

Guarantees: other taints are kept; a node that is up to date is not written; a NoExecute taint
without timeAdded gets one, so that every leader counts tolerationSeconds from the same time.
Source: pkg/controller/nodelifecycle of Kubernetes 1.36.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from podsched.api.conditions import NODE_READY, condition_of, is_node_ready, is_pod_ready
from podsched.api.metadata_defaulting import NODE_LEASES
from podsched.api.objects import Lease, Node, ObjectMeta, Pod
from podsched.api.tolerations import NO_EXECUTE
from podsched.config.settings import ControllerSettings
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant, Objects, find
from podsched.term.controllers.node_health import Heartbeats, eviction_rates, zone_of
from podsched.term.controllers.node_taints import (
    NO_EXECUTE_KEYS,
    NOT_READY_REASON,
    is_silent,
    no_execute_key,
    no_schedule_keys,
    node_patch,
    not_ready_patch,
    silent_conditions,
    wanted_taints,
)
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""The label of nodes that do not count for the state of their zone."""
_HELD_BACK_PERIOD = 1.0
"""Seconds between retries for nodes whose zone did not allow a NoExecute taint."""
_AT_ONCE = 250
"""Max nodes examined per call of ``work``: some 5 ms."""
_LOST_AT_ONCE = 10
"""Max nodes whose pods are marked per call of ``work``: each may have hundreds."""
_PAUSE = 0.01


class NodeLifecycleController(Controller):
    """Tracks heartbeats and updates the conditions and taints of all nodes."""

    name = "node-lifecycle"
    kinds = ("Lease", "Node")

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        recorder: EventRecorder,
        settings: ControllerSettings,
        pods_on: Callable[[str], Iterable[str]],
    ) -> None:
        """``pods_on`` returns the keys of the pods bound to a node."""
        super().__init__(objects, writes)
        self._recorder = recorder
        self._pods_on = pods_on
        self._settings = settings
        self._heartbeats = Heartbeats(
            settings.node_monitor_grace_period, 2 * settings.node_monitor_period
        )
        self._health: dict[str, tuple[str, bool]] = {}
        """The zone of each node with a Ready condition, and whether that is True.

        Without nodes that are labelled to be left out.
        """
        #: By zone.
        self._buckets = defaultdict[str, TokenBucket](
            lambda: TokenBucket(settings.node_eviction_rate)
        )
        self._all_down = False
        self._queue = WorkQueue[str]()
        self._lost = WorkQueue[str]()
        """Nodes that have fallen silent: their pods must be marked."""
        self._tainted: set[str] = set()
        """Nodes that may have a NoExecute taint until they are Ready."""
        self._held_back: dict[str, None] = {}
        """Nodes whose zone has not allowed a NoExecute taint yet."""
        self._next_monitor = self._next_held_back = 0.0

    def changed(self, event: Event, now: Instant) -> None:
        name, item = event.key, event.new
        if isinstance(item, Lease):
            if item.metadata.namespace == NODE_LEASES:
                self._heartbeats.see_lease(item, now)
        elif isinstance(item, Node):
            self._heartbeats.see_node(item, now)
            self._queue.add(name)
            self._note_health(name, item)
            old = event.old if isinstance(event.old, Node) else None
            # Of a node that says itself that it is not Ready the kubelet reports the pods, too.
            if is_silent(item) and (old is None or is_node_ready(old.status)):
                self._lost.add(name)
                if old is not None:
                    message = f"Node {name} status is now: {NOT_READY_REASON}"
                    self._record(item.metadata, "Normal", message)
        elif event.kind == "Node":
            self._heartbeats.forget(name)
            self._health.pop(name, None)
            self._held_back.pop(name, None)
            self._tainted.discard(name)

    def _note_health(self, name: str, node: Node) -> None:
        if _EXCLUDED in node.metadata.labels:
            self._health.pop(name, None)
        elif condition_of(node.status, NODE_READY) is not None:
            self._health[name] = (zone_of(node), is_node_ready(node.status))

    def work(self, now: Instant) -> float | None:
        """Examine changed nodes, and all nodes once per period."""
        if now.monotonic >= self._next_monitor:
            self._monitor(now)
        # Not in each call: any change in the cluster may cause one.
        if now.monotonic >= self._next_held_back:
            self._next_held_back = now.monotonic + _HELD_BACK_PERIOD
            self._queue.update(self._held_back)
        changed, lost = self._queue.take(_AT_ONCE), self._lost.take(_LOST_AT_ONCE)
        for names, act in ((changed, self._sync), (lost, self._mark_pods)):
            for name in names:
                node = find(self._objects, Node, name)
                if node is not None:
                    with self._writes.skipping("Node", name):
                        act(name, node, now)
        if self._queue or self._lost:
            return now.monotonic + _PAUSE
        if self._held_back:
            return min(self._next_monitor, self._next_held_back)
        return self._next_monitor

    def _monitor(self, now: Instant) -> None:
        """Find nodes that have become silent."""
        self._next_monitor = now.monotonic + self._settings.node_monitor_period
        self._look_at_zones(now)
        for name in self._objects.objects("Node"):
            if self._heartbeats.is_silent(name, now):
                self._queue.add(name)

    def _look_at_zones(self, now: Instant) -> None:
        silent = self._heartbeats.is_silent
        rates, all_down = eviction_rates(
            (
                (zone, ready and not silent(name, now))
                for name, (zone, ready) in self._health.items()
            ),
            self._settings.node_eviction_rate,
        )
        if all_down != self._all_down:
            self._all_down = all_down
            self._queue.update(self._objects.objects("Node"))
        for zone, rate in rates.items():
            self._buckets[zone].set_rate(rate, now.monotonic)

    def _sync(self, name: str, node: Node, now: Instant) -> None:
        conditions = list(node.status.conditions)
        if self._heartbeats.is_silent(name, now):
            conditions = silent_conditions(node, now.wall)
        execute = self._allowed_key(name, node, no_execute_key(conditions), now)
        taints = wanted_taints(node, no_schedule_keys(node, conditions), execute, now.wall)
        patch = node_patch(node, conditions, taints)
        if patch is not None:
            self._writes.send(name, patch, self._queue.adder(name))

    def _allowed_key(self, name: str, node: Node, key: str, now: Instant) -> str:
        """Return the key of the NoExecute taint that the node may have now, given its zone."""
        self._held_back.pop(name, None)
        if not key or self._all_down:
            self._tainted.discard(name)
            return ""
        tainted = any(t.effect == NO_EXECUTE and t.key in NO_EXECUTE_KEYS for t in node.spec.taints)
        # A taint that was allowed once stays allowed, because its write may be under way.
        if tainted or name in self._tainted or self._buckets[zone_of(node)].take(now.monotonic):
            self._tainted.add(name)
            return key
        self._held_back[name] = None
        return ""

    def _mark_pods(self, name: str, node: Node, now: Instant) -> None:
        if not is_silent(node):
            return
        for key in self._pods_on(name):
            pod = find(self._objects, Pod, key)
            if pod is not None and is_pod_ready(pod):
                patch = not_ready_patch(pod, now.wall)
                done = partial(self._marked, pod.metadata)
                self._writes.send(key, patch, self._lost.adder(name), done=done)

    def _marked(self, pod: ObjectMeta, error: ClientError | None) -> None:
        if error is None:
            self._record(pod, "Warning", "Node is not ready", kind="Pod")

    def _record(self, about: ObjectMeta, type_: str, message: str, kind: str = "Node") -> None:
        self._recorder.record(
            about,
            type_=type_,
            reason=NOT_READY_REASON,
            message=message,
            controller="node-controller",
            kind=kind,
        )
