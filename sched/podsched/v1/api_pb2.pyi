from podsched.v1 import objects_pb2 as _objects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union
from podsched.v1.objects_pb2 import RawJSON as RawJSON
from podsched.v1.objects_pb2 import OwnerReference as OwnerReference
from podsched.v1.objects_pb2 import ObjectMeta as ObjectMeta
from podsched.v1.objects_pb2 import LabelSelectorRequirement as LabelSelectorRequirement
from podsched.v1.objects_pb2 import LabelSelector as LabelSelector
from podsched.v1.objects_pb2 import ObjectReference as ObjectReference
from podsched.v1.objects_pb2 import LocalObjectReference as LocalObjectReference
from podsched.v1.objects_pb2 import TypedLocalObjectReference as TypedLocalObjectReference
from podsched.v1.objects_pb2 import Condition as Condition
from podsched.v1.objects_pb2 import NodeSelectorRequirement as NodeSelectorRequirement
from podsched.v1.objects_pb2 import NodeSelectorTerm as NodeSelectorTerm
from podsched.v1.objects_pb2 import NodeSelector as NodeSelector
from podsched.v1.objects_pb2 import PreferredSchedulingTerm as PreferredSchedulingTerm
from podsched.v1.objects_pb2 import NodeAffinity as NodeAffinity
from podsched.v1.objects_pb2 import PodAffinityTerm as PodAffinityTerm
from podsched.v1.objects_pb2 import WeightedPodAffinityTerm as WeightedPodAffinityTerm
from podsched.v1.objects_pb2 import PodAffinity as PodAffinity
from podsched.v1.objects_pb2 import PodAntiAffinity as PodAntiAffinity
from podsched.v1.objects_pb2 import Affinity as Affinity
from podsched.v1.objects_pb2 import Taint as Taint
from podsched.v1.objects_pb2 import Toleration as Toleration
from podsched.v1.objects_pb2 import TopologySpreadConstraint as TopologySpreadConstraint
from podsched.v1.objects_pb2 import ResourceClaimRef as ResourceClaimRef
from podsched.v1.objects_pb2 import ResourceRequirements as ResourceRequirements
from podsched.v1.objects_pb2 import ContainerPort as ContainerPort
from podsched.v1.objects_pb2 import EnvVar as EnvVar
from podsched.v1.objects_pb2 import VolumeMount as VolumeMount
from podsched.v1.objects_pb2 import VolumeDevice as VolumeDevice
from podsched.v1.objects_pb2 import ContainerResizePolicy as ContainerResizePolicy
from podsched.v1.objects_pb2 import ContainerRestartRuleOnExitCodes as ContainerRestartRuleOnExitCodes
from podsched.v1.objects_pb2 import ContainerRestartRule as ContainerRestartRule
from podsched.v1.objects_pb2 import Container as Container
from podsched.v1.objects_pb2 import PersistentVolumeClaimVolumeSource as PersistentVolumeClaimVolumeSource
from podsched.v1.objects_pb2 import PersistentVolumeClaimTemplate as PersistentVolumeClaimTemplate
from podsched.v1.objects_pb2 import EphemeralVolumeSource as EphemeralVolumeSource
from podsched.v1.objects_pb2 import GCEPersistentDiskVolumeSource as GCEPersistentDiskVolumeSource
from podsched.v1.objects_pb2 import AWSElasticBlockStoreVolumeSource as AWSElasticBlockStoreVolumeSource
from podsched.v1.objects_pb2 import ISCSIVolumeSource as ISCSIVolumeSource
from podsched.v1.objects_pb2 import RBDVolumeSource as RBDVolumeSource
from podsched.v1.objects_pb2 import CSIVolumeSource as CSIVolumeSource
from podsched.v1.objects_pb2 import AzureDiskVolumeSource as AzureDiskVolumeSource
from podsched.v1.objects_pb2 import AzureFileVolumeSource as AzureFileVolumeSource
from podsched.v1.objects_pb2 import CinderVolumeSource as CinderVolumeSource
from podsched.v1.objects_pb2 import VsphereVirtualDiskVolumeSource as VsphereVirtualDiskVolumeSource
from podsched.v1.objects_pb2 import PortworxVolumeSource as PortworxVolumeSource
from podsched.v1.objects_pb2 import ImageVolumeSource as ImageVolumeSource
from podsched.v1.objects_pb2 import Volume as Volume
from podsched.v1.objects_pb2 import PodSchedulingGate as PodSchedulingGate
from podsched.v1.objects_pb2 import PodReadinessGate as PodReadinessGate
from podsched.v1.objects_pb2 import PodSchedulingGroup as PodSchedulingGroup
from podsched.v1.objects_pb2 import PodResourceClaim as PodResourceClaim
from podsched.v1.objects_pb2 import PodOS as PodOS
from podsched.v1.objects_pb2 import PodSpec as PodSpec
from podsched.v1.objects_pb2 import PodCondition as PodCondition
from podsched.v1.objects_pb2 import ContainerStateWaiting as ContainerStateWaiting
from podsched.v1.objects_pb2 import ContainerStateRunning as ContainerStateRunning
from podsched.v1.objects_pb2 import ContainerStateTerminated as ContainerStateTerminated
from podsched.v1.objects_pb2 import ContainerState as ContainerState
from podsched.v1.objects_pb2 import ContainerStatus as ContainerStatus
from podsched.v1.objects_pb2 import PodIP as PodIP
from podsched.v1.objects_pb2 import PodResourceClaimStatus as PodResourceClaimStatus
from podsched.v1.objects_pb2 import ContainerExtendedResourceRequest as ContainerExtendedResourceRequest
from podsched.v1.objects_pb2 import PodExtendedResourceClaimStatus as PodExtendedResourceClaimStatus
from podsched.v1.objects_pb2 import PodStatus as PodStatus
from podsched.v1.objects_pb2 import Pod as Pod
from podsched.v1.objects_pb2 import PodTemplateSpec as PodTemplateSpec
from podsched.v1.objects_pb2 import NodeSpec as NodeSpec
from podsched.v1.objects_pb2 import NodeCondition as NodeCondition
from podsched.v1.objects_pb2 import NodeAddress as NodeAddress
from podsched.v1.objects_pb2 import ContainerImage as ContainerImage
from podsched.v1.objects_pb2 import AttachedVolume as AttachedVolume
from podsched.v1.objects_pb2 import NodeSystemInfo as NodeSystemInfo
from podsched.v1.objects_pb2 import NodeStatus as NodeStatus
from podsched.v1.objects_pb2 import Node as Node
from podsched.v1.objects_pb2 import NamespaceSpec as NamespaceSpec
from podsched.v1.objects_pb2 import NamespaceStatus as NamespaceStatus
from podsched.v1.objects_pb2 import Namespace as Namespace
from podsched.v1.objects_pb2 import PriorityClass as PriorityClass
from podsched.v1.objects_pb2 import PodDisruptionBudgetSpec as PodDisruptionBudgetSpec
from podsched.v1.objects_pb2 import PodDisruptionBudgetStatus as PodDisruptionBudgetStatus
from podsched.v1.objects_pb2 import PodDisruptionBudget as PodDisruptionBudget
from podsched.v1.objects_pb2 import ServicePort as ServicePort
from podsched.v1.objects_pb2 import ServiceSpec as ServiceSpec
from podsched.v1.objects_pb2 import Service as Service
from podsched.v1.objects_pb2 import ReplicaSetSpec as ReplicaSetSpec
from podsched.v1.objects_pb2 import ReplicaSetStatus as ReplicaSetStatus
from podsched.v1.objects_pb2 import ReplicaSet as ReplicaSet
from podsched.v1.objects_pb2 import StatefulSetSpec as StatefulSetSpec
from podsched.v1.objects_pb2 import StatefulSetStatus as StatefulSetStatus
from podsched.v1.objects_pb2 import ControllerRevision as ControllerRevision
from podsched.v1.objects_pb2 import StatefulSet as StatefulSet
from podsched.v1.objects_pb2 import ReplicationControllerSpec as ReplicationControllerSpec
from podsched.v1.objects_pb2 import ReplicationController as ReplicationController
from podsched.v1.objects_pb2 import VolumeNodeAffinity as VolumeNodeAffinity
from podsched.v1.objects_pb2 import PersistentVolumeSpec as PersistentVolumeSpec
from podsched.v1.objects_pb2 import PersistentVolumeStatus as PersistentVolumeStatus
from podsched.v1.objects_pb2 import PersistentVolume as PersistentVolume
from podsched.v1.objects_pb2 import PersistentVolumeClaimSpec as PersistentVolumeClaimSpec
from podsched.v1.objects_pb2 import PersistentVolumeClaimStatus as PersistentVolumeClaimStatus
from podsched.v1.objects_pb2 import PersistentVolumeClaim as PersistentVolumeClaim
from podsched.v1.objects_pb2 import TopologySelectorLabelRequirement as TopologySelectorLabelRequirement
from podsched.v1.objects_pb2 import TopologySelectorTerm as TopologySelectorTerm
from podsched.v1.objects_pb2 import StorageClass as StorageClass
from podsched.v1.objects_pb2 import VolumeNodeResources as VolumeNodeResources
from podsched.v1.objects_pb2 import CSINodeDriver as CSINodeDriver
from podsched.v1.objects_pb2 import CSINodeSpec as CSINodeSpec
from podsched.v1.objects_pb2 import CSINode as CSINode
from podsched.v1.objects_pb2 import CSIDriverSpec as CSIDriverSpec
from podsched.v1.objects_pb2 import CSIDriver as CSIDriver
from podsched.v1.objects_pb2 import CSIStorageCapacity as CSIStorageCapacity
from podsched.v1.objects_pb2 import VolumeAttachmentSource as VolumeAttachmentSource
from podsched.v1.objects_pb2 import VolumeAttachmentSpec as VolumeAttachmentSpec
from podsched.v1.objects_pb2 import VolumeAttachmentStatus as VolumeAttachmentStatus
from podsched.v1.objects_pb2 import VolumeAttachment as VolumeAttachment
from podsched.v1.objects_pb2 import EventSource as EventSource
from podsched.v1.objects_pb2 import EventSeries as EventSeries
from podsched.v1.objects_pb2 import Event as Event
from podsched.v1.objects_pb2 import LeaseSpec as LeaseSpec
from podsched.v1.objects_pb2 import Lease as Lease
from podsched.v1.objects_pb2 import PolicyRule as PolicyRule
from podsched.v1.objects_pb2 import Role as Role
from podsched.v1.objects_pb2 import AggregationRule as AggregationRule
from podsched.v1.objects_pb2 import ClusterRole as ClusterRole
from podsched.v1.objects_pb2 import Subject as Subject
from podsched.v1.objects_pb2 import RoleRef as RoleRef
from podsched.v1.objects_pb2 import RoleBinding as RoleBinding
from podsched.v1.objects_pb2 import ClusterRoleBinding as ClusterRoleBinding
from podsched.v1.objects_pb2 import ConfigMap as ConfigMap
from podsched.v1.objects_pb2 import RuntimeClassOverhead as RuntimeClassOverhead
from podsched.v1.objects_pb2 import RuntimeClassScheduling as RuntimeClassScheduling
from podsched.v1.objects_pb2 import RuntimeClass as RuntimeClass
from podsched.v1.objects_pb2 import LimitRangeItem as LimitRangeItem
from podsched.v1.objects_pb2 import LimitRangeSpec as LimitRangeSpec
from podsched.v1.objects_pb2 import LimitRange as LimitRange
from podsched.v1.objects_pb2 import ResourceQuotaSpec as ResourceQuotaSpec
from podsched.v1.objects_pb2 import ResourceQuotaStatus as ResourceQuotaStatus
from podsched.v1.objects_pb2 import ResourceQuota as ResourceQuota
from podsched.v1.objects_pb2 import BasicSchedulingPolicy as BasicSchedulingPolicy
from podsched.v1.objects_pb2 import GangSchedulingPolicy as GangSchedulingPolicy
from podsched.v1.objects_pb2 import PodGroupSchedulingPolicy as PodGroupSchedulingPolicy
from podsched.v1.objects_pb2 import TopologyConstraint as TopologyConstraint
from podsched.v1.objects_pb2 import PodGroupSchedulingConstraints as PodGroupSchedulingConstraints
from podsched.v1.objects_pb2 import PodGroupResourceClaim as PodGroupResourceClaim
from podsched.v1.objects_pb2 import PodGroupTemplate as PodGroupTemplate
from podsched.v1.objects_pb2 import WorkloadSpec as WorkloadSpec
from podsched.v1.objects_pb2 import Workload as Workload
from podsched.v1.objects_pb2 import WorkloadPodGroupTemplateReference as WorkloadPodGroupTemplateReference
from podsched.v1.objects_pb2 import PodGroupTemplateReference as PodGroupTemplateReference
from podsched.v1.objects_pb2 import PodGroupSpec as PodGroupSpec
from podsched.v1.objects_pb2 import PodGroupResourceClaimStatus as PodGroupResourceClaimStatus
from podsched.v1.objects_pb2 import PodGroupStatus as PodGroupStatus
from podsched.v1.objects_pb2 import PodGroup as PodGroup
from podsched.v1.objects_pb2 import CELDeviceSelector as CELDeviceSelector
from podsched.v1.objects_pb2 import DeviceSelector as DeviceSelector
from podsched.v1.objects_pb2 import OpaqueDeviceConfiguration as OpaqueDeviceConfiguration
from podsched.v1.objects_pb2 import DeviceClassConfiguration as DeviceClassConfiguration
from podsched.v1.objects_pb2 import DeviceClassSpec as DeviceClassSpec
from podsched.v1.objects_pb2 import DeviceClass as DeviceClass
from podsched.v1.objects_pb2 import CapacityRequirements as CapacityRequirements
from podsched.v1.objects_pb2 import ExactDeviceRequest as ExactDeviceRequest
from podsched.v1.objects_pb2 import DeviceSubRequest as DeviceSubRequest
from podsched.v1.objects_pb2 import DeviceRequest as DeviceRequest
from podsched.v1.objects_pb2 import DeviceConstraint as DeviceConstraint
from podsched.v1.objects_pb2 import DeviceClaimConfiguration as DeviceClaimConfiguration
from podsched.v1.objects_pb2 import DeviceClaim as DeviceClaim
from podsched.v1.objects_pb2 import ResourceClaimSpec as ResourceClaimSpec
from podsched.v1.objects_pb2 import DeviceRequestAllocationResult as DeviceRequestAllocationResult
from podsched.v1.objects_pb2 import DeviceAllocationConfiguration as DeviceAllocationConfiguration
from podsched.v1.objects_pb2 import DeviceAllocationResult as DeviceAllocationResult
from podsched.v1.objects_pb2 import AllocationResult as AllocationResult
from podsched.v1.objects_pb2 import ResourceClaimConsumerReference as ResourceClaimConsumerReference
from podsched.v1.objects_pb2 import NetworkDeviceData as NetworkDeviceData
from podsched.v1.objects_pb2 import AllocatedDeviceStatus as AllocatedDeviceStatus
from podsched.v1.objects_pb2 import ResourceClaimStatus as ResourceClaimStatus
from podsched.v1.objects_pb2 import ResourceClaim as ResourceClaim
from podsched.v1.objects_pb2 import ResourceClaimTemplateSpec as ResourceClaimTemplateSpec
from podsched.v1.objects_pb2 import ResourceClaimTemplate as ResourceClaimTemplate
from podsched.v1.objects_pb2 import ResourcePool as ResourcePool
from podsched.v1.objects_pb2 import DeviceAttribute as DeviceAttribute
from podsched.v1.objects_pb2 import CapacityRequestPolicyRange as CapacityRequestPolicyRange
from podsched.v1.objects_pb2 import CapacityRequestPolicy as CapacityRequestPolicy
from podsched.v1.objects_pb2 import DeviceCapacity as DeviceCapacity
from podsched.v1.objects_pb2 import Counter as Counter
from podsched.v1.objects_pb2 import CounterSet as CounterSet
from podsched.v1.objects_pb2 import DeviceCounterConsumption as DeviceCounterConsumption
from podsched.v1.objects_pb2 import Device as Device
from podsched.v1.objects_pb2 import ResourceSliceSpec as ResourceSliceSpec
from podsched.v1.objects_pb2 import ResourceSlice as ResourceSlice
from podsched.v1.objects_pb2 import DeviceTaintSelector as DeviceTaintSelector
from podsched.v1.objects_pb2 import DeviceTaintRuleSpec as DeviceTaintRuleSpec
from podsched.v1.objects_pb2 import DeviceTaintRuleStatus as DeviceTaintRuleStatus
from podsched.v1.objects_pb2 import DeviceTaintRule as DeviceTaintRule
from podsched.v1.objects_pb2 import RollingUpdate as RollingUpdate
from podsched.v1.objects_pb2 import UpdateStrategy as UpdateStrategy
from podsched.v1.objects_pb2 import DeploymentSpec as DeploymentSpec
from podsched.v1.objects_pb2 import WorkloadCondition as WorkloadCondition
from podsched.v1.objects_pb2 import DeploymentStatus as DeploymentStatus
from podsched.v1.objects_pb2 import Deployment as Deployment
from podsched.v1.objects_pb2 import DaemonSetSpec as DaemonSetSpec
from podsched.v1.objects_pb2 import DaemonSetStatus as DaemonSetStatus
from podsched.v1.objects_pb2 import DaemonSet as DaemonSet
from podsched.v1.objects_pb2 import PodFailurePolicyOnExitCodes as PodFailurePolicyOnExitCodes
from podsched.v1.objects_pb2 import PodFailurePolicyOnPodCondition as PodFailurePolicyOnPodCondition
from podsched.v1.objects_pb2 import PodFailurePolicyRule as PodFailurePolicyRule
from podsched.v1.objects_pb2 import PodFailurePolicy as PodFailurePolicy
from podsched.v1.objects_pb2 import SuccessPolicyRule as SuccessPolicyRule
from podsched.v1.objects_pb2 import SuccessPolicy as SuccessPolicy
from podsched.v1.objects_pb2 import JobSpec as JobSpec
from podsched.v1.objects_pb2 import UncountedTerminatedPods as UncountedTerminatedPods
from podsched.v1.objects_pb2 import JobStatus as JobStatus
from podsched.v1.objects_pb2 import Job as Job
from podsched.v1.objects_pb2 import JobTemplateSpec as JobTemplateSpec
from podsched.v1.objects_pb2 import CronJobSpec as CronJobSpec
from podsched.v1.objects_pb2 import CronJobStatus as CronJobStatus
from podsched.v1.objects_pb2 import CronJob as CronJob
from podsched.v1.objects_pb2 import PodTemplate as PodTemplate
from podsched.v1.objects_pb2 import CrossVersionObjectReference as CrossVersionObjectReference
from podsched.v1.objects_pb2 import HorizontalPodAutoscalerSpec as HorizontalPodAutoscalerSpec
from podsched.v1.objects_pb2 import HorizontalPodAutoscalerStatus as HorizontalPodAutoscalerStatus
from podsched.v1.objects_pb2 import HorizontalPodAutoscaler as HorizontalPodAutoscaler
from podsched.v1.objects_pb2 import EndpointAddress as EndpointAddress
from podsched.v1.objects_pb2 import EndpointPort as EndpointPort
from podsched.v1.objects_pb2 import EndpointSubset as EndpointSubset
from podsched.v1.objects_pb2 import Endpoints as Endpoints
from podsched.v1.objects_pb2 import EndpointConditions as EndpointConditions
from podsched.v1.objects_pb2 import EndpointHint as EndpointHint
from podsched.v1.objects_pb2 import EndpointHints as EndpointHints
from podsched.v1.objects_pb2 import Endpoint as Endpoint
from podsched.v1.objects_pb2 import EndpointSlice as EndpointSlice
from podsched.v1.objects_pb2 import Secret as Secret
from podsched.v1.objects_pb2 import ServiceAccount as ServiceAccount
from podsched.v1.objects_pb2 import CertificateSigningRequestSpec as CertificateSigningRequestSpec
from podsched.v1.objects_pb2 import CertificateSigningRequestCondition as CertificateSigningRequestCondition
from podsched.v1.objects_pb2 import CertificateSigningRequestStatus as CertificateSigningRequestStatus
from podsched.v1.objects_pb2 import CertificateSigningRequest as CertificateSigningRequest
from podsched.v1.objects_pb2 import ResourceFlavorSpec as ResourceFlavorSpec
from podsched.v1.objects_pb2 import ResourceFlavor as ResourceFlavor
from podsched.v1.objects_pb2 import FlavorResourceQuota as FlavorResourceQuota
from podsched.v1.objects_pb2 import FlavorQuotas as FlavorQuotas
from podsched.v1.objects_pb2 import ResourceGroup as ResourceGroup
from podsched.v1.objects_pb2 import FlavorFungibility as FlavorFungibility
from podsched.v1.objects_pb2 import BorrowWithinCohort as BorrowWithinCohort
from podsched.v1.objects_pb2 import ClusterQueuePreemption as ClusterQueuePreemption
from podsched.v1.objects_pb2 import AdmissionCheckStrategyRule as AdmissionCheckStrategyRule
from podsched.v1.objects_pb2 import AdmissionChecksStrategy as AdmissionChecksStrategy
from podsched.v1.objects_pb2 import FairSharing as FairSharing
from podsched.v1.objects_pb2 import AdmissionScope as AdmissionScope
from podsched.v1.objects_pb2 import ClusterQueueSpec as ClusterQueueSpec
from podsched.v1.objects_pb2 import ResourceUsage as ResourceUsage
from podsched.v1.objects_pb2 import FlavorUsage as FlavorUsage
from podsched.v1.objects_pb2 import FairSharingStatus as FairSharingStatus
from podsched.v1.objects_pb2 import ClusterQueueStatus as ClusterQueueStatus
from podsched.v1.objects_pb2 import ClusterQueue as ClusterQueue
from podsched.v1.objects_pb2 import LocalQueueSpec as LocalQueueSpec
from podsched.v1.objects_pb2 import LocalQueueAdmissionFairSharingStatus as LocalQueueAdmissionFairSharingStatus
from podsched.v1.objects_pb2 import LocalQueueFairSharingStatus as LocalQueueFairSharingStatus
from podsched.v1.objects_pb2 import LocalQueueStatus as LocalQueueStatus
from podsched.v1.objects_pb2 import LocalQueue as LocalQueue
from podsched.v1.objects_pb2 import CohortSpec as CohortSpec
from podsched.v1.objects_pb2 import CohortStatus as CohortStatus
from podsched.v1.objects_pb2 import Cohort as Cohort
from podsched.v1.objects_pb2 import WorkloadPriorityClass as WorkloadPriorityClass
from podsched.v1.objects_pb2 import TopologyLevel as TopologyLevel
from podsched.v1.objects_pb2 import TopologySpec as TopologySpec
from podsched.v1.objects_pb2 import Topology as Topology
from podsched.v1.objects_pb2 import Object as Object
from podsched.v1.objects_pb2 import Format as Format

