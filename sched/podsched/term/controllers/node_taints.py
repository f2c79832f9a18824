"""The conditions, taints and labels that a node should have, and patches that set them. Pure.

Source: pkg/controller/nodelifecycle of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsched.api.codec import write
from podsched.api.conditions import FALSE, NODE_READY, TRUE, UNKNOWN, condition_of
from podsched.api.node_labels import BETA_OF
from podsched.api.objects import Node, NodeCondition, Pod, Taint, copy_of, timestamp
from podsched.api.tolerations import (
    NO_EXECUTE,
    NO_SCHEDULE,
    TAINT_NOT_READY,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
)
from podsched.serve.client.cluster import object_patch
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
NO_EXECUTE_KEYS = frozenset((TAINT_NOT_READY, TAINT_UNREACHABLE))
NOT_READY_REASON = "NodeNotReady"


def silent_conditions(node: Node, now: float) -> list[NodeCondition]:
    """Return the conditions of a silent node: those reported by the kubelet are Unknown."""
    stamp = timestamp(now, whole=True)
    conditions: list[NodeCondition] = []
    seen = set()
    for old in node.status.conditions:
        condition = copy_of(old)
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
    """Return the keys of a node's NoSchedule taints, given its conditions."""
    keys = [key for c in conditions if (key := _TAINTS.get((c.type, c.status))) is not None]
    if node.spec.unschedulable:
        keys.append(TAINT_UNSCHEDULABLE)
    return keys


def no_execute_key(conditions: Sequence[NodeCondition]) -> str:
    """Return the key of the NoExecute taint of a node that is not Ready; "" if it is Ready."""
    ready = next((c.status for c in conditions if c.type == NODE_READY), "")
    return _TAINTS.get((NODE_READY, ready), "")


def wanted_taints(
    node: Node, schedule_keys: Sequence[str], execute_key: str, now: float
) -> list[Taint]:
    """Return all taints of a node: those of others unchanged, and the controller's own."""
    wanted = {(key, NO_SCHEDULE) for key in schedule_keys}
    if execute_key:
        wanted.add((execute_key, NO_EXECUTE))
    taints: list[Taint] = []
    stamp = timestamp(now, whole=True)
    for old in node.spec.taints:
        ours = (old.effect == NO_SCHEDULE and old.key in _NO_SCHEDULE_KEYS) or (
            old.effect == NO_EXECUTE and old.key in NO_EXECUTE_KEYS
        )
        if ours and (old.key, old.effect) not in wanted:
            continue
        wanted.discard((old.key, old.effect))
        taint = copy_of(old)
        if old.effect == NO_EXECUTE and not old.HasField("time_added"):
            # tolerationSeconds count from this time; the next leader must find the same one.
            taint.time_added.CopyFrom(stamp)
        taints.append(taint)
    taints += [Taint(key=key, effect=effect, time_added=stamp) for key, effect in sorted(wanted)]
    return taints


def node_patch(
    node: Node, conditions: Sequence[NodeCondition], taints: Sequence[Taint]
) -> PatchRequest | None:
    """Return the patch of a node's conditions, taints and beta labels; None if all are current."""
    content: dict[str, Any] = {}
    labels = node.metadata.labels
    values = {beta: labels[stable] for stable, beta in BETA_OF.items() if stable in labels}
    if any(labels.get(beta) != value for beta, value in values.items()):
        content["metadata"] = {"labels": values}
    if list(conditions) != list(node.status.conditions):
        content["status"] = {"conditions": [write(c) for c in conditions]}
    if list(taints) != list(node.spec.taints):
        content["spec"] = {"taints": [write(t) for t in taints] or None}
    return object_patch(node, content) if content else None


def not_ready_patch(pod: Pod, now: float) -> PatchRequest:
    """Return the patch that marks a pod as not Ready because its node is not Ready."""
    conditions = []
    for old in pod.status.conditions:
        condition = copy_of(old)
        if old.type == "Ready":
            condition.status, condition.reason = FALSE, NOT_READY_REASON
            condition.last_transition_time.CopyFrom(timestamp(now, whole=True))
        conditions.append(write(condition))
    return object_patch(pod, {"status": {"conditions": conditions}})


def is_silent(node: Node) -> bool:
    """Whether the node's Ready condition is Unknown."""
    ready = condition_of(node.status, NODE_READY)
    return ready is not None and ready.status == UNKNOWN
