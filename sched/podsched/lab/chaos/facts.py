"""From what etcd stores to what a history keeps of it. Pure."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from podsched.api.conditions import DISRUPTION_TARGET, POD_READY
from podsched.api.etcd_keys import OBJECTS, ROOT, TERMS, parse_object_key
from podsched.api.objects import (
    AnyObject,
    Event,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
)
from podsched.cache.pod_class import relevant_spec
from podsched.lab.chaos.records import Change

_CONDITIONS = (POD_READY, DISRUPTION_TARGET)
_PREEMPTED = "Preempted"


def change_of(key: str, value: bytes | None) -> Change:
    """Return what a history says of a key's new value; None: it was deleted."""
    short = key.removeprefix(OBJECTS if key.startswith(OBJECTS) else ROOT)
    if value is None:
        return Change(key=short, deleted=True)
    if key.startswith(TERMS):
        return Change(key=short, holder=value.decode(errors="replace"))
    parsed = parse_object_key(key)
    if parsed is None:
        return Change(key=short)
    try:
        message = parsed[0].message.FromString(value)
    except DecodeError:
        return Change(key=short)
    return Change(key=short, uid=message.metadata.uid, object=_kept(message))


def _kept(item: AnyObject) -> Any:
    """Return what promises are about of an object; None where there is nothing."""
    kept: Any = type(item)()
    meta = kept.metadata
    meta.name, meta.namespace = item.metadata.name, item.metadata.namespace
    meta.labels.update(item.metadata.labels)
    match item:
        case Pod():
            if item.metadata.HasField("deletion_timestamp"):
                meta.deletion_timestamp.CopyFrom(item.metadata.deletion_timestamp)
            kept.spec.CopyFrom(relevant_spec(item.spec))
            kept.spec.node_name = item.spec.node_name
            kept.status.phase = item.status.phase
            kept.status.nominated_node_name = item.status.nominated_node_name
        case Node():
            kept.spec.taints.extend(item.spec.taints)
            kept.spec.unschedulable = item.spec.unschedulable
            kept.status.allocatable.update(item.status.allocatable)
        case PersistentVolumeClaim():
            kept.spec.access_modes.extend(item.spec.access_modes)
        case PodDisruptionBudget():
            kept.spec.selector.CopyFrom(item.spec.selector)
            kept.status.CopyFrom(item.status)
            kept.status.ClearField("conditions")
        case Event() if item.reason == _PREEMPTED:
            kept.reason, kept.message = item.reason, item.message
            kept.involved_object.uid = item.involved_object.uid
        case _:
            return None
    if isinstance(item, Pod | Node):
        for condition in item.status.conditions:
            if condition.type in _CONDITIONS:
                kept.status.conditions.add(
                    type=condition.type, status=condition.status, reason=condition.reason
                )
    return kept
