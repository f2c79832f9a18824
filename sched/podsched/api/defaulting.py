"""What the API server fills in when an object is created.

Source: pkg/apis/*/v1/defaults.go and the create strategies of pkg/registry. Pods have a module of
their own.
"""

from __future__ import annotations

from google.protobuf.struct_pb2 import Struct

from podsched.api import objects as o
from podsched.api.field_errors import FieldError
from podsched.api.kind import function
from podsched.api.kinds import KINDS
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


def default_namespace(item: o.Namespace) -> None:
    """Make it active, with its finalizer and the label of its name."""
    item.metadata.labels[NAMESPACE_NAME_LABEL] = item.metadata.name
    item.status.phase = NAMESPACE_ACTIVE
    if KUBERNETES_FINALIZER not in item.spec.finalizers:
        item.spec.finalizers.append(KUBERNETES_FINALIZER)


def default_node(item: o.Node) -> None:
    """Let pods have all that it has."""
    if not item.status.allocatable:
        for name, text in item.status.capacity.items():
            item.status.allocatable[name] = text


def default_lease(item: o.Lease) -> None:
    """Drop what only coordinated leader election uses."""
    # Kubernetes drops these where coordinated leader election is off, and nothing appoints here.
    item.spec.ClearField("strategy")
    item.spec.ClearField("preferred_holder")


def default_priority_class(item: o.PriorityClass) -> None:
    """Let its pods preempt others."""
    item.preemption_policy = item.preemption_policy or PREEMPT_LOWER_PRIORITY


def default_disruption_budget(item: o.PodDisruptionBudget) -> None:
    """Drop a status that a client made up."""
    item.ClearField("status")


def default_service(item: o.Service) -> None:
    """Fill in type, affinity and what ports leave out."""
    item.spec.type = item.spec.type or "ClusterIP"
    item.spec.session_affinity = item.spec.session_affinity or "None"
    for port in item.spec.ports:
        port.protocol = port.protocol or "TCP"
        if not port.HasField("target_port"):
            port.target_port = str(port.port)


def default_replicated(item: o.ReplicaSet | o.StatefulSet) -> None:
    """Ask for one pod."""
    if not item.spec.HasField("replicas"):
        item.spec.replicas = 1


def default_stateful_set(item: o.StatefulSet) -> None:
    """Fill in how its pods are made, updated and removed."""
    default_replicated(item)
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


def default_replication_controller(item: o.ReplicationController) -> None:
    """Ask for one pod, selected by the labels of the template."""
    if not item.spec.HasField("replicas"):
        item.spec.replicas = 1
    if not item.spec.selector:
        for key, value in item.spec.template.metadata.labels.items():
            item.spec.selector[key] = value


def default_volume(item: o.PersistentVolume) -> None:
    """Fill in policy, mode and phase."""
    spec = item.spec
    spec.persistent_volume_reclaim_policy = spec.persistent_volume_reclaim_policy or "Retain"
    spec.volume_mode = spec.volume_mode or "Filesystem"
    item.status.phase = item.status.phase or "Pending"
    if not item.status.HasField("last_phase_transition_time"):
        item.status.last_phase_transition_time.CopyFrom(item.metadata.creation_timestamp)


def default_claim(item: o.PersistentVolumeClaim) -> None:
    """Fill in mode and phase."""
    item.spec.volume_mode = item.spec.volume_mode or "Filesystem"
    item.status.phase = item.status.phase or "Pending"


def default_storage_class(item: o.StorageClass) -> None:
    """Fill in policy and binding mode."""
    item.reclaim_policy = item.reclaim_policy or "Delete"
    item.volume_binding_mode = item.volume_binding_mode or "Immediate"


def default_csi_driver(item: o.CSIDriver) -> None:
    """Fill in what Kubernetes fills in."""
    spec = item.spec
    if not spec.HasField("attach_required"):
        spec.attach_required = True
    for name in ("pod_info_on_mount", "storage_capacity", "requires_republish", "se_linux_mount"):
        if not spec.HasField(name):
            setattr(spec, name, False)
    spec.fs_group_policy = spec.fs_group_policy or "ReadWriteOnceWithFSType"
    if not spec.volume_lifecycle_modes:
        spec.volume_lifecycle_modes.append("Persistent")


def default_role_binding(item: o.RoleBinding | o.ClusterRoleBinding) -> None:
    """Fill in API groups and namespaces."""
    item.role_ref.api_group = item.role_ref.api_group or RBAC_GROUP
    for subject in item.subjects:
        if subject.kind == SERVICE_ACCOUNT:
            # Within a namespace, its own accounts are meant.
            subject.namespace = subject.namespace or item.metadata.namespace
        else:
            subject.api_group = subject.api_group or RBAC_GROUP


def default_workload(item: o.Workload) -> None:
    """Drop what only DRAWorkloadResourceClaims uses."""
    for template in item.spec.pod_group_templates:
        template.ClearField("resource_claims")


def default_pod_group(item: o.PodGroup) -> None:
    """Let its pods be evicted one by one, and drop what only DRAWorkloadResourceClaims uses."""
    item.spec.disruption_mode = item.spec.disruption_mode or "Pod"
    # Kubernetes drops it while that feature is off, and nothing allocates claims here.
    item.spec.ClearField("resource_claims")


_FILL = {kind.message: function(kind.defaults) for kind in KINDS.values()}
