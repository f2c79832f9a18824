"""Validation: all mistakes that Kubernetes would not accept, at once, each with its path.

Source: pkg/apis/{core,node,scheduling,policy,apps,storage,coordination,rbac}/validation and
apimachinery/pkg/{api,apis/meta/v1,util}/validation, v1.36; the wording is theirs. Objects are
validated after defaulting. The outcome for the spec of a new pod is remembered by content, so that
pods of one template are validated once.

Beyond Kubernetes: lists and maps are bounded (``MAX_ITEMS``), and so is what no schema bounds
(``storable``). Non-goal: what only a kubelet or a
cloud would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podsched.api import objects as o
from podsched.api.field_errors import FieldError
from podsched.api.kinds import KINDS, Kind
from podsched.api.validation import (
    cluster,
    config_maps,
    events,
    limit_ranges,
    pod_updates,
    pods,
    quotas,
    rbac,
    runtime_classes,
    storage,
    workloads,
)
from podsched.api.validation.meta import validate_metadata, validate_metadata_update
from podsched.api.validation.names import (
    NameRule,
    dns1035_label,
    dns1123_subdomain,
    namespace_name,
    path_segment_name,
)
from podsched.api.validation.storable import validate_storable

__all__ = ["validate", "validate_status"]

_NAME_RULES: Mapping[str, NameRule] = {
    "Namespace": namespace_name,
    "Service": dns1035_label,
    "Role": path_segment_name,
    "ClusterRole": path_segment_name,
    "RoleBinding": path_segment_name,
    "ClusterRoleBinding": path_segment_name,
}
_CREATE: Mapping[str, Callable[[Any], list[FieldError]]] = {
    "Pod": pods.validate_pod,
    "Node": cluster.validate_node,
    "PriorityClass": cluster.validate_priority_class,
    "PodDisruptionBudget": cluster.validate_disruption_budget,
    "Event": events.validate_event,
    "Lease": cluster.validate_lease,
    "Service": workloads.validate_service,
    "ReplicaSet": workloads.validate_replicated,
    "StatefulSet": workloads.validate_replicated,
    "ReplicationController": workloads.validate_replication_controller,
    "PersistentVolume": storage.validate_volume,
    "PersistentVolumeClaim": storage.validate_claim,
    "StorageClass": storage.validate_storage_class,
    "CSINode": storage.validate_csi_node,
    "CSIStorageCapacity": storage.validate_storage_capacity,
    "VolumeAttachment": storage.validate_attachment,
    "Role": rbac.validate_role,
    "ClusterRole": rbac.validate_cluster_role,
    "RoleBinding": rbac.validate_role_binding,
    "ClusterRoleBinding": rbac.validate_cluster_role_binding,
    "ConfigMap": config_maps.validate_config_map,
    "RuntimeClass": runtime_classes.validate_runtime_class,
    "LimitRange": limit_ranges.validate_limit_range,
    "ResourceQuota": quotas.validate_resource_quota,
}
_UPDATE: Mapping[str, Callable[[Any, Any], list[FieldError]]] = {
    "Pod": pod_updates.validate_pod_update,
    "Node": cluster.validate_node_update,
    "PriorityClass": cluster.validate_priority_class_update,
    "PersistentVolume": storage.validate_volume_update,
    "PersistentVolumeClaim": storage.validate_claim_update,
    "StorageClass": storage.validate_storage_class_update,
    "ResourceQuota": quotas.validate_resource_quota_update,
    "ReplicaSet": workloads.validate_selector_update,
    "StatefulSet": workloads.validate_selector_update,
    "RoleBinding": rbac.validate_role_ref_update,
    "ClusterRoleBinding": rbac.validate_role_ref_update,
    "ConfigMap": config_maps.validate_config_map_update,
    "RuntimeClass": runtime_classes.validate_runtime_class_update,
}


def validate(
    kind: Kind | str, message: o.AnyObject, old: o.AnyObject | None = None
) -> list[FieldError]:
    """Return every mistake in an object that is created, or that replaces ``old``."""
    found = KINDS[kind] if isinstance(kind, str) else kind
    errors = validate_metadata(
        message.metadata,
        namespaced=found.namespaced,
        name_rule=_NAME_RULES.get(found.name, dns1123_subdomain),
        core=not found.group,
    )
    if old is not None:
        errors += validate_metadata_update(message.metadata, old.metadata)
    # What a pod's spec holds is checked with the spec, whose outcome is remembered.
    errors += validate_storable(message, without=("spec",) if found.name == "Pod" else ())
    check = _CREATE.get(found.name)
    if check is not None:
        errors += check(message)
    check_update = _UPDATE.get(found.name)
    if old is not None and check_update is not None:
        errors += check_update(message, old)
    return errors


def validate_status(kind: Kind | str, message: o.AnyObject, old: o.AnyObject) -> list[FieldError]:
    """Return every mistake in an update of the status alone."""
    found = KINDS[kind] if isinstance(kind, str) else kind
    errors = validate_metadata_update(message.metadata, old.metadata)
    errors += validate_storable(message, without=("spec",))
    if isinstance(message, o.Pod):
        errors += pods.validate_pod_status(message)
    elif isinstance(message, o.Node) and found.name == "Node":
        errors += cluster.validate_node(message)
    elif isinstance(message, o.ResourceQuota):
        errors += quotas.validate_resource_quota_status(message)
    return errors
