"""Node lifecycle: silent nodes become Unknown, conditions become taints.

    the node                                 then
    silent for node_monitor_grace_period     Ready and the pressure conditions become Unknown
    Ready False or Unknown                   not-ready or unreachable: NoSchedule at once, NoExecute
                                             as fast as its zone allows; its pods become not Ready
    memory, disk, PID pressure; no network;  the NoSchedule taint of that name
    unschedulable
    none of these any more                   the taints go

Guarantees: taints of other keys and effects are left alone; what is right already is not written; a
NoExecute taint that somebody put without timeAdded gets it, so that every leader counts its
tolerationSeconds from the same moment. Source: pkg/controller/nodelifecycle of Kubernetes 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from podsched.api.codec import write
from podsched.api.conditions import (
    FALSE,
    NODE_READY,
    TRUE,
    UNKNOWN,
    is_node_ready,
    is_pod_ready,
    node_condition,
)
from podsched.api.objects import (
    Lease,
    Node,
    NodeCondition,
    Pod,
    PodCondition,
    Taint,
    timestamp,
)
from podsched.api.tolerations import (
    NO_EXECUTE,
    NO_SCHEDULE,
    TAINT_NOT_READY,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
)
from podsched.client.informer import Event
from podsched.config.settings import ControllerSettings
from podsched.controllers.node_health import (
    LEASE_NAMESPACE,
    Heartbeats,
    count_zones,
    eviction_rates,
    zone_of,
)
from podsched.controllers.ports import Now, Objects, Writes
from podsched.controllers.rate import TokenBucket
from podsched.v1.api_pb2 import PatchRequest

_UNKNOWN_WHEN_SILENT = (NODE_READY, "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS = {
    (NODE_READY, FALSE): TAINT_NOT_READY,
    (NODE_READY, UNKNOWN): TAINT_UNREACHABLE,
    ("MemoryPressure", TRUE): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", TRUE): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", TRUE): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", TRUE): "node.kubernetes.io/network-unavailable",
}
_NO_SCHEDULE_KEYS = frozenset((*_TAINTS.values(), TAINT_UNSCHEDULABLE))
_NO_EXECUTE_KEYS = frozenset((TAINT_NOT_READY, TAINT_UNREACHABLE))
NOT_READY_REASON = "NodeNotReady"
_AGAIN_AFTER = 1.0
"""Seconds until a node that its zone did not allow to be given up is looked at again."""


def silent_conditions(node: Node, now: float) -> list[NodeCondition]:
    """Return the conditions of a node that is silent: what a kubelet vouches for is Unknown."""
    stamp = timestamp(now, whole=True)
    conditions: list[NodeCondition] = []
    seen = set()
    for old in node.status.conditions:
        condition = NodeCondition()
        condition.CopyFrom(old)
        seen.add(old.type)
        if old.type in _UNKNOWN_WHEN_SILENT and old.status != UNKNOWN:
            condition.status = UNKNOWN
            condition.reason = "NodeStatusUnknown"
            condition.message = "Kubelet stopped posting node status."
            condition.last_transition_time.CopyFrom(stamp)
        conditions.append(condition)
    conditions += [
        NodeCondition(
            type=type_,
            status=UNKNOWN,
            reason="NodeStatusNeverUpdated",
            message="Kubelet never posted node status.",
            last_heartbeat_time=node.metadata.creation_timestamp,
            last_transition_time=stamp,
        )
        for type_ in _UNKNOWN_WHEN_SILENT
        if type_ not in seen
    ]
    return conditions


def no_schedule_keys(node: Node, conditions: Sequence[NodeCondition]) -> list[str]:
    """Return the keys of the NoSchedule taints that a node should have for its conditions."""
    keys = [key for c in conditions if (key := _TAINTS.get((c.type, c.status))) is not None]
    if node.spec.unschedulable:
        keys.append(TAINT_UNSCHEDULABLE)
    return keys


def no_execute_key(conditions: Sequence[NodeCondition]) -> str:
    """Return the key of the NoExecute taint of a node that is not Ready; "" for one that is."""
    ready = next((c for c in conditions if c.type == NODE_READY), None)
    return _TAINTS.get((NODE_READY, ready.status), "") if ready is not None else ""


def wanted_taints(
    node: Node, schedule_keys: Sequence[str], execute_key: str, now: float
) -> list[Taint]:
    """All taints of a node: those of others, and ours as they should be."""
    wanted = {(key, NO_SCHEDULE) for key in schedule_keys}
    if execute_key:
        wanted.add((execute_key, NO_EXECUTE))
    taints: list[Taint] = []
    stamp = timestamp(now, whole=True)
    for old in node.spec.taints:
        ours = (old.effect == NO_SCHEDULE and old.key in _NO_SCHEDULE_KEYS) or (
            old.effect == NO_EXECUTE and old.key in _NO_EXECUTE_KEYS
        )
        if ours and (old.key, old.effect) not in wanted:
            continue
        wanted.discard((old.key, old.effect))
        taint = Taint()
        taint.CopyFrom(old)
        if old.effect == NO_EXECUTE and not old.HasField("time_added"):
            taint.time_added.CopyFrom(stamp)
        taints.append(taint)
    taints += [Taint(key=key, effect=effect, time_added=stamp) for key, effect in sorted(wanted)]
    return taints


def node_patch(
    node: Node, conditions: Sequence[NodeCondition], taints: Sequence[Taint]
) -> PatchRequest | None:
    """Return the patch that gives a node these conditions and taints; None if it has them."""
    content: dict[str, Any] = {}
    if list(conditions) != list(node.status.conditions):
        content["status"] = {"conditions": [write(c) for c in conditions]}
    if list(taints) != list(node.spec.taints):
        content["spec"] = {"taints": [write(t) for t in taints] or None}
    if not content:
        return None
    metadata = node.metadata
    return PatchRequest(
        kind="Node",
        name=metadata.name,
        uid=metadata.uid,
        resource_version=int(metadata.resource_version or 0),
        merge_patch=json.dumps(content).encode(),
    )


def not_ready_patch(pod: Pod, now: float) -> PatchRequest:
    """Return the patch that makes a pod of a node that is not Ready not Ready."""
    conditions = []
    for old in pod.status.conditions:
        condition = PodCondition()
        condition.CopyFrom(old)
        if old.type == "Ready":
            condition.status, condition.reason = FALSE, NOT_READY_REASON
            condition.last_transition_time.CopyFrom(timestamp(now, whole=True))
        conditions.append(write(condition))
    metadata = pod.metadata
    return PatchRequest(
        kind="Pod",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=int(metadata.resource_version or 0),
        merge_patch=json.dumps({"status": {"conditions": conditions}}).encode(),
    )


class NodeLifecycleController:
    """Watches heartbeats, and keeps conditions and taints of all nodes."""

    name = "node-lifecycle"
    kinds = ("Lease", "Node")

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        settings: ControllerSettings,
        pods_on: Callable[[str], Iterable[str]],
    ) -> None:
        """pods_on: the keys of the pods bound to a node."""
        self._objects = objects
        self._writes = writes
        self._pods_on = pods_on
        self._settings = settings
        self._heartbeats = Heartbeats(
            settings.node_monitor_grace_period, 2 * settings.node_monitor_period
        )
        self._health: dict[str, tuple[str, bool]] = {}
        """The zone of each node that has a Ready condition, and whether that is True."""
        self._buckets: dict[str, TokenBucket] = {}
        self._all_down = False
        self._dirty: dict[str, None] = {}
        self._lost: dict[str, None] = {}
        """Nodes that have just become not Ready: their pods are to be marked."""
        self._given_up: set[str] = set()
        """Nodes that may have a NoExecute taint until they are Ready."""
        self._held_back: dict[str, None] = {}
        """Nodes whose zone did not allow a NoExecute taint yet."""
        self._next_monitor = 0.0

    def start(self, now: Now) -> None:
        """Take in leases and nodes."""
        for key, lease in self._objects.objects("Lease").items():
            try:
                self._see_lease(lease, now)
            except Exception as error:
                self._writes.skipped("Lease", key, error)
        for name, node in self._objects.objects("Node").items():
            try:
                if isinstance(node, Node):
                    self._see_node(name, node, now)
                    if _is_lost(node):
                        self._lost[name] = None
            except Exception as error:
                self._writes.skipped("Node", name, error)

    def changed(self, event: Event, now: Now) -> None:
        """Return a lease or a node has changed."""
        if event.kind == "Lease":
            self._see_lease(event.new, now)
        elif event.kind == "Node":
            if not isinstance(event.new, Node):
                self._heartbeats.forget(event.key)
                self._health.pop(event.key, None)
                self._held_back.pop(event.key, None)
                self._given_up.discard(event.key)
                return
            self._see_node(event.key, event.new, now)
            was_ready = not isinstance(event.old, Node) or not _is_lost(event.old)
            if _is_lost(event.new) and was_ready:
                self._lost[event.key] = None

    def _see_lease(self, lease: object, now: Now) -> None:
        if isinstance(lease, Lease) and lease.metadata.namespace == LEASE_NAMESPACE:
            self._heartbeats.see_lease(lease, now)

    def _see_node(self, name: str, node: Node, now: Now) -> None:
        self._heartbeats.see_node(node, now)
        self._dirty[name] = None
        if node_condition(node.status, NODE_READY) is not None:
            self._health[name] = (zone_of(node), is_node_ready(node.status))

    def work(self, now: Now) -> float | None:
        """Look at the nodes that have changed, and at all of them once a period."""
        if now.monotonic >= self._next_monitor:
            self._next_monitor = now.monotonic + self._settings.node_monitor_period
            self._look_at_zones(now)
            for name in self._objects.objects("Node"):
                if self._heartbeats.is_silent(name, now):
                    self._dirty[name] = None
        self._dirty.update(self._held_back)
        dirty, self._dirty = self._dirty, {}
        lost, self._lost = self._lost, {}
        for names, act in ((dirty, self._sync), (lost, self._mark_pods)):
            for name in names:
                node = self._objects.get("Node", name)
                if isinstance(node, Node):
                    try:
                        act(name, node, now)
                    except Exception as error:
                        self._writes.skipped("Node", name, error)
        if self._held_back:
            return min(self._next_monitor, now.monotonic + _AGAIN_AFTER)
        return self._next_monitor

    def _look_at_zones(self, now: Now) -> None:
        silent = self._heartbeats.is_silent
        counts = count_zones(
            (zone, ready and not silent(name, now)) for name, (zone, ready) in self._health.items()
        )
        rates, all_down = eviction_rates(counts, self._settings)
        if all_down != self._all_down:
            self._all_down = all_down
            self._dirty.update(dict.fromkeys(self._objects.objects("Node")))
        for zone, rate in rates.items():
            self._bucket(zone).set_rate(rate, now.monotonic)

    def _bucket(self, zone: str) -> TokenBucket:
        bucket = self._buckets.get(zone)
        if bucket is None:
            bucket = self._buckets[zone] = TokenBucket(self._settings.node_eviction_rate)
        return bucket

    def _sync(self, name: str, node: Node, now: Now) -> None:
        conditions = list(node.status.conditions)
        if self._heartbeats.is_silent(name, now):
            conditions = silent_conditions(node, now.wall)
        execute = self._allowed_key(name, node, no_execute_key(conditions), now)
        taints = wanted_taints(node, no_schedule_keys(node, conditions), execute, now.wall)
        patch = node_patch(node, conditions, taints)
        if patch is not None:
            self._writes.patch(name, patch, lambda: self._mark(name))

    def _allowed_key(self, name: str, node: Node, key: str, now: Now) -> str:
        """Return the NoExecute taint the node may have now, given its zone."""
        self._held_back.pop(name, None)
        if not key or self._all_down:
            self._given_up.discard(name)
            return ""
        tainted = any(
            t.effect == NO_EXECUTE and t.key in _NO_EXECUTE_KEYS for t in node.spec.taints
        )
        # What was allowed once stays so: the taint may be on its way.
        if tainted or name in self._given_up or self._bucket(zone_of(node)).take(now.monotonic):
            self._given_up.add(name)
            return key
        self._held_back[name] = None
        return ""

    def _mark(self, name: str) -> None:
        self._dirty[name] = None

    def _mark_pods(self, name: str, node: Node, now: Now) -> None:
        """Pods of a node that is not Ready are not Ready either."""
        if not _is_lost(node):
            return
        for key in self._pods_on(name):
            pod = self._objects.get("Pod", key)
            if isinstance(pod, Pod) and is_pod_ready(pod):
                patch = not_ready_patch(pod, now.wall)
                self._writes.patch(key, patch, lambda: self._mark_lost(name))

    def _mark_lost(self, name: str) -> None:
        self._lost[name] = None


def _is_lost(node: Node) -> bool:
    """Whether the node says that it is not Ready, or nobody knows."""
    return bool(no_execute_key(node.status.conditions))
