"""The messages of every kind under one roof, and the few readings that need no kind.

The protobuf messages are the objects: there is no second hierarchy of classes beside them.
"""

from __future__ import annotations

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.lib.ids import PodKey
from podsched.v1.objects_pb2 import (
    Affinity,
    AggregationRule,
    AttachedVolume,
    ClusterRole,
    ClusterRoleBinding,
    Condition,
    ConfigMap,
    Container,
    ContainerImage,
    ContainerPort,
    ContainerResizePolicy,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    CSIVolumeSource,
    Event,
    EventSeries,
    EventSource,
    LabelSelector,
    LabelSelectorRequirement,
    Lease,
    LeaseSpec,
    LimitRange,
    LimitRangeItem,
    LocalObjectReference,
    Namespace,
    NamespaceSpec,
    NamespaceStatus,
    Node,
    NodeAddress,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodIP,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    PolicyRule,
    PreferredSchedulingTerm,
    PriorityClass,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    Role,
    RoleBinding,
    RoleRef,
    RuntimeClass,
    Service,
    ServicePort,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
    StorageClass,
    Subject,
    Taint,
    Toleration,
    TopologySelectorTerm,
    TopologySpreadConstraint,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeNodeAffinity,
    WeightedPodAffinityTerm,
)

AnyObject = (
    Pod
    | Node
    | Namespace
    | PriorityClass
    | PodDisruptionBudget
    | Service
    | ReplicaSet
    | StatefulSet
    | ReplicationController
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | Event
    | Lease
    | Role
    | ClusterRole
    | RoleBinding
    | ClusterRoleBinding
    | ConfigMap
    | ResourceQuota
    | RuntimeClass
    | LimitRange
)
"""An object of any kind: every one of them has metadata."""

__all__ = [
    "Affinity",
    "AggregationRule",
    "AnyObject",
    "AttachedVolume",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "CSIVolumeSource",
    "ClusterRole",
    "ClusterRoleBinding",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStatus",
    "Event",
    "EventSeries",
    "EventSource",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "LimitRange",
    "LimitRangeItem",
    "LocalObjectReference",
    "Message",
    "Namespace",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCondition",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodIP",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PolicyRule",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceRequirements",
    "Role",
    "RoleBinding",
    "RoleRef",
    "RuntimeClass",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "StatefulSet",
    "StatefulSetSpec",
    "StorageClass",
    "Struct",
    "Subject",
    "Taint",
    "Timestamp",
    "Toleration",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeAttachment",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeNodeAffinity",
    "WeightedPodAffinityTerm",
    "key_of",
    "object_key",
    "seconds_of",
    "timestamp",
]


def key_of(pod: Pod) -> PodKey:
    """Return the namespace/name of a pod."""
    metadata = pod.metadata
    return PodKey(f"{metadata.namespace}/{metadata.name}")


def object_key(message: AnyObject) -> str:
    """Return namespace/name, or the name alone where there is no namespace."""
    metadata = message.metadata
    if metadata.namespace:
        return f"{metadata.namespace}/{metadata.name}"
    return metadata.name


def timestamp(seconds: float, *, whole: bool = False) -> Timestamp:
    """Return Unix time as a Timestamp of microseconds, or of whole seconds as in metav1.Time."""
    if whole:
        return Timestamp(seconds=int(seconds))
    micros = round(seconds * 1e6)
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def seconds_of(stamp: Timestamp) -> float:
    """Return a Timestamp as Unix time in seconds."""
    return stamp.seconds + stamp.nanos / 1e9
