"""Determine what an update of an object changed, as the actions that plugins register for.

Pure functions, shared by the cache (which sees the informer's events) and the queue (which sees the
updates of waiting pods). They follow ``nodeSchedulingPropertiesChange`` and
``podSchedulingPropertiesChange`` of kube-scheduler v1.36 (``framework/events.go``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from podsched.framework.events import ActionType, Resource
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

#: The kinds whose changes are events for the queue, beside Pod and Node.
OBJECT_RESOURCES: Final[Mapping[str, Resource]] = {
    "PersistentVolume": Resource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": Resource.PERSISTENT_VOLUME_CLAIM,
    "StorageClass": Resource.STORAGE_CLASS,
    "CSINode": Resource.CSI_NODE,
    "CSIDriver": Resource.CSI_DRIVER,
    "CSIStorageCapacity": Resource.CSI_STORAGE_CAPACITY,
    "VolumeAttachment": Resource.VOLUME_ATTACHMENT,
    "PodGroup": Resource.POD_GROUP,
    "ResourceClaim": Resource.RESOURCE_CLAIM,
    "ResourceSlice": Resource.RESOURCE_SLICE,
    "DeviceClass": Resource.DEVICE_CLASS,
    "DeviceTaintRule": Resource.DEVICE_TAINT_RULE,
}


@lru_cache(maxsize=1024)
def single_actions(actions: ActionType) -> tuple[ActionType, ...]:
    """Return the actions one by one, in the order of their bits; each becomes an event."""
    return tuple(single for single in ActionType if single & actions and single.bit_count() == 1)


def node_update_actions(old: v1.Node, new: v1.Node) -> ActionType:
    """Return the changes of a node that can matter to a pod; no bit is set for a heartbeat."""
    actions = ActionType(0)
    if old.status.allocatable != new.status.allocatable:
        actions |= ActionType.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        actions |= ActionType.UPDATE_NODE_LABEL
    # The end of a cordon counts as a taint, as in kube-scheduler; its beginning helps no pod.
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    if uncordoned or old.spec.taints != new.spec.taints:
        actions |= ActionType.UPDATE_NODE_TAINT
    if condition_statuses(old) != condition_statuses(new):
        actions |= ActionType.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        actions |= ActionType.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        actions |= ActionType.UPDATE_NODE_DECLARED_FEATURE
    return actions


def condition_statuses(node: v1.Node) -> dict[str, str]:
    """Return the statuses of the node's conditions, without a heartbeat's times and texts."""
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_update_actions(old: PodInfo, new: PodInfo) -> ActionType:
    """Return the changes of a pod that can help it or others; UPDATE_OTHER when there are none."""
    actions = ActionType(0)
    # Classes are interned, so one comparison covers all that decisions depend on.
    if old.cls is not new.cls:
        actions |= _class_change(old, new)
    if old.pod.status.resource_claim_statuses != new.pod.status.resource_claim_statuses:
        actions |= ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    if new.terminating and not old.terminating:
        actions |= ActionType.UPDATE_POD_TERMINATING
    return actions or ActionType.UPDATE_OTHER


def _class_change(old: PodInfo, new: PodInfo) -> ActionType:
    actions = ActionType(0)
    if old.cls.labels != new.cls.labels:
        actions |= ActionType.UPDATE_POD_LABEL
    if _scaled_down(old.cls.requests, new.cls.requests):
        actions |= ActionType.UPDATE_POD_SCALE_DOWN
    # Tolerations can only be added to a pod, so comparing their number suffices.
    if len(old.cls.spec.tolerations) != len(new.cls.spec.tolerations):
        actions |= ActionType.UPDATE_POD_TOLERATION
    if old.cls.spec.scheduling_gates and not new.cls.spec.scheduling_gates:
        actions |= ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    return actions


def _scaled_down(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    return any(name not in new or amount > new[name] for name, amount in old.items())
