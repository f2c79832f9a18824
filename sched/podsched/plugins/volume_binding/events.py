"""The events that can help a pod that VolumeBinding rejected, with their hints.

Rules: ``EventsToRegister`` of kube-scheduler v1.36 ``volumebinding/volume_binding.go``.
"""

from __future__ import annotations

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.pods import PodInfo
from podsched.plugins.volume_binding.candidates import volume_limit
from podsched.plugins.volumes.claims import uses_claim, waiting_by_claim
from podsched.plugins.volumes.csi_translation import ANN_MIGRATED_PLUGINS
from podsched.v1 import objects_pb2 as v1

_ADD_OR_UPDATE = ActionType.ADD | ActionType.UPDATE


def volume_binding_events() -> list[ClusterEventWithHint]:
    """Register for changes of nodes, claims, volumes, classes, CSINodes and capacities."""
    claim, changed = Resource.PERSISTENT_VOLUME_CLAIM, _ADD_OR_UPDATE
    return [
        ClusterEventWithHint.on(Resource.STORAGE_CLASS, changed, _after_class_change),
        ClusterEventWithHint.on(claim, changed, _after_claim_change, index=waiting_by_claim),
        ClusterEventWithHint.on(Resource.PERSISTENT_VOLUME, changed),
        ClusterEventWithHint.on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        ClusterEventWithHint.on(Resource.CSI_NODE, changed, _after_csi_node_change),
        ClusterEventWithHint.on(Resource.CSI_DRIVER, ActionType.UPDATE, _after_driver_change),
        ClusterEventWithHint.on(Resource.CSI_STORAGE_CAPACITY, changed, _after_capacity_change),
    ]


def _after_class_change(
    pod: PodInfo, old: v1.StorageClass | None, new: v1.StorageClass | None
) -> QueueingHint:
    changed = old is None or new is None or old.allowed_topologies != new.allowed_topologies
    return QueueingHint.of(new is not None and changed)


def _after_claim_change(
    pod: PodInfo, old: v1.PersistentVolumeClaim | None, new: v1.PersistentVolumeClaim | None
) -> QueueingHint:
    return QueueingHint.of(new is not None and uses_claim(pod, new))


def _after_csi_node_change(
    pod: PodInfo, old: v1.CSINode | None, new: v1.CSINode | None
) -> QueueingHint:
    if old is None or new is None:
        return QueueingHint.of(new is not None)
    before = old.metadata.annotations.get(ANN_MIGRATED_PLUGINS, "")
    return QueueingHint.of(before != new.metadata.annotations.get(ANN_MIGRATED_PLUGINS, ""))


def _after_driver_change(
    pod: PodInfo, old: v1.CSIDriver | None, new: v1.CSIDriver | None
) -> QueueingHint:
    # kube-scheduler skips all pods without an inline CSI volume of the driver. But the capacity
    # that a pod lacked was for a claim, so such pods would wait for the next flush.
    was_checked = old is not None and old.spec.storage_capacity
    return QueueingHint.of(was_checked and new is not None and not new.spec.storage_capacity)


def _after_capacity_change(
    pod: PodInfo, old: v1.CSIStorageCapacity | None, new: v1.CSIStorageCapacity | None
) -> QueueingHint:
    if new is None:
        return QueueingHint.SKIP
    if old is None:
        return QueueingHint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return QueueingHint.of(now is not None and (before is None or now > before))