DESCRIPTOR: _descriptor.FileDescriptor
FORMAT_FIELD_NUMBER: _ClassVar[int]
format: _descriptor.FieldDescriptor
ALWAYS_FIELD_NUMBER: _ClassVar[int]
always: _descriptor.FieldDescriptor
FORMAT_UNSPECIFIED: _objects_pb2.Format
FORMAT_QUANTITY: _objects_pb2.Format
FORMAT_INT_OR_STRING: _objects_pb2.Format

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_TYPE_UNSPECIFIED: _ClassVar[EventType]
    ADDED: _ClassVar[EventType]
    MODIFIED: _ClassVar[EventType]
    DELETED: _ClassVar[EventType]
    BOOKMARK: _ClassVar[EventType]

class PatchType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JSON_MERGE_PATCH: _ClassVar[PatchType]
    STRATEGIC_MERGE_PATCH: _ClassVar[PatchType]
EVENT_TYPE_UNSPECIFIED: EventType
ADDED: EventType
MODIFIED: EventType
DELETED: EventType
BOOKMARK: EventType
JSON_MERGE_PATCH: PatchType
STRATEGIC_MERGE_PATCH: PatchType

class Fence(_message.Message):
    __slots__ = ("lock", "term")
    LOCK_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    lock: str
    term: int
    def __init__(self, lock: _Optional[str] = ..., term: _Optional[int] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("object", "dry_run", "fence")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    object: _objects_pb2.Object
    dry_run: bool
    fence: Fence
    def __init__(self, object: _Optional[_Union[_objects_pb2.Object, _Mapping]] = ..., dry_run: _Optional[bool] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ...) -> None: ...

class CreateBatchRequest(_message.Message):
    __slots__ = ("objects", "fence", "dry_run")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    fence: Fence
    dry_run: bool
    def __init__(self, objects: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CreatePodsRequest(_message.Message):
    __slots__ = ("pods", "dry_run")
    PODS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Pod]
    dry_run: bool
    def __init__(self, pods: _Optional[_Iterable[_Union[_objects_pb2.Pod, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SubmitPodsRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: _objects_pb2.Pod
    def __init__(self, pod: _Optional[_Union[_objects_pb2.Pod, _Mapping]] = ...) -> None: ...

class SubmitPodsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[BatchResult]
    def __init__(self, results: _Optional[_Iterable[_Union[BatchResult, _Mapping]]] = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("field", "description", "reason")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    reason: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class BatchResult(_message.Message):
    __slots__ = ("code", "message", "resource_version", "reason", "node_name", "violations")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    resource_version: int
    reason: str
    node_name: str
    violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., resource_version: _Optional[int] = ..., reason: _Optional[str] = ..., node_name: _Optional[str] = ..., violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[BatchResult]
    def __init__(self, results: _Optional[_Iterable[_Union[BatchResult, _Mapping]]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("kind", "namespace", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RawObject(_message.Message):
    __slots__ = ("kind", "namespace", "name", "resource_version", "value", "problem")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    resource_version: int
    value: bytes
    problem: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., resource_version: _Optional[int] = ..., value: _Optional[bytes] = ..., problem: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("kind", "namespace", "label_selector", "field_selector", "limit", "allow_stale")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FIELD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_STALE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    label_selector: str
    field_selector: str
    limit: int
    allow_stale: bool
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., label_selector: _Optional[str] = ..., field_selector: _Optional[str] = ..., limit: _Optional[int] = ..., allow_stale: _Optional[bool] = ..., **kwargs) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("items", "resource_version", "remaining_item_count")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Object]
    resource_version: int
    remaining_item_count: int
    def __init__(self, items: _Optional[_Iterable[_Union[_objects_pb2.Object, _Mapping]]] = ..., resource_version: _Optional[int] = ..., remaining_item_count: _Optional[int] = ..., **kwargs) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("kinds", "namespace", "label_selector", "field_selector", "from_revision", "send_initial_events", "pace_ms")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FIELD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_REVISION_FIELD_NUMBER: _ClassVar[int]
    SEND_INITIAL_EVENTS_FIELD_NUMBER: _ClassVar[int]
    PACE_MS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    namespace: str
    label_selector: str
    field_selector: str
    from_revision: int
    send_initial_events: bool
    pace_ms: int
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., namespace: _Optional[str] = ..., label_selector: _Optional[str] = ..., field_selector: _Optional[str] = ..., from_revision: _Optional[int] = ..., send_initial_events: _Optional[bool] = ..., pace_ms: _Optional[int] = ...) -> None: ...

class WatchEvent(_message.Message):
    __slots__ = ("type", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: EventType
    object: _objects_pb2.Object
    def __init__(self, type: _Optional[_Union[EventType, str]] = ..., object: _Optional[_Union[_objects_pb2.Object, _Mapping]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("events", "revision", "bookmark", "initial_events_end")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    INITIAL_EVENTS_END_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[WatchEvent]
    revision: int
    bookmark: bool
    initial_events_end: bool
    def __init__(self, events: _Optional[_Iterable[_Union[WatchEvent, _Mapping]]] = ..., revision: _Optional[int] = ..., bookmark: _Optional[bool] = ..., initial_events_end: _Optional[bool] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("object", "fence", "dry_run")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    object: _objects_pb2.Object
    fence: Fence
    dry_run: bool
    def __init__(self, object: _Optional[_Union[_objects_pb2.Object, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PatchRequest(_message.Message):
    __slots__ = ("kind", "namespace", "name", "merge_patch", "fence", "resource_version", "uid", "type", "dry_run")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MERGE_PATCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    merge_patch: bytes
    fence: Fence
    resource_version: int
    uid: str
    type: PatchType
    dry_run: bool
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., merge_patch: _Optional[bytes] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., resource_version: _Optional[int] = ..., uid: _Optional[str] = ..., type: _Optional[_Union[PatchType, str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PatchBatchRequest(_message.Message):
    __slots__ = ("patches", "fence", "dry_run")
    PATCHES_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    patches: _containers.RepeatedCompositeFieldContainer[PatchRequest]
    fence: Fence
    dry_run: bool
    def __init__(self, patches: _Optional[_Iterable[_Union[PatchRequest, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class Preconditions(_message.Message):
    __slots__ = ("uid", "resource_version")
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    uid: str
    resource_version: int
    def __init__(self, uid: _Optional[str] = ..., resource_version: _Optional[int] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("kind", "namespace", "name", "grace_period_seconds", "preconditions", "fence", "propagation_policy", "dry_run")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PRECONDITIONS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    PROPAGATION_POLICY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    grace_period_seconds: int
    preconditions: Preconditions
    fence: Fence
    propagation_policy: str
    dry_run: bool
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., grace_period_seconds: _Optional[int] = ..., preconditions: _Optional[_Union[Preconditions, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., propagation_policy: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteBatchRequest(_message.Message):
    __slots__ = ("deletions", "fence", "dry_run")
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    deletions: _containers.RepeatedCompositeFieldContainer[DeleteRequest]
    fence: Fence
    dry_run: bool
    def __init__(self, deletions: _Optional[_Iterable[_Union[DeleteRequest, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteCollectionRequest(_message.Message):
    __slots__ = ("kind", "namespace", "label_selector", "field_selector", "grace_period_seconds", "fence", "propagation_policy", "dry_run")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FIELD_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    PROPAGATION_POLICY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    label_selector: str
    field_selector: str
    grace_period_seconds: int
    fence: Fence
    propagation_policy: str
    dry_run: bool
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., label_selector: _Optional[str] = ..., field_selector: _Optional[str] = ..., grace_period_seconds: _Optional[int] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., propagation_policy: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteCollectionResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("namespace", "name", "uid", "node_name", "revision", "annotations")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    node_name: str
    revision: int
    annotations: _containers.ScalarMap[str, str]
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., node_name: _Optional[str] = ..., revision: _Optional[int] = ..., annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BindRequest(_message.Message):
    __slots__ = ("binding", "fence", "dry_run")
    BINDING_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    binding: Binding
    fence: Fence
    dry_run: bool
    def __init__(self, binding: _Optional[_Union[Binding, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class BindPodsRequest(_message.Message):
    __slots__ = ("bindings", "fence", "dry_run")
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    fence: Fence
    dry_run: bool
    def __init__(self, bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class EvictRequest(_message.Message):
    __slots__ = ("namespace", "name", "grace_period_seconds", "preconditions", "fence", "ignore_disruption_budgets", "condition", "dry_run")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PRECONDITIONS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    IGNORE_DISRUPTION_BUDGETS_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    grace_period_seconds: int
    preconditions: Preconditions
    fence: Fence
    ignore_disruption_budgets: bool
    condition: _objects_pb2.PodCondition
    dry_run: bool
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., grace_period_seconds: _Optional[int] = ..., preconditions: _Optional[_Union[Preconditions, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., ignore_disruption_budgets: _Optional[bool] = ..., condition: _Optional[_Union[_objects_pb2.PodCondition, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class EvictPodsRequest(_message.Message):
    __slots__ = ("evictions", "fence", "dry_run")
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    evictions: _containers.RepeatedCompositeFieldContainer[EvictRequest]
    fence: Fence
    dry_run: bool
    def __init__(self, evictions: _Optional[_Iterable[_Union[EvictRequest, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PodStatusPatch(_message.Message):
    __slots__ = ("namespace", "name", "uid", "conditions", "nominated_node_name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    NOMINATED_NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    conditions: _containers.RepeatedCompositeFieldContainer[_objects_pb2.PodCondition]
    nominated_node_name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[_objects_pb2.PodCondition, _Mapping]]] = ..., nominated_node_name: _Optional[str] = ...) -> None: ...

class PatchPodStatusesRequest(_message.Message):
    __slots__ = ("patches", "fence", "dry_run")
    PATCHES_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    patches: _containers.RepeatedCompositeFieldContainer[PodStatusPatch]
    fence: Fence
    dry_run: bool
    def __init__(self, patches: _Optional[_Iterable[_Union[PodStatusPatch, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SelfSubjectReviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SelfSubjectReviewResponse(_message.Message):
    __slots__ = ("username", "groups", "authentication", "expires", "node")
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    username: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    authentication: str
    expires: float
    node: str
    def __init__(self, username: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., authentication: _Optional[str] = ..., expires: _Optional[float] = ..., node: _Optional[str] = ...) -> None: ...

class ReviewedSubject(_message.Message):
    __slots__ = ("username", "groups")
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    username: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, username: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class SubjectAccessReviewRequest(_message.Message):
    __slots__ = ("subject", "verb", "resource", "subresource", "namespace", "name")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SUBRESOURCE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    subject: ReviewedSubject
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    def __init__(self, subject: _Optional[_Union[ReviewedSubject, _Mapping]] = ..., verb: _Optional[str] = ..., resource: _Optional[str] = ..., subresource: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class SubjectAccessReviewResponse(_message.Message):
    __slots__ = ("allowed", "reason")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    reason: str
    def __init__(self, allowed: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class SubjectRulesReviewRequest(_message.Message):
    __slots__ = ("subject", "namespace")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    subject: ReviewedSubject
    namespace: str
    def __init__(self, subject: _Optional[_Union[ReviewedSubject, _Mapping]] = ..., namespace: _Optional[str] = ...) -> None: ...

class SubjectRulesReviewResponse(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[_objects_pb2.PolicyRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[_objects_pb2.PolicyRule, _Mapping]]] = ...) -> None: ...
