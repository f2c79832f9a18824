from podsched.v1 import objects_pb2 as _objects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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

class Object(_message.Message):
    __slots__ = ("pod", "node", "namespace", "priority_class", "pod_disruption_budget", "service", "replica_set", "stateful_set", "replication_controller", "persistent_volume", "persistent_volume_claim", "storage_class", "csi_node", "csi_driver", "csi_storage_capacity", "volume_attachment", "event", "lease", "role", "cluster_role", "role_binding", "cluster_role_binding", "config_map", "resource_quota", "runtime_class", "limit_range")
    POD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    POD_DISRUPTION_BUDGET_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_SET_FIELD_NUMBER: _ClassVar[int]
    STATEFUL_SET_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_CLAIM_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    CSI_NODE_FIELD_NUMBER: _ClassVar[int]
    CSI_DRIVER_FIELD_NUMBER: _ClassVar[int]
    CSI_STORAGE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    VOLUME_ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ROLE_FIELD_NUMBER: _ClassVar[int]
    ROLE_BINDING_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ROLE_BINDING_FIELD_NUMBER: _ClassVar[int]
    CONFIG_MAP_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_QUOTA_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_CLASS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_RANGE_FIELD_NUMBER: _ClassVar[int]
    pod: _objects_pb2.Pod
    node: _objects_pb2.Node
    namespace: _objects_pb2.Namespace
    priority_class: _objects_pb2.PriorityClass
    pod_disruption_budget: _objects_pb2.PodDisruptionBudget
    service: _objects_pb2.Service
    replica_set: _objects_pb2.ReplicaSet
    stateful_set: _objects_pb2.StatefulSet
    replication_controller: _objects_pb2.ReplicationController
    persistent_volume: _objects_pb2.PersistentVolume
    persistent_volume_claim: _objects_pb2.PersistentVolumeClaim
    storage_class: _objects_pb2.StorageClass
    csi_node: _objects_pb2.CSINode
    csi_driver: _objects_pb2.CSIDriver
    csi_storage_capacity: _objects_pb2.CSIStorageCapacity
    volume_attachment: _objects_pb2.VolumeAttachment
    event: _objects_pb2.Event
    lease: _objects_pb2.Lease
    role: _objects_pb2.Role
    cluster_role: _objects_pb2.ClusterRole
    role_binding: _objects_pb2.RoleBinding
    cluster_role_binding: _objects_pb2.ClusterRoleBinding
    config_map: _objects_pb2.ConfigMap
    resource_quota: _objects_pb2.ResourceQuota
    runtime_class: _objects_pb2.RuntimeClass
    limit_range: _objects_pb2.LimitRange
    def __init__(self, pod: _Optional[_Union[_objects_pb2.Pod, _Mapping]] = ..., node: _Optional[_Union[_objects_pb2.Node, _Mapping]] = ..., namespace: _Optional[_Union[_objects_pb2.Namespace, _Mapping]] = ..., priority_class: _Optional[_Union[_objects_pb2.PriorityClass, _Mapping]] = ..., pod_disruption_budget: _Optional[_Union[_objects_pb2.PodDisruptionBudget, _Mapping]] = ..., service: _Optional[_Union[_objects_pb2.Service, _Mapping]] = ..., replica_set: _Optional[_Union[_objects_pb2.ReplicaSet, _Mapping]] = ..., stateful_set: _Optional[_Union[_objects_pb2.StatefulSet, _Mapping]] = ..., replication_controller: _Optional[_Union[_objects_pb2.ReplicationController, _Mapping]] = ..., persistent_volume: _Optional[_Union[_objects_pb2.PersistentVolume, _Mapping]] = ..., persistent_volume_claim: _Optional[_Union[_objects_pb2.PersistentVolumeClaim, _Mapping]] = ..., storage_class: _Optional[_Union[_objects_pb2.StorageClass, _Mapping]] = ..., csi_node: _Optional[_Union[_objects_pb2.CSINode, _Mapping]] = ..., csi_driver: _Optional[_Union[_objects_pb2.CSIDriver, _Mapping]] = ..., csi_storage_capacity: _Optional[_Union[_objects_pb2.CSIStorageCapacity, _Mapping]] = ..., volume_attachment: _Optional[_Union[_objects_pb2.VolumeAttachment, _Mapping]] = ..., event: _Optional[_Union[_objects_pb2.Event, _Mapping]] = ..., lease: _Optional[_Union[_objects_pb2.Lease, _Mapping]] = ..., role: _Optional[_Union[_objects_pb2.Role, _Mapping]] = ..., cluster_role: _Optional[_Union[_objects_pb2.ClusterRole, _Mapping]] = ..., role_binding: _Optional[_Union[_objects_pb2.RoleBinding, _Mapping]] = ..., cluster_role_binding: _Optional[_Union[_objects_pb2.ClusterRoleBinding, _Mapping]] = ..., config_map: _Optional[_Union[_objects_pb2.ConfigMap, _Mapping]] = ..., resource_quota: _Optional[_Union[_objects_pb2.ResourceQuota, _Mapping]] = ..., runtime_class: _Optional[_Union[_objects_pb2.RuntimeClass, _Mapping]] = ..., limit_range: _Optional[_Union[_objects_pb2.LimitRange, _Mapping]] = ...) -> None: ...

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
    object: Object
    dry_run: bool
    fence: Fence
    def __init__(self, object: _Optional[_Union[Object, _Mapping]] = ..., dry_run: _Optional[bool] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ...) -> None: ...

class CreateBatchRequest(_message.Message):
    __slots__ = ("objects", "fence", "dry_run")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[Object]
    fence: Fence
    dry_run: bool
    def __init__(self, objects: _Optional[_Iterable[_Union[Object, _Mapping]]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

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
    items: _containers.RepeatedCompositeFieldContainer[Object]
    resource_version: int
    remaining_item_count: int
    def __init__(self, items: _Optional[_Iterable[_Union[Object, _Mapping]]] = ..., resource_version: _Optional[int] = ..., remaining_item_count: _Optional[int] = ..., **kwargs) -> None: ...

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
    object: Object
    def __init__(self, type: _Optional[_Union[EventType, str]] = ..., object: _Optional[_Union[Object, _Mapping]] = ...) -> None: ...

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
    object: Object
    fence: Fence
    dry_run: bool
    def __init__(self, object: _Optional[_Union[Object, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("namespace", "name", "uid", "node_name", "revision")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    node_name: str
    revision: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., node_name: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

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
