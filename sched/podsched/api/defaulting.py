"""What the API server fills in when an object is created.

Source: pkg/apis/*/v1/defaults.go and the create strategies of pkg/registry. Pods have a module of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.struct_pb2 import Struct

from podsched.api import objects as o
from podsched.api.field_errors import FieldError
from podsched.api.limit_ranges import default_limit_range
from podsched.api.metadata_defaulting import default_metadata
from podsched.api.owners import KUBERNETES_FINALIZER
from podsched.api.pod_defaulting import default_pod
from podsched.api.priorities import PREEMPT_LOWER_PRIORITY, PriorityClasses
from podsched.api.validation.rbac import RBAC_GROUP, SERVICE_ACCOUNT

NAMESPACE_ACTIVE, NAMESPACE_TERMINATING = "Active", "Terminating"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def default_object(
    message: o.AnyObject, *, now: float, uid: str, priority_classes: PriorityClasses
) -> list[FieldError]:
    """Fill in defaults of a new object of any kind, in place; return what admission forbids.

    ``now`` is Unix time in seconds. ``uid`` must be random: generated names derive from it.
    """
    if isinstance(message, o.Pod):
        return default_pod(message, now=now, uid=uid, priority_classes=priority_classes)
    default_metadata(message, now=now, uid=uid)
    fill = _FILL.get(type(message))
    if fill is not None:
        fill(message)
    return []


def _namespace(item: o.Namespace) -> None:
    item.metadata.labels[NAMESPACE_NAME_LABEL] = item.metadata.name
    item.status.phase = NAMESPACE_ACTIVE
    if KUBERNETES_FINALIZER not in item.spec.finalizers:
        item.spec.finalizers.append(KUBERNETES_FINALIZER)


def _node(item: o.Node) -> None:
    if not item.status.allocatable:
        for name, text in item.status.capacity.items():
            item.status.allocatable[name] = text


def _lease(item: o.Lease) -> None:
    # Kubernetes drops these where coordinated leader election is off, and nothing appoints here.
    item.spec.ClearField("strategy")
    item.spec.ClearField("preferred_holder")


def _priority_class(item: o.PriorityClass) -> None:
    item.preemption_policy = item.preemption_policy or PREEMPT_LOWER_PRIORITY


def _disruption_budget(item: o.PodDisruptionBudget) -> None:
    item.ClearField("status")


def _service(item: o.Service) -> None:
    item.spec.type = item.spec.type or "ClusterIP"
    item.spec.session_affinity = item.spec.session_affinity or "None"
    for port in item.spec.ports:
        port.protocol = port.protocol or "TCP"
        if not port.HasField("target_port"):
            port.target_port = str(port.port)


def _replicated(item: o.ReplicaSet | o.StatefulSet) -> None:
    if not item.spec.HasField("replicas"):
        item.spec.replicas = 1


def _stateful_set(item: o.StatefulSet) -> None:
    _replicated(item)
    spec = item.spec
    spec.pod_management_policy = spec.pod_management_policy or "OrderedReady"
    if not spec.HasField("revision_history_limit"):
        spec.revision_history_limit = 10
    update = spec.update_strategy
    _default(update, "type", "RollingUpdate")
    if update["type"] == "RollingUpdate":
        _default(update.get_or_create_struct("rollingUpdate"), "partition", 0)
    for event in ("whenDeleted", "whenScaled"):
        _default(spec.persistent_volume_claim_retention_policy, event, "Retain")


def _default(struct: Struct, name: str, value: str | int) -> None:
    if name not in struct.fields:
        struct[name] = value


def _replication_controller(item: o.ReplicationController) -> None:
    if not item.spec.HasField("replicas"):
        item.spec.replicas = 1
    if not item.spec.selector:
        for key, value in item.spec.template.metadata.labels.items():
            item.spec.selector[key] = value


def _volume(item: o.PersistentVolume) -> None:
    spec = item.spec
    spec.persistent_volume_reclaim_policy = spec.persistent_volume_reclaim_policy or "Retain"
    spec.volume_mode = spec.volume_mode or "Filesystem"
    item.status.phase = item.status.phase or "Pending"
    if not item.status.HasField("last_phase_transition_time"):
        item.status.last_phase_transition_time.CopyFrom(item.metadata.creation_timestamp)


def _claim(item: o.PersistentVolumeClaim) -> None:
    item.spec.volume_mode = item.spec.volume_mode or "Filesystem"
    item.status.phase = item.status.phase or "Pending"


def _storage_class(item: o.StorageClass) -> None:
    item.reclaim_policy = item.reclaim_policy or "Delete"
    item.volume_binding_mode = item.volume_binding_mode or "Immediate"


def _csi_driver(item: o.CSIDriver) -> None:
    spec = item.spec
    if not spec.HasField("attach_required"):
        spec.attach_required = True
    for name in ("pod_info_on_mount", "storage_capacity", "requires_republish", "se_linux_mount"):
        if not spec.HasField(name):
            setattr(spec, name, False)
    spec.fs_group_policy = spec.fs_group_policy or "ReadWriteOnceWithFSType"
    if not spec.volume_lifecycle_modes:
        spec.volume_lifecycle_modes.append("Persistent")


def _role_binding(item: o.RoleBinding | o.ClusterRoleBinding) -> None:
    item.role_ref.api_group = item.role_ref.api_group or RBAC_GROUP
    for subject in item.subjects:
        if subject.kind == SERVICE_ACCOUNT:
            # Within a namespace, its own accounts are meant.
            subject.namespace = subject.namespace or item.metadata.namespace
        else:
            subject.api_group = subject.api_group or RBAC_GROUP


_FILL: Mapping[type[Any], Callable[[Any], None]] = {
    o.Lease: _lease,
    o.Namespace: _namespace,
    o.Node: _node,
    o.PriorityClass: _priority_class,
    o.PodDisruptionBudget: _disruption_budget,
    o.Service: _service,
    o.ReplicaSet: _replicated,
    o.StatefulSet: _stateful_set,
    o.ReplicationController: _replication_controller,
    o.PersistentVolume: _volume,
    o.PersistentVolumeClaim: _claim,
    o.StorageClass: _storage_class,
    o.CSIDriver: _csi_driver,
    o.RoleBinding: _role_binding,
    o.ClusterRoleBinding: _role_binding,
    o.LimitRange: default_limit_range,
}
