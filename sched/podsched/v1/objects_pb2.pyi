import datetime

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORMAT_UNSPECIFIED: _ClassVar[Format]
    FORMAT_QUANTITY: _ClassVar[Format]
    FORMAT_INT_OR_STRING: _ClassVar[Format]
FORMAT_UNSPECIFIED: Format
FORMAT_QUANTITY: Format
FORMAT_INT_OR_STRING: Format
FORMAT_FIELD_NUMBER: _ClassVar[int]
format: _descriptor.FieldDescriptor
ALWAYS_FIELD_NUMBER: _ClassVar[int]
always: _descriptor.FieldDescriptor

class RawJSON(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class OwnerReference(_message.Message):
    __slots__ = ("api_version", "kind", "name", "uid", "controller", "block_owner_deletion")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BLOCK_OWNER_DELETION_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool
    block_owner_deletion: bool
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., controller: _Optional[bool] = ..., block_owner_deletion: _Optional[bool] = ...) -> None: ...

class ObjectMeta(_message.Message):
    __slots__ = ("name", "namespace", "uid", "resource_version", "generation", "creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds", "labels", "annotations", "owner_references", "finalizers", "generate_name", "self_link", "managed_fields")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DELETION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DELETION_GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    FINALIZERS_FIELD_NUMBER: _ClassVar[int]
    GENERATE_NAME_FIELD_NUMBER: _ClassVar[int]
    SELF_LINK_FIELD_NUMBER: _ClassVar[int]
    MANAGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    creation_timestamp: _timestamp_pb2.Timestamp
    deletion_timestamp: _timestamp_pb2.Timestamp
    deletion_grace_period_seconds: int
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    owner_references: _containers.RepeatedCompositeFieldContainer[OwnerReference]
    finalizers: _containers.RepeatedScalarFieldContainer[str]
    generate_name: str
    self_link: str
    managed_fields: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., uid: _Optional[str] = ..., resource_version: _Optional[str] = ..., generation: _Optional[int] = ..., creation_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deletion_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deletion_grace_period_seconds: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., owner_references: _Optional[_Iterable[_Union[OwnerReference, _Mapping]]] = ..., finalizers: _Optional[_Iterable[str]] = ..., generate_name: _Optional[str] = ..., self_link: _Optional[str] = ..., managed_fields: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ...) -> None: ...

class LabelSelectorRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class LabelSelector(_message.Message):
    __slots__ = ("match_labels", "match_expressions")
    class MatchLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MATCH_LABELS_FIELD_NUMBER: _ClassVar[int]
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    match_labels: _containers.ScalarMap[str, str]
    match_expressions: _containers.RepeatedCompositeFieldContainer[LabelSelectorRequirement]
    def __init__(self, match_labels: _Optional[_Mapping[str, str]] = ..., match_expressions: _Optional[_Iterable[_Union[LabelSelectorRequirement, _Mapping]]] = ...) -> None: ...

class ObjectReference(_message.Message):
    __slots__ = ("kind", "namespace", "name", "uid", "api_version", "resource_version", "field_path")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    FIELD_PATH_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    resource_version: str
    field_path: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., api_version: _Optional[str] = ..., resource_version: _Optional[str] = ..., field_path: _Optional[str] = ...) -> None: ...

class LocalObjectReference(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TypedLocalObjectReference(_message.Message):
    __slots__ = ("api_group", "kind", "name", "namespace")
    API_GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    api_group: str
    kind: str
    name: str
    namespace: str
    def __init__(self, api_group: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("type", "status", "observed_generation", "last_transition_time", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    observed_generation: int
    last_transition_time: _timestamp_pb2.Timestamp
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., observed_generation: _Optional[int] = ..., last_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class NodeSelectorRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeSelectorTerm(_message.Message):
    __slots__ = ("match_expressions", "match_fields")
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELDS_FIELD_NUMBER: _ClassVar[int]
    match_expressions: _containers.RepeatedCompositeFieldContainer[NodeSelectorRequirement]
    match_fields: _containers.RepeatedCompositeFieldContainer[NodeSelectorRequirement]
    def __init__(self, match_expressions: _Optional[_Iterable[_Union[NodeSelectorRequirement, _Mapping]]] = ..., match_fields: _Optional[_Iterable[_Union[NodeSelectorRequirement, _Mapping]]] = ...) -> None: ...

class NodeSelector(_message.Message):
    __slots__ = ("node_selector_terms",)
    NODE_SELECTOR_TERMS_FIELD_NUMBER: _ClassVar[int]
    node_selector_terms: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    def __init__(self, node_selector_terms: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ...) -> None: ...

class PreferredSchedulingTerm(_message.Message):
    __slots__ = ("weight", "preference")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    weight: int
    preference: NodeSelectorTerm
    def __init__(self, weight: _Optional[int] = ..., preference: _Optional[_Union[NodeSelectorTerm, _Mapping]] = ...) -> None: ...

class NodeAffinity(_message.Message):
    __slots__ = ("required_during_scheduling_ignored_during_execution", "preferred_during_scheduling_ignored_during_execution")
    REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    required_during_scheduling_ignored_during_execution: NodeSelector
    preferred_during_scheduling_ignored_during_execution: _containers.RepeatedCompositeFieldContainer[PreferredSchedulingTerm]
    def __init__(self, required_during_scheduling_ignored_during_execution: _Optional[_Union[NodeSelector, _Mapping]] = ..., preferred_during_scheduling_ignored_during_execution: _Optional[_Iterable[_Union[PreferredSchedulingTerm, _Mapping]]] = ...) -> None: ...

class PodAffinityTerm(_message.Message):
    __slots__ = ("label_selector", "namespaces", "topology_key", "namespace_selector", "match_label_keys", "mismatch_label_keys")
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MATCH_LABEL_KEYS_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_LABEL_KEYS_FIELD_NUMBER: _ClassVar[int]
    label_selector: LabelSelector
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    topology_key: str
    namespace_selector: LabelSelector
    match_label_keys: _containers.RepeatedScalarFieldContainer[str]
    mismatch_label_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, label_selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., namespaces: _Optional[_Iterable[str]] = ..., topology_key: _Optional[str] = ..., namespace_selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., match_label_keys: _Optional[_Iterable[str]] = ..., mismatch_label_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class WeightedPodAffinityTerm(_message.Message):
    __slots__ = ("weight", "pod_affinity_term")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    POD_AFFINITY_TERM_FIELD_NUMBER: _ClassVar[int]
    weight: int
    pod_affinity_term: PodAffinityTerm
    def __init__(self, weight: _Optional[int] = ..., pod_affinity_term: _Optional[_Union[PodAffinityTerm, _Mapping]] = ...) -> None: ...

class PodAffinity(_message.Message):
    __slots__ = ("required_during_scheduling_ignored_during_execution", "preferred_during_scheduling_ignored_during_execution")
    REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    required_during_scheduling_ignored_during_execution: _containers.RepeatedCompositeFieldContainer[PodAffinityTerm]
    preferred_during_scheduling_ignored_during_execution: _containers.RepeatedCompositeFieldContainer[WeightedPodAffinityTerm]
    def __init__(self, required_during_scheduling_ignored_during_execution: _Optional[_Iterable[_Union[PodAffinityTerm, _Mapping]]] = ..., preferred_during_scheduling_ignored_during_execution: _Optional[_Iterable[_Union[WeightedPodAffinityTerm, _Mapping]]] = ...) -> None: ...

class PodAntiAffinity(_message.Message):
    __slots__ = ("required_during_scheduling_ignored_during_execution", "preferred_during_scheduling_ignored_during_execution")
    REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    required_during_scheduling_ignored_during_execution: _containers.RepeatedCompositeFieldContainer[PodAffinityTerm]
    preferred_during_scheduling_ignored_during_execution: _containers.RepeatedCompositeFieldContainer[WeightedPodAffinityTerm]
    def __init__(self, required_during_scheduling_ignored_during_execution: _Optional[_Iterable[_Union[PodAffinityTerm, _Mapping]]] = ..., preferred_during_scheduling_ignored_during_execution: _Optional[_Iterable[_Union[WeightedPodAffinityTerm, _Mapping]]] = ...) -> None: ...

class Affinity(_message.Message):
    __slots__ = ("node_affinity", "pod_affinity", "pod_anti_affinity")
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    POD_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    POD_ANTI_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    node_affinity: NodeAffinity
    pod_affinity: PodAffinity
    pod_anti_affinity: PodAntiAffinity
    def __init__(self, node_affinity: _Optional[_Union[NodeAffinity, _Mapping]] = ..., pod_affinity: _Optional[_Union[PodAffinity, _Mapping]] = ..., pod_anti_affinity: _Optional[_Union[PodAntiAffinity, _Mapping]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect", "time_added")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    TIME_ADDED_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    time_added: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ..., time_added: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "operator", "value", "effect", "toleration_seconds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    TOLERATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ..., toleration_seconds: _Optional[int] = ...) -> None: ...

class TopologySpreadConstraint(_message.Message):
    __slots__ = ("max_skew", "topology_key", "when_unsatisfiable", "label_selector", "min_domains", "node_affinity_policy", "node_taints_policy", "match_label_keys")
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    WHEN_UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MIN_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    NODE_AFFINITY_POLICY_FIELD_NUMBER: _ClassVar[int]
    NODE_TAINTS_POLICY_FIELD_NUMBER: _ClassVar[int]
    MATCH_LABEL_KEYS_FIELD_NUMBER: _ClassVar[int]
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector
    min_domains: int
    node_affinity_policy: str
    node_taints_policy: str
    match_label_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, max_skew: _Optional[int] = ..., topology_key: _Optional[str] = ..., when_unsatisfiable: _Optional[str] = ..., label_selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., min_domains: _Optional[int] = ..., node_affinity_policy: _Optional[str] = ..., node_taints_policy: _Optional[str] = ..., match_label_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class ResourceClaimRef(_message.Message):
    __slots__ = ("name", "request")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    request: str
    def __init__(self, name: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class ResourceRequirements(_message.Message):
    __slots__ = ("limits", "requests", "claims")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RequestsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.ScalarMap[str, str]
    requests: _containers.ScalarMap[str, str]
    claims: _containers.RepeatedCompositeFieldContainer[ResourceClaimRef]
    def __init__(self, limits: _Optional[_Mapping[str, str]] = ..., requests: _Optional[_Mapping[str, str]] = ..., claims: _Optional[_Iterable[_Union[ResourceClaimRef, _Mapping]]] = ...) -> None: ...

class ContainerPort(_message.Message):
    __slots__ = ("name", "host_port", "container_port", "protocol", "host_ip")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_PORT_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    HOST_IP_FIELD_NUMBER: _ClassVar[int]
    name: str
    host_port: int
    container_port: int
    protocol: str
    host_ip: str
    def __init__(self, name: _Optional[str] = ..., host_port: _Optional[int] = ..., container_port: _Optional[int] = ..., protocol: _Optional[str] = ..., host_ip: _Optional[str] = ...) -> None: ...

class EnvVar(_message.Message):
    __slots__ = ("name", "value", "value_from")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FROM_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    value_from: _struct_pb2.Struct
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., value_from: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class VolumeMount(_message.Message):
    __slots__ = ("name", "read_only", "mount_path", "sub_path", "mount_propagation", "sub_path_expr", "recursive_read_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    MOUNT_PATH_FIELD_NUMBER: _ClassVar[int]
    SUB_PATH_FIELD_NUMBER: _ClassVar[int]
    MOUNT_PROPAGATION_FIELD_NUMBER: _ClassVar[int]
    SUB_PATH_EXPR_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    read_only: bool
    mount_path: str
    sub_path: str
    mount_propagation: str
    sub_path_expr: str
    recursive_read_only: str
    def __init__(self, name: _Optional[str] = ..., read_only: _Optional[bool] = ..., mount_path: _Optional[str] = ..., sub_path: _Optional[str] = ..., mount_propagation: _Optional[str] = ..., sub_path_expr: _Optional[str] = ..., recursive_read_only: _Optional[str] = ...) -> None: ...

class VolumeDevice(_message.Message):
    __slots__ = ("name", "device_path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    device_path: str
    def __init__(self, name: _Optional[str] = ..., device_path: _Optional[str] = ...) -> None: ...

class ContainerResizePolicy(_message.Message):
    __slots__ = ("resource_name", "restart_policy")
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
    resource_name: str
    restart_policy: str
    def __init__(self, resource_name: _Optional[str] = ..., restart_policy: _Optional[str] = ...) -> None: ...

class ContainerRestartRuleOnExitCodes(_message.Message):
    __slots__ = ("operator", "values")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    operator: str
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, operator: _Optional[str] = ..., values: _Optional[_Iterable[int]] = ...) -> None: ...

class ContainerRestartRule(_message.Message):
    __slots__ = ("action", "exit_codes")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODES_FIELD_NUMBER: _ClassVar[int]
    action: str
    exit_codes: ContainerRestartRuleOnExitCodes
    def __init__(self, action: _Optional[str] = ..., exit_codes: _Optional[_Union[ContainerRestartRuleOnExitCodes, _Mapping]] = ...) -> None: ...

class Container(_message.Message):
    __slots__ = ("name", "image", "resources", "ports", "restart_policy", "env", "command", "args", "volume_mounts", "image_pull_policy", "termination_message_path", "termination_message_policy", "env_from", "working_dir", "volume_devices", "liveness_probe", "readiness_probe", "startup_probe", "lifecycle", "security_context", "resize_policy", "restart_policy_rules", "stdin", "stdin_once", "tty", "target_container_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    VOLUME_MOUNTS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_PULL_POLICY_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_MESSAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_MESSAGE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ENV_FROM_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    VOLUME_DEVICES_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    READINESS_PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PROBE_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    SECURITY_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_POLICY_FIELD_NUMBER: _ClassVar[int]
    RESTART_POLICY_RULES_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDIN_ONCE_FIELD_NUMBER: _ClassVar[int]
    TTY_FIELD_NUMBER: _ClassVar[int]
    TARGET_CONTAINER_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    image: str
    resources: ResourceRequirements
    ports: _containers.RepeatedCompositeFieldContainer[ContainerPort]
    restart_policy: str
    env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    command: _containers.RepeatedScalarFieldContainer[str]
    args: _containers.RepeatedScalarFieldContainer[str]
    volume_mounts: _containers.RepeatedCompositeFieldContainer[VolumeMount]
    image_pull_policy: str
    termination_message_path: str
    termination_message_policy: str
    env_from: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    working_dir: str
    volume_devices: _containers.RepeatedCompositeFieldContainer[VolumeDevice]
    liveness_probe: _struct_pb2.Struct
    readiness_probe: _struct_pb2.Struct
    startup_probe: _struct_pb2.Struct
    lifecycle: _struct_pb2.Struct
    security_context: _struct_pb2.Struct
    resize_policy: _containers.RepeatedCompositeFieldContainer[ContainerResizePolicy]
    restart_policy_rules: _containers.RepeatedCompositeFieldContainer[ContainerRestartRule]
    stdin: bool
    stdin_once: bool
    tty: bool
    target_container_name: str
    def __init__(self, name: _Optional[str] = ..., image: _Optional[str] = ..., resources: _Optional[_Union[ResourceRequirements, _Mapping]] = ..., ports: _Optional[_Iterable[_Union[ContainerPort, _Mapping]]] = ..., restart_policy: _Optional[str] = ..., env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., command: _Optional[_Iterable[str]] = ..., args: _Optional[_Iterable[str]] = ..., volume_mounts: _Optional[_Iterable[_Union[VolumeMount, _Mapping]]] = ..., image_pull_policy: _Optional[str] = ..., termination_message_path: _Optional[str] = ..., termination_message_policy: _Optional[str] = ..., env_from: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., working_dir: _Optional[str] = ..., volume_devices: _Optional[_Iterable[_Union[VolumeDevice, _Mapping]]] = ..., liveness_probe: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., readiness_probe: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., startup_probe: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., lifecycle: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., security_context: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., resize_policy: _Optional[_Iterable[_Union[ContainerResizePolicy, _Mapping]]] = ..., restart_policy_rules: _Optional[_Iterable[_Union[ContainerRestartRule, _Mapping]]] = ..., stdin: _Optional[bool] = ..., stdin_once: _Optional[bool] = ..., tty: _Optional[bool] = ..., target_container_name: _Optional[str] = ...) -> None: ...

class PersistentVolumeClaimVolumeSource(_message.Message):
    __slots__ = ("claim_name", "read_only")
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    claim_name: str
    read_only: bool
    def __init__(self, claim_name: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class PersistentVolumeClaimTemplate(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PersistentVolumeClaimSpec, _Mapping]] = ...) -> None: ...

class EphemeralVolumeSource(_message.Message):
    __slots__ = ("volume_claim_template",)
    VOLUME_CLAIM_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    volume_claim_template: PersistentVolumeClaimTemplate
    def __init__(self, volume_claim_template: _Optional[_Union[PersistentVolumeClaimTemplate, _Mapping]] = ...) -> None: ...

class GCEPersistentDiskVolumeSource(_message.Message):
    __slots__ = ("pd_name", "fs_type", "partition", "read_only")
    PD_NAME_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    pd_name: str
    fs_type: str
    partition: int
    read_only: bool
    def __init__(self, pd_name: _Optional[str] = ..., fs_type: _Optional[str] = ..., partition: _Optional[int] = ..., read_only: _Optional[bool] = ...) -> None: ...

class AWSElasticBlockStoreVolumeSource(_message.Message):
    __slots__ = ("volume_id", "fs_type", "partition", "read_only")
    VOLUME_ID_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    volume_id: str
    fs_type: str
    partition: int
    read_only: bool
    def __init__(self, volume_id: _Optional[str] = ..., fs_type: _Optional[str] = ..., partition: _Optional[int] = ..., read_only: _Optional[bool] = ...) -> None: ...

class ISCSIVolumeSource(_message.Message):
    __slots__ = ("target_portal", "iqn", "lun", "iscsi_interface", "fs_type", "read_only", "portals", "chap_auth_discovery", "chap_auth_session", "secret_ref", "initiator_name")
    TARGET_PORTAL_FIELD_NUMBER: _ClassVar[int]
    IQN_FIELD_NUMBER: _ClassVar[int]
    LUN_FIELD_NUMBER: _ClassVar[int]
    ISCSI_INTERFACE_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    PORTALS_FIELD_NUMBER: _ClassVar[int]
    CHAP_AUTH_DISCOVERY_FIELD_NUMBER: _ClassVar[int]
    CHAP_AUTH_SESSION_FIELD_NUMBER: _ClassVar[int]
    SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    INITIATOR_NAME_FIELD_NUMBER: _ClassVar[int]
    target_portal: str
    iqn: str
    lun: int
    iscsi_interface: str
    fs_type: str
    read_only: bool
    portals: _containers.RepeatedScalarFieldContainer[str]
    chap_auth_discovery: bool
    chap_auth_session: bool
    secret_ref: _struct_pb2.Struct
    initiator_name: str
    def __init__(self, target_portal: _Optional[str] = ..., iqn: _Optional[str] = ..., lun: _Optional[int] = ..., iscsi_interface: _Optional[str] = ..., fs_type: _Optional[str] = ..., read_only: _Optional[bool] = ..., portals: _Optional[_Iterable[str]] = ..., chap_auth_discovery: _Optional[bool] = ..., chap_auth_session: _Optional[bool] = ..., secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., initiator_name: _Optional[str] = ...) -> None: ...

class RBDVolumeSource(_message.Message):
    __slots__ = ("monitors", "image", "fs_type", "pool", "user", "keyring", "secret_ref", "read_only")
    MONITORS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    KEYRING_FIELD_NUMBER: _ClassVar[int]
    SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    monitors: _containers.RepeatedScalarFieldContainer[str]
    image: str
    fs_type: str
    pool: str
    user: str
    keyring: str
    secret_ref: _struct_pb2.Struct
    read_only: bool
    def __init__(self, monitors: _Optional[_Iterable[str]] = ..., image: _Optional[str] = ..., fs_type: _Optional[str] = ..., pool: _Optional[str] = ..., user: _Optional[str] = ..., keyring: _Optional[str] = ..., secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., read_only: _Optional[bool] = ...) -> None: ...

class CSIVolumeSource(_message.Message):
    __slots__ = ("driver", "volume_handle", "read_only", "fs_type", "volume_attributes", "controller_publish_secret_ref", "node_stage_secret_ref", "node_publish_secret_ref", "controller_expand_secret_ref", "node_expand_secret_ref")
    class VolumeAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    VOLUME_HANDLE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_PUBLISH_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    NODE_STAGE_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    NODE_PUBLISH_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EXPAND_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    NODE_EXPAND_SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    driver: str
    volume_handle: str
    read_only: bool
    fs_type: str
    volume_attributes: _containers.ScalarMap[str, str]
    controller_publish_secret_ref: _struct_pb2.Struct
    node_stage_secret_ref: _struct_pb2.Struct
    node_publish_secret_ref: _struct_pb2.Struct
    controller_expand_secret_ref: _struct_pb2.Struct
    node_expand_secret_ref: _struct_pb2.Struct
    def __init__(self, driver: _Optional[str] = ..., volume_handle: _Optional[str] = ..., read_only: _Optional[bool] = ..., fs_type: _Optional[str] = ..., volume_attributes: _Optional[_Mapping[str, str]] = ..., controller_publish_secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., node_stage_secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., node_publish_secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., controller_expand_secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., node_expand_secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class AzureDiskVolumeSource(_message.Message):
    __slots__ = ("disk_name", "disk_uri", "caching_mode", "fs_type", "read_only", "kind")
    DISK_NAME_FIELD_NUMBER: _ClassVar[int]
    DISK_URI_FIELD_NUMBER: _ClassVar[int]
    CACHING_MODE_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    disk_name: str
    disk_uri: str
    caching_mode: str
    fs_type: str
    read_only: bool
    kind: str
    def __init__(self, disk_name: _Optional[str] = ..., disk_uri: _Optional[str] = ..., caching_mode: _Optional[str] = ..., fs_type: _Optional[str] = ..., read_only: _Optional[bool] = ..., kind: _Optional[str] = ...) -> None: ...

class AzureFileVolumeSource(_message.Message):
    __slots__ = ("secret_name", "share_name", "read_only", "secret_namespace")
    SECRET_NAME_FIELD_NUMBER: _ClassVar[int]
    SHARE_NAME_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    SECRET_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    secret_name: str
    share_name: str
    read_only: bool
    secret_namespace: str
    def __init__(self, secret_name: _Optional[str] = ..., share_name: _Optional[str] = ..., read_only: _Optional[bool] = ..., secret_namespace: _Optional[str] = ...) -> None: ...

class CinderVolumeSource(_message.Message):
    __slots__ = ("volume_id", "fs_type", "read_only", "secret_ref")
    VOLUME_ID_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    volume_id: str
    fs_type: str
    read_only: bool
    secret_ref: _struct_pb2.Struct
    def __init__(self, volume_id: _Optional[str] = ..., fs_type: _Optional[str] = ..., read_only: _Optional[bool] = ..., secret_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class VsphereVirtualDiskVolumeSource(_message.Message):
    __slots__ = ("volume_path", "fs_type", "storage_policy_name", "storage_policy_id")
    VOLUME_PATH_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    STORAGE_POLICY_NAME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_POLICY_ID_FIELD_NUMBER: _ClassVar[int]
    volume_path: str
    fs_type: str
    storage_policy_name: str
    storage_policy_id: str
    def __init__(self, volume_path: _Optional[str] = ..., fs_type: _Optional[str] = ..., storage_policy_name: _Optional[str] = ..., storage_policy_id: _Optional[str] = ...) -> None: ...

class PortworxVolumeSource(_message.Message):
    __slots__ = ("volume_id", "fs_type", "read_only")
    VOLUME_ID_FIELD_NUMBER: _ClassVar[int]
    FS_TYPE_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    volume_id: str
    fs_type: str
    read_only: bool
    def __init__(self, volume_id: _Optional[str] = ..., fs_type: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class ImageVolumeSource(_message.Message):
    __slots__ = ("reference", "pull_policy")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PULL_POLICY_FIELD_NUMBER: _ClassVar[int]
    reference: str
    pull_policy: str
    def __init__(self, reference: _Optional[str] = ..., pull_policy: _Optional[str] = ...) -> None: ...

class Volume(_message.Message):
    __slots__ = ("name", "persistent_volume_claim", "ephemeral", "gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd", "csi", "azure_disk", "azure_file", "cinder", "vsphere_volume", "portworx_volume", "image", "empty_dir", "config_map", "secret", "projected", "host_path", "downward_api", "nfs", "fc", "glusterfs", "cephfs", "flex_volume", "flocker", "git_repo", "quobyte", "photon_persistent_disk", "scale_io", "storageos")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_CLAIM_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    GCE_PERSISTENT_DISK_FIELD_NUMBER: _ClassVar[int]
    AWS_ELASTIC_BLOCK_STORE_FIELD_NUMBER: _ClassVar[int]
    ISCSI_FIELD_NUMBER: _ClassVar[int]
    RBD_FIELD_NUMBER: _ClassVar[int]
    CSI_FIELD_NUMBER: _ClassVar[int]
    AZURE_DISK_FIELD_NUMBER: _ClassVar[int]
    AZURE_FILE_FIELD_NUMBER: _ClassVar[int]
    CINDER_FIELD_NUMBER: _ClassVar[int]
    VSPHERE_VOLUME_FIELD_NUMBER: _ClassVar[int]
    PORTWORX_VOLUME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    EMPTY_DIR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_MAP_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    PROJECTED_FIELD_NUMBER: _ClassVar[int]
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    DOWNWARD_API_FIELD_NUMBER: _ClassVar[int]
    NFS_FIELD_NUMBER: _ClassVar[int]
    FC_FIELD_NUMBER: _ClassVar[int]
    GLUSTERFS_FIELD_NUMBER: _ClassVar[int]
    CEPHFS_FIELD_NUMBER: _ClassVar[int]
    FLEX_VOLUME_FIELD_NUMBER: _ClassVar[int]
    FLOCKER_FIELD_NUMBER: _ClassVar[int]
    GIT_REPO_FIELD_NUMBER: _ClassVar[int]
    QUOBYTE_FIELD_NUMBER: _ClassVar[int]
    PHOTON_PERSISTENT_DISK_FIELD_NUMBER: _ClassVar[int]
    SCALE_IO_FIELD_NUMBER: _ClassVar[int]
    STORAGEOS_FIELD_NUMBER: _ClassVar[int]
    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource
    ephemeral: EphemeralVolumeSource
    gce_persistent_disk: GCEPersistentDiskVolumeSource
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource
    iscsi: ISCSIVolumeSource
    rbd: RBDVolumeSource
    csi: CSIVolumeSource
    azure_disk: AzureDiskVolumeSource
    azure_file: AzureFileVolumeSource
    cinder: CinderVolumeSource
    vsphere_volume: VsphereVirtualDiskVolumeSource
    portworx_volume: PortworxVolumeSource
    image: ImageVolumeSource
    empty_dir: _struct_pb2.Struct
    config_map: _struct_pb2.Struct
    secret: _struct_pb2.Struct
    projected: _struct_pb2.Struct
    host_path: _struct_pb2.Struct
    downward_api: _struct_pb2.Struct
    nfs: _struct_pb2.Struct
    fc: _struct_pb2.Struct
    glusterfs: _struct_pb2.Struct
    cephfs: _struct_pb2.Struct
    flex_volume: _struct_pb2.Struct
    flocker: _struct_pb2.Struct
    git_repo: _struct_pb2.Struct
    quobyte: _struct_pb2.Struct
    photon_persistent_disk: _struct_pb2.Struct
    scale_io: _struct_pb2.Struct
    storageos: _struct_pb2.Struct
    def __init__(self, name: _Optional[str] = ..., persistent_volume_claim: _Optional[_Union[PersistentVolumeClaimVolumeSource, _Mapping]] = ..., ephemeral: _Optional[_Union[EphemeralVolumeSource, _Mapping]] = ..., gce_persistent_disk: _Optional[_Union[GCEPersistentDiskVolumeSource, _Mapping]] = ..., aws_elastic_block_store: _Optional[_Union[AWSElasticBlockStoreVolumeSource, _Mapping]] = ..., iscsi: _Optional[_Union[ISCSIVolumeSource, _Mapping]] = ..., rbd: _Optional[_Union[RBDVolumeSource, _Mapping]] = ..., csi: _Optional[_Union[CSIVolumeSource, _Mapping]] = ..., azure_disk: _Optional[_Union[AzureDiskVolumeSource, _Mapping]] = ..., azure_file: _Optional[_Union[AzureFileVolumeSource, _Mapping]] = ..., cinder: _Optional[_Union[CinderVolumeSource, _Mapping]] = ..., vsphere_volume: _Optional[_Union[VsphereVirtualDiskVolumeSource, _Mapping]] = ..., portworx_volume: _Optional[_Union[PortworxVolumeSource, _Mapping]] = ..., image: _Optional[_Union[ImageVolumeSource, _Mapping]] = ..., empty_dir: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., config_map: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., secret: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., projected: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., host_path: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., downward_api: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., nfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., fc: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., glusterfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., cephfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., flex_volume: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., flocker: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., git_repo: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., quobyte: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., photon_persistent_disk: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., scale_io: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., storageos: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class PodSchedulingGate(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PodReadinessGate(_message.Message):
    __slots__ = ("condition_type",)
    CONDITION_TYPE_FIELD_NUMBER: _ClassVar[int]
    condition_type: str
    def __init__(self, condition_type: _Optional[str] = ...) -> None: ...

class PodSchedulingGroup(_message.Message):
    __slots__ = ("pod_group_name",)
    POD_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    pod_group_name: str
    def __init__(self, pod_group_name: _Optional[str] = ...) -> None: ...

class PodResourceClaim(_message.Message):
    __slots__ = ("name", "resource_claim_name", "resource_claim_template_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    resource_claim_name: str
    resource_claim_template_name: str
    def __init__(self, name: _Optional[str] = ..., resource_claim_name: _Optional[str] = ..., resource_claim_template_name: _Optional[str] = ...) -> None: ...

class PodOS(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PodSpec(_message.Message):
    __slots__ = ("containers", "node_name", "priority", "priority_class_name", "preemption_policy", "scheduler_name", "node_selector", "affinity", "tolerations", "topology_spread_constraints", "scheduling_gates", "init_containers", "volumes", "overhead", "termination_grace_period_seconds", "resources", "host_network", "restart_policy", "dns_policy", "ephemeral_containers", "active_deadline_seconds", "runtime_class_name", "scheduling_group", "resource_claims", "service_account_name", "service_account", "automount_service_account_token", "host_pid", "host_ipc", "share_process_namespace", "security_context", "image_pull_secrets", "hostname", "subdomain", "host_aliases", "dns_config", "readiness_gates", "enable_service_links", "set_hostname_as_fqdn", "os", "host_users", "hostname_override", "workload_ref")
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class OverheadEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_SPREAD_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_GATES_FIELD_NUMBER: _ClassVar[int]
    INIT_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    HOST_NETWORK_FIELD_NUMBER: _ClassVar[int]
    RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
    DNS_POLICY_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_GROUP_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_NAME_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    AUTOMOUNT_SERVICE_ACCOUNT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOST_PID_FIELD_NUMBER: _ClassVar[int]
    HOST_IPC_FIELD_NUMBER: _ClassVar[int]
    SHARE_PROCESS_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SECURITY_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_PULL_SECRETS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    SUBDOMAIN_FIELD_NUMBER: _ClassVar[int]
    HOST_ALIASES_FIELD_NUMBER: _ClassVar[int]
    DNS_CONFIG_FIELD_NUMBER: _ClassVar[int]
    READINESS_GATES_FIELD_NUMBER: _ClassVar[int]
    ENABLE_SERVICE_LINKS_FIELD_NUMBER: _ClassVar[int]
    SET_HOSTNAME_AS_FQDN_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    HOST_USERS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_REF_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[Container]
    node_name: str
    priority: int
    priority_class_name: str
    preemption_policy: str
    scheduler_name: str
    node_selector: _containers.ScalarMap[str, str]
    affinity: Affinity
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    topology_spread_constraints: _containers.RepeatedCompositeFieldContainer[TopologySpreadConstraint]
    scheduling_gates: _containers.RepeatedCompositeFieldContainer[PodSchedulingGate]
    init_containers: _containers.RepeatedCompositeFieldContainer[Container]
    volumes: _containers.RepeatedCompositeFieldContainer[Volume]
    overhead: _containers.ScalarMap[str, str]
    termination_grace_period_seconds: int
    resources: ResourceRequirements
    host_network: bool
    restart_policy: str
    dns_policy: str
    ephemeral_containers: _containers.RepeatedCompositeFieldContainer[Container]
    active_deadline_seconds: int
    runtime_class_name: str
    scheduling_group: PodSchedulingGroup
    resource_claims: _containers.RepeatedCompositeFieldContainer[PodResourceClaim]
    service_account_name: str
    service_account: str
    automount_service_account_token: bool
    host_pid: bool
    host_ipc: bool
    share_process_namespace: bool
    security_context: _struct_pb2.Struct
    image_pull_secrets: _containers.RepeatedCompositeFieldContainer[LocalObjectReference]
    hostname: str
    subdomain: str
    host_aliases: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    dns_config: _struct_pb2.Struct
    readiness_gates: _containers.RepeatedCompositeFieldContainer[PodReadinessGate]
    enable_service_links: bool
    set_hostname_as_fqdn: bool
    os: PodOS
    host_users: bool
    hostname_override: str
    workload_ref: _struct_pb2.Struct
    def __init__(self, containers: _Optional[_Iterable[_Union[Container, _Mapping]]] = ..., node_name: _Optional[str] = ..., priority: _Optional[int] = ..., priority_class_name: _Optional[str] = ..., preemption_policy: _Optional[str] = ..., scheduler_name: _Optional[str] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., topology_spread_constraints: _Optional[_Iterable[_Union[TopologySpreadConstraint, _Mapping]]] = ..., scheduling_gates: _Optional[_Iterable[_Union[PodSchedulingGate, _Mapping]]] = ..., init_containers: _Optional[_Iterable[_Union[Container, _Mapping]]] = ..., volumes: _Optional[_Iterable[_Union[Volume, _Mapping]]] = ..., overhead: _Optional[_Mapping[str, str]] = ..., termination_grace_period_seconds: _Optional[int] = ..., resources: _Optional[_Union[ResourceRequirements, _Mapping]] = ..., host_network: _Optional[bool] = ..., restart_policy: _Optional[str] = ..., dns_policy: _Optional[str] = ..., ephemeral_containers: _Optional[_Iterable[_Union[Container, _Mapping]]] = ..., active_deadline_seconds: _Optional[int] = ..., runtime_class_name: _Optional[str] = ..., scheduling_group: _Optional[_Union[PodSchedulingGroup, _Mapping]] = ..., resource_claims: _Optional[_Iterable[_Union[PodResourceClaim, _Mapping]]] = ..., service_account_name: _Optional[str] = ..., service_account: _Optional[str] = ..., automount_service_account_token: _Optional[bool] = ..., host_pid: _Optional[bool] = ..., host_ipc: _Optional[bool] = ..., share_process_namespace: _Optional[bool] = ..., security_context: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., image_pull_secrets: _Optional[_Iterable[_Union[LocalObjectReference, _Mapping]]] = ..., hostname: _Optional[str] = ..., subdomain: _Optional[str] = ..., host_aliases: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., dns_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., readiness_gates: _Optional[_Iterable[_Union[PodReadinessGate, _Mapping]]] = ..., enable_service_links: _Optional[bool] = ..., set_hostname_as_fqdn: _Optional[bool] = ..., os: _Optional[_Union[PodOS, _Mapping]] = ..., host_users: _Optional[bool] = ..., hostname_override: _Optional[str] = ..., workload_ref: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class PodCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message", "last_probe_time", "last_transition_time", "observed_generation")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_PROBE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    last_probe_time: _timestamp_pb2.Timestamp
    last_transition_time: _timestamp_pb2.Timestamp
    observed_generation: int
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., last_probe_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., observed_generation: _Optional[int] = ...) -> None: ...

class ContainerStateWaiting(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ContainerStateRunning(_message.Message):
    __slots__ = ("started_at",)
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    started_at: _timestamp_pb2.Timestamp
    def __init__(self, started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ContainerStateTerminated(_message.Message):
    __slots__ = ("exit_code", "signal", "reason", "message", "started_at", "finished_at", "container_id")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    signal: int
    reason: str
    message: str
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    container_id: str
    def __init__(self, exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., container_id: _Optional[str] = ...) -> None: ...

class ContainerState(_message.Message):
    __slots__ = ("waiting", "running", "terminated")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    waiting: ContainerStateWaiting
    running: ContainerStateRunning
    terminated: ContainerStateTerminated
    def __init__(self, waiting: _Optional[_Union[ContainerStateWaiting, _Mapping]] = ..., running: _Optional[_Union[ContainerStateRunning, _Mapping]] = ..., terminated: _Optional[_Union[ContainerStateTerminated, _Mapping]] = ...) -> None: ...

class ContainerStatus(_message.Message):
    __slots__ = ("name", "state", "last_state", "ready", "restart_count", "image", "image_id", "container_id", "started", "allocated_resources", "resources", "volume_mounts", "user", "allocated_resources_status", "stop_signal")
    class AllocatedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAST_STATE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    VOLUME_MOUNTS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_RESOURCES_STATUS_FIELD_NUMBER: _ClassVar[int]
    STOP_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: ContainerState
    last_state: ContainerState
    ready: bool
    restart_count: int
    image: str
    image_id: str
    container_id: str
    started: bool
    allocated_resources: _containers.ScalarMap[str, str]
    resources: ResourceRequirements
    volume_mounts: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    user: _struct_pb2.Struct
    allocated_resources_status: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    stop_signal: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[ContainerState, _Mapping]] = ..., last_state: _Optional[_Union[ContainerState, _Mapping]] = ..., ready: _Optional[bool] = ..., restart_count: _Optional[int] = ..., image: _Optional[str] = ..., image_id: _Optional[str] = ..., container_id: _Optional[str] = ..., started: _Optional[bool] = ..., allocated_resources: _Optional[_Mapping[str, str]] = ..., resources: _Optional[_Union[ResourceRequirements, _Mapping]] = ..., volume_mounts: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., user: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., allocated_resources_status: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., stop_signal: _Optional[str] = ...) -> None: ...

class PodIP(_message.Message):
    __slots__ = ("ip",)
    IP_FIELD_NUMBER: _ClassVar[int]
    ip: str
    def __init__(self, ip: _Optional[str] = ...) -> None: ...

class PodResourceClaimStatus(_message.Message):
    __slots__ = ("name", "resource_claim_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    resource_claim_name: str
    def __init__(self, name: _Optional[str] = ..., resource_claim_name: _Optional[str] = ...) -> None: ...

class ContainerExtendedResourceRequest(_message.Message):
    __slots__ = ("container_name", "resource_name", "request_name")
    CONTAINER_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_NAME_FIELD_NUMBER: _ClassVar[int]
    container_name: str
    resource_name: str
    request_name: str
    def __init__(self, container_name: _Optional[str] = ..., resource_name: _Optional[str] = ..., request_name: _Optional[str] = ...) -> None: ...

class PodExtendedResourceClaimStatus(_message.Message):
    __slots__ = ("request_mappings", "resource_claim_name")
    REQUEST_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    request_mappings: _containers.RepeatedCompositeFieldContainer[ContainerExtendedResourceRequest]
    resource_claim_name: str
    def __init__(self, request_mappings: _Optional[_Iterable[_Union[ContainerExtendedResourceRequest, _Mapping]]] = ..., resource_claim_name: _Optional[str] = ...) -> None: ...

class PodStatus(_message.Message):
    __slots__ = ("phase", "conditions", "nominated_node_name", "start_time", "message", "reason", "container_statuses", "init_container_statuses", "ephemeral_container_statuses", "host_ip", "pod_ip", "host_ips", "pod_ips", "qos_class", "resize", "allocated_resources", "resources", "resource_claim_statuses", "observed_generation", "extended_resource_claim_status")
    class AllocatedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    NOMINATED_NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STATUSES_FIELD_NUMBER: _ClassVar[int]
    INIT_CONTAINER_STATUSES_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_CONTAINER_STATUSES_FIELD_NUMBER: _ClassVar[int]
    HOST_IP_FIELD_NUMBER: _ClassVar[int]
    POD_IP_FIELD_NUMBER: _ClassVar[int]
    HOST_IPS_FIELD_NUMBER: _ClassVar[int]
    POD_IPS_FIELD_NUMBER: _ClassVar[int]
    QOS_CLASS_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_STATUSES_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_RESOURCE_CLAIM_STATUS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    conditions: _containers.RepeatedCompositeFieldContainer[PodCondition]
    nominated_node_name: str
    start_time: _timestamp_pb2.Timestamp
    message: str
    reason: str
    container_statuses: _containers.RepeatedCompositeFieldContainer[ContainerStatus]
    init_container_statuses: _containers.RepeatedCompositeFieldContainer[ContainerStatus]
    ephemeral_container_statuses: _containers.RepeatedCompositeFieldContainer[ContainerStatus]
    host_ip: str
    pod_ip: str
    host_ips: _containers.RepeatedCompositeFieldContainer[PodIP]
    pod_ips: _containers.RepeatedCompositeFieldContainer[PodIP]
    qos_class: str
    resize: str
    allocated_resources: _containers.ScalarMap[str, str]
    resources: ResourceRequirements
    resource_claim_statuses: _containers.RepeatedCompositeFieldContainer[PodResourceClaimStatus]
    observed_generation: int
    extended_resource_claim_status: PodExtendedResourceClaimStatus
    def __init__(self, phase: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[PodCondition, _Mapping]]] = ..., nominated_node_name: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., container_statuses: _Optional[_Iterable[_Union[ContainerStatus, _Mapping]]] = ..., init_container_statuses: _Optional[_Iterable[_Union[ContainerStatus, _Mapping]]] = ..., ephemeral_container_statuses: _Optional[_Iterable[_Union[ContainerStatus, _Mapping]]] = ..., host_ip: _Optional[str] = ..., pod_ip: _Optional[str] = ..., host_ips: _Optional[_Iterable[_Union[PodIP, _Mapping]]] = ..., pod_ips: _Optional[_Iterable[_Union[PodIP, _Mapping]]] = ..., qos_class: _Optional[str] = ..., resize: _Optional[str] = ..., allocated_resources: _Optional[_Mapping[str, str]] = ..., resources: _Optional[_Union[ResourceRequirements, _Mapping]] = ..., resource_claim_statuses: _Optional[_Iterable[_Union[PodResourceClaimStatus, _Mapping]]] = ..., observed_generation: _Optional[int] = ..., extended_resource_claim_status: _Optional[_Union[PodExtendedResourceClaimStatus, _Mapping]] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PodSpec, _Mapping]] = ..., status: _Optional[_Union[PodStatus, _Mapping]] = ...) -> None: ...

class PodTemplateSpec(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PodSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PodSpec, _Mapping]] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ("unschedulable", "taints", "pod_cidr", "pod_cidrs", "provider_id", "external_id", "config_source")
    UNSCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    POD_CIDR_FIELD_NUMBER: _ClassVar[int]
    POD_CIDRS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_SOURCE_FIELD_NUMBER: _ClassVar[int]
    unschedulable: bool
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    pod_cidr: str
    pod_cidrs: _containers.RepeatedScalarFieldContainer[str]
    provider_id: str
    external_id: str
    config_source: _struct_pb2.Struct
    def __init__(self, unschedulable: _Optional[bool] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., pod_cidr: _Optional[str] = ..., pod_cidrs: _Optional[_Iterable[str]] = ..., provider_id: _Optional[str] = ..., external_id: _Optional[str] = ..., config_source: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class NodeCondition(_message.Message):
    __slots__ = ("type", "status", "last_heartbeat_time", "last_transition_time", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    last_heartbeat_time: _timestamp_pb2.Timestamp
    last_transition_time: _timestamp_pb2.Timestamp
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., last_heartbeat_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class NodeAddress(_message.Message):
    __slots__ = ("type", "address")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    type: str
    address: str
    def __init__(self, type: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class ContainerImage(_message.Message):
    __slots__ = ("names", "size_bytes")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    size_bytes: int
    def __init__(self, names: _Optional[_Iterable[str]] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class AttachedVolume(_message.Message):
    __slots__ = ("name", "device_path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    device_path: str
    def __init__(self, name: _Optional[str] = ..., device_path: _Optional[str] = ...) -> None: ...

class NodeSystemInfo(_message.Message):
    __slots__ = ("machine_id", "system_uuid", "boot_id", "kernel_version", "os_image", "container_runtime_version", "kubelet_version", "kube_proxy_version", "operating_system", "architecture", "swap")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_UUID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    KERNEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    OS_IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_RUNTIME_VERSION_FIELD_NUMBER: _ClassVar[int]
    KUBELET_VERSION_FIELD_NUMBER: _ClassVar[int]
    KUBE_PROXY_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    SWAP_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    system_uuid: str
    boot_id: str
    kernel_version: str
    os_image: str
    container_runtime_version: str
    kubelet_version: str
    kube_proxy_version: str
    operating_system: str
    architecture: str
    swap: _struct_pb2.Struct
    def __init__(self, machine_id: _Optional[str] = ..., system_uuid: _Optional[str] = ..., boot_id: _Optional[str] = ..., kernel_version: _Optional[str] = ..., os_image: _Optional[str] = ..., container_runtime_version: _Optional[str] = ..., kubelet_version: _Optional[str] = ..., kube_proxy_version: _Optional[str] = ..., operating_system: _Optional[str] = ..., architecture: _Optional[str] = ..., swap: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("capacity", "allocatable", "conditions", "images", "addresses", "node_info", "volumes_in_use", "volumes_attached", "declared_features", "phase", "daemon_endpoints", "config", "runtime_handlers", "features")
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AllocatableEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    NODE_INFO_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_IN_USE_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_ATTACHED_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FEATURES_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DAEMON_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_HANDLERS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    capacity: _containers.ScalarMap[str, str]
    allocatable: _containers.ScalarMap[str, str]
    conditions: _containers.RepeatedCompositeFieldContainer[NodeCondition]
    images: _containers.RepeatedCompositeFieldContainer[ContainerImage]
    addresses: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    node_info: NodeSystemInfo
    volumes_in_use: _containers.RepeatedScalarFieldContainer[str]
    volumes_attached: _containers.RepeatedCompositeFieldContainer[AttachedVolume]
    declared_features: _containers.RepeatedScalarFieldContainer[str]
    phase: str
    daemon_endpoints: _struct_pb2.Struct
    config: _struct_pb2.Struct
    runtime_handlers: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    features: _struct_pb2.Struct
    def __init__(self, capacity: _Optional[_Mapping[str, str]] = ..., allocatable: _Optional[_Mapping[str, str]] = ..., conditions: _Optional[_Iterable[_Union[NodeCondition, _Mapping]]] = ..., images: _Optional[_Iterable[_Union[ContainerImage, _Mapping]]] = ..., addresses: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., node_info: _Optional[_Union[NodeSystemInfo, _Mapping]] = ..., volumes_in_use: _Optional[_Iterable[str]] = ..., volumes_attached: _Optional[_Iterable[_Union[AttachedVolume, _Mapping]]] = ..., declared_features: _Optional[_Iterable[str]] = ..., phase: _Optional[str] = ..., daemon_endpoints: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., runtime_handlers: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., features: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: NodeSpec
    status: NodeStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[NodeSpec, _Mapping]] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ...) -> None: ...

class NamespaceSpec(_message.Message):
    __slots__ = ("finalizers",)
    FINALIZERS_FIELD_NUMBER: _ClassVar[int]
    finalizers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, finalizers: _Optional[_Iterable[str]] = ...) -> None: ...

class NamespaceStatus(_message.Message):
    __slots__ = ("phase", "conditions")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, phase: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: NamespaceSpec
    status: NamespaceStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[NamespaceSpec, _Mapping]] = ..., status: _Optional[_Union[NamespaceStatus, _Mapping]] = ...) -> None: ...

class PriorityClass(_message.Message):
    __slots__ = ("metadata", "value", "global_default", "description", "preemption_policy")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    value: int
    global_default: bool
    description: str
    preemption_policy: str
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., value: _Optional[int] = ..., global_default: _Optional[bool] = ..., description: _Optional[str] = ..., preemption_policy: _Optional[str] = ...) -> None: ...

class PodDisruptionBudgetSpec(_message.Message):
    __slots__ = ("min_available", "selector", "max_unavailable", "unhealthy_pod_eviction_policy")
    MIN_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_POD_EVICTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    min_available: str
    selector: LabelSelector
    max_unavailable: str
    unhealthy_pod_eviction_policy: str
    def __init__(self, min_available: _Optional[str] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., max_unavailable: _Optional[str] = ..., unhealthy_pod_eviction_policy: _Optional[str] = ...) -> None: ...

class PodDisruptionBudgetStatus(_message.Message):
    __slots__ = ("observed_generation", "disrupted_pods", "disruptions_allowed", "current_healthy", "desired_healthy", "expected_pods", "conditions")
    class DisruptedPodsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _timestamp_pb2.Timestamp
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    DISRUPTED_PODS_FIELD_NUMBER: _ClassVar[int]
    DISRUPTIONS_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    CURRENT_HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DESIRED_HEALTHY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_PODS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    observed_generation: int
    disrupted_pods: _containers.MessageMap[str, _timestamp_pb2.Timestamp]
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, observed_generation: _Optional[int] = ..., disrupted_pods: _Optional[_Mapping[str, _timestamp_pb2.Timestamp]] = ..., disruptions_allowed: _Optional[int] = ..., current_healthy: _Optional[int] = ..., desired_healthy: _Optional[int] = ..., expected_pods: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class PodDisruptionBudget(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec
    status: PodDisruptionBudgetStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PodDisruptionBudgetSpec, _Mapping]] = ..., status: _Optional[_Union[PodDisruptionBudgetStatus, _Mapping]] = ...) -> None: ...

class ServicePort(_message.Message):
    __slots__ = ("name", "protocol", "port", "target_port", "node_port", "app_protocol")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TARGET_PORT_FIELD_NUMBER: _ClassVar[int]
    NODE_PORT_FIELD_NUMBER: _ClassVar[int]
    APP_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    protocol: str
    port: int
    target_port: str
    node_port: int
    app_protocol: str
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[str] = ..., port: _Optional[int] = ..., target_port: _Optional[str] = ..., node_port: _Optional[int] = ..., app_protocol: _Optional[str] = ...) -> None: ...

class ServiceSpec(_message.Message):
    __slots__ = ("ports", "selector", "cluster_ip", "type", "cluster_ips", "external_ips", "session_affinity", "load_balancer_ip", "load_balancer_source_ranges", "external_name", "external_traffic_policy", "health_check_node_port", "publish_not_ready_addresses", "session_affinity_config", "ip_families", "ip_family_policy", "allocate_load_balancer_node_ports", "load_balancer_class", "internal_traffic_policy", "traffic_distribution")
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IP_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IPS_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_IPS_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCER_IP_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCER_SOURCE_RANGES_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_NAME_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_NODE_PORT_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_NOT_READY_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IP_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    IP_FAMILY_POLICY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATE_LOAD_BALANCER_NODE_PORTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCER_CLASS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedCompositeFieldContainer[ServicePort]
    selector: _containers.ScalarMap[str, str]
    cluster_ip: str
    type: str
    cluster_ips: _containers.RepeatedScalarFieldContainer[str]
    external_ips: _containers.RepeatedScalarFieldContainer[str]
    session_affinity: str
    load_balancer_ip: str
    load_balancer_source_ranges: _containers.RepeatedScalarFieldContainer[str]
    external_name: str
    external_traffic_policy: str
    health_check_node_port: int
    publish_not_ready_addresses: bool
    session_affinity_config: _struct_pb2.Struct
    ip_families: _containers.RepeatedScalarFieldContainer[str]
    ip_family_policy: str
    allocate_load_balancer_node_ports: bool
    load_balancer_class: str
    internal_traffic_policy: str
    traffic_distribution: str
    def __init__(self, ports: _Optional[_Iterable[_Union[ServicePort, _Mapping]]] = ..., selector: _Optional[_Mapping[str, str]] = ..., cluster_ip: _Optional[str] = ..., type: _Optional[str] = ..., cluster_ips: _Optional[_Iterable[str]] = ..., external_ips: _Optional[_Iterable[str]] = ..., session_affinity: _Optional[str] = ..., load_balancer_ip: _Optional[str] = ..., load_balancer_source_ranges: _Optional[_Iterable[str]] = ..., external_name: _Optional[str] = ..., external_traffic_policy: _Optional[str] = ..., health_check_node_port: _Optional[int] = ..., publish_not_ready_addresses: _Optional[bool] = ..., session_affinity_config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., ip_families: _Optional[_Iterable[str]] = ..., ip_family_policy: _Optional[str] = ..., allocate_load_balancer_node_ports: _Optional[bool] = ..., load_balancer_class: _Optional[str] = ..., internal_traffic_policy: _Optional[str] = ..., traffic_distribution: _Optional[str] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ServiceSpec
    status: _struct_pb2.Struct
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ServiceSpec, _Mapping]] = ..., status: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ReplicaSetSpec(_message.Message):
    __slots__ = ("replicas", "selector", "template", "min_ready_seconds")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    MIN_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    selector: LabelSelector
    template: PodTemplateSpec
    min_ready_seconds: int
    def __init__(self, replicas: _Optional[int] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., min_ready_seconds: _Optional[int] = ...) -> None: ...

class ReplicaSetStatus(_message.Message):
    __slots__ = ("replicas", "fully_labeled_replicas", "ready_replicas", "available_replicas", "observed_generation", "conditions", "terminating_replicas")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    FULLY_LABELED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    READY_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    fully_labeled_replicas: int
    ready_replicas: int
    available_replicas: int
    observed_generation: int
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    terminating_replicas: int
    def __init__(self, replicas: _Optional[int] = ..., fully_labeled_replicas: _Optional[int] = ..., ready_replicas: _Optional[int] = ..., available_replicas: _Optional[int] = ..., observed_generation: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., terminating_replicas: _Optional[int] = ...) -> None: ...

class ReplicaSet(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ReplicaSetSpec
    status: ReplicaSetStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ReplicaSetSpec, _Mapping]] = ..., status: _Optional[_Union[ReplicaSetStatus, _Mapping]] = ...) -> None: ...

class StatefulSetSpec(_message.Message):
    __slots__ = ("replicas", "selector", "template", "volume_claim_templates", "service_name", "pod_management_policy", "update_strategy", "revision_history_limit", "min_ready_seconds", "persistent_volume_claim_retention_policy", "ordinals")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_CLAIM_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    POD_MANAGEMENT_POLICY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    REVISION_HISTORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MIN_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    selector: LabelSelector
    template: PodTemplateSpec
    volume_claim_templates: _containers.RepeatedCompositeFieldContainer[PersistentVolumeClaim]
    service_name: str
    pod_management_policy: str
    update_strategy: _struct_pb2.Struct
    revision_history_limit: int
    min_ready_seconds: int
    persistent_volume_claim_retention_policy: _struct_pb2.Struct
    ordinals: _struct_pb2.Struct
    def __init__(self, replicas: _Optional[int] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., volume_claim_templates: _Optional[_Iterable[_Union[PersistentVolumeClaim, _Mapping]]] = ..., service_name: _Optional[str] = ..., pod_management_policy: _Optional[str] = ..., update_strategy: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., revision_history_limit: _Optional[int] = ..., min_ready_seconds: _Optional[int] = ..., persistent_volume_claim_retention_policy: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., ordinals: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class StatefulSetStatus(_message.Message):
    __slots__ = ("observed_generation", "replicas", "ready_replicas", "current_replicas", "updated_replicas", "current_revision", "update_revision", "collision_count", "conditions", "available_replicas")
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    READY_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_REVISION_FIELD_NUMBER: _ClassVar[int]
    COLLISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    observed_generation: int
    replicas: int
    ready_replicas: int
    current_replicas: int
    updated_replicas: int
    current_revision: str
    update_revision: str
    collision_count: int
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    available_replicas: int
    def __init__(self, observed_generation: _Optional[int] = ..., replicas: _Optional[int] = ..., ready_replicas: _Optional[int] = ..., current_replicas: _Optional[int] = ..., updated_replicas: _Optional[int] = ..., current_revision: _Optional[str] = ..., update_revision: _Optional[str] = ..., collision_count: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., available_replicas: _Optional[int] = ...) -> None: ...

class ControllerRevision(_message.Message):
    __slots__ = ("metadata", "data", "revision")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    data: RawJSON
    revision: int
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., data: _Optional[_Union[RawJSON, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class StatefulSet(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: StatefulSetSpec
    status: StatefulSetStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[StatefulSetSpec, _Mapping]] = ..., status: _Optional[_Union[StatefulSetStatus, _Mapping]] = ...) -> None: ...

class ReplicationControllerSpec(_message.Message):
    __slots__ = ("replicas", "selector", "template", "min_ready_seconds")
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    MIN_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    selector: _containers.ScalarMap[str, str]
    template: PodTemplateSpec
    min_ready_seconds: int
    def __init__(self, replicas: _Optional[int] = ..., selector: _Optional[_Mapping[str, str]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., min_ready_seconds: _Optional[int] = ...) -> None: ...

class ReplicationController(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ReplicationControllerSpec
    status: ReplicaSetStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ReplicationControllerSpec, _Mapping]] = ..., status: _Optional[_Union[ReplicaSetStatus, _Mapping]] = ...) -> None: ...

class VolumeNodeAffinity(_message.Message):
    __slots__ = ("required",)
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    required: NodeSelector
    def __init__(self, required: _Optional[_Union[NodeSelector, _Mapping]] = ...) -> None: ...

class PersistentVolumeSpec(_message.Message):
    __slots__ = ("capacity", "access_modes", "claim_ref", "persistent_volume_reclaim_policy", "storage_class_name", "mount_options", "volume_mode", "node_affinity", "volume_attributes_class_name", "csi", "gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd", "azure_disk", "azure_file", "cinder", "vsphere_volume", "portworx_volume", "local", "host_path", "nfs", "fc", "glusterfs", "cephfs", "flex_volume", "flocker", "quobyte", "photon_persistent_disk", "scale_io", "storageos")
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ACCESS_MODES_FIELD_NUMBER: _ClassVar[int]
    CLAIM_REF_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_VOLUME_RECLAIM_POLICY_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    MOUNT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    VOLUME_MODE_FIELD_NUMBER: _ClassVar[int]
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    VOLUME_ATTRIBUTES_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    CSI_FIELD_NUMBER: _ClassVar[int]
    GCE_PERSISTENT_DISK_FIELD_NUMBER: _ClassVar[int]
    AWS_ELASTIC_BLOCK_STORE_FIELD_NUMBER: _ClassVar[int]
    ISCSI_FIELD_NUMBER: _ClassVar[int]
    RBD_FIELD_NUMBER: _ClassVar[int]
    AZURE_DISK_FIELD_NUMBER: _ClassVar[int]
    AZURE_FILE_FIELD_NUMBER: _ClassVar[int]
    CINDER_FIELD_NUMBER: _ClassVar[int]
    VSPHERE_VOLUME_FIELD_NUMBER: _ClassVar[int]
    PORTWORX_VOLUME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    NFS_FIELD_NUMBER: _ClassVar[int]
    FC_FIELD_NUMBER: _ClassVar[int]
    GLUSTERFS_FIELD_NUMBER: _ClassVar[int]
    CEPHFS_FIELD_NUMBER: _ClassVar[int]
    FLEX_VOLUME_FIELD_NUMBER: _ClassVar[int]
    FLOCKER_FIELD_NUMBER: _ClassVar[int]
    QUOBYTE_FIELD_NUMBER: _ClassVar[int]
    PHOTON_PERSISTENT_DISK_FIELD_NUMBER: _ClassVar[int]
    SCALE_IO_FIELD_NUMBER: _ClassVar[int]
    STORAGEOS_FIELD_NUMBER: _ClassVar[int]
    capacity: _containers.ScalarMap[str, str]
    access_modes: _containers.RepeatedScalarFieldContainer[str]
    claim_ref: ObjectReference
    persistent_volume_reclaim_policy: str
    storage_class_name: str
    mount_options: _containers.RepeatedScalarFieldContainer[str]
    volume_mode: str
    node_affinity: VolumeNodeAffinity
    volume_attributes_class_name: str
    csi: CSIVolumeSource
    gce_persistent_disk: GCEPersistentDiskVolumeSource
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource
    iscsi: ISCSIVolumeSource
    rbd: RBDVolumeSource
    azure_disk: AzureDiskVolumeSource
    azure_file: AzureFileVolumeSource
    cinder: CinderVolumeSource
    vsphere_volume: VsphereVirtualDiskVolumeSource
    portworx_volume: PortworxVolumeSource
    local: _struct_pb2.Struct
    host_path: _struct_pb2.Struct
    nfs: _struct_pb2.Struct
    fc: _struct_pb2.Struct
    glusterfs: _struct_pb2.Struct
    cephfs: _struct_pb2.Struct
    flex_volume: _struct_pb2.Struct
    flocker: _struct_pb2.Struct
    quobyte: _struct_pb2.Struct
    photon_persistent_disk: _struct_pb2.Struct
    scale_io: _struct_pb2.Struct
    storageos: _struct_pb2.Struct
    def __init__(self, capacity: _Optional[_Mapping[str, str]] = ..., access_modes: _Optional[_Iterable[str]] = ..., claim_ref: _Optional[_Union[ObjectReference, _Mapping]] = ..., persistent_volume_reclaim_policy: _Optional[str] = ..., storage_class_name: _Optional[str] = ..., mount_options: _Optional[_Iterable[str]] = ..., volume_mode: _Optional[str] = ..., node_affinity: _Optional[_Union[VolumeNodeAffinity, _Mapping]] = ..., volume_attributes_class_name: _Optional[str] = ..., csi: _Optional[_Union[CSIVolumeSource, _Mapping]] = ..., gce_persistent_disk: _Optional[_Union[GCEPersistentDiskVolumeSource, _Mapping]] = ..., aws_elastic_block_store: _Optional[_Union[AWSElasticBlockStoreVolumeSource, _Mapping]] = ..., iscsi: _Optional[_Union[ISCSIVolumeSource, _Mapping]] = ..., rbd: _Optional[_Union[RBDVolumeSource, _Mapping]] = ..., azure_disk: _Optional[_Union[AzureDiskVolumeSource, _Mapping]] = ..., azure_file: _Optional[_Union[AzureFileVolumeSource, _Mapping]] = ..., cinder: _Optional[_Union[CinderVolumeSource, _Mapping]] = ..., vsphere_volume: _Optional[_Union[VsphereVirtualDiskVolumeSource, _Mapping]] = ..., portworx_volume: _Optional[_Union[PortworxVolumeSource, _Mapping]] = ..., local: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., host_path: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., nfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., fc: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., glusterfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., cephfs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., flex_volume: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., flocker: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., quobyte: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., photon_persistent_disk: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., scale_io: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., storageos: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class PersistentVolumeStatus(_message.Message):
    __slots__ = ("phase", "message", "reason", "last_phase_transition_time")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LAST_PHASE_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    phase: str
    message: str
    reason: str
    last_phase_transition_time: _timestamp_pb2.Timestamp
    def __init__(self, phase: _Optional[str] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., last_phase_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PersistentVolume(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PersistentVolumeSpec
    status: PersistentVolumeStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PersistentVolumeSpec, _Mapping]] = ..., status: _Optional[_Union[PersistentVolumeStatus, _Mapping]] = ...) -> None: ...

class PersistentVolumeClaimSpec(_message.Message):
    __slots__ = ("access_modes", "selector", "resources", "volume_name", "storage_class_name", "volume_mode", "data_source", "data_source_ref", "volume_attributes_class_name")
    ACCESS_MODES_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    VOLUME_NAME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    VOLUME_MODE_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_REF_FIELD_NUMBER: _ClassVar[int]
    VOLUME_ATTRIBUTES_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    access_modes: _containers.RepeatedScalarFieldContainer[str]
    selector: LabelSelector
    resources: ResourceRequirements
    volume_name: str
    storage_class_name: str
    volume_mode: str
    data_source: TypedLocalObjectReference
    data_source_ref: TypedLocalObjectReference
    volume_attributes_class_name: str
    def __init__(self, access_modes: _Optional[_Iterable[str]] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., resources: _Optional[_Union[ResourceRequirements, _Mapping]] = ..., volume_name: _Optional[str] = ..., storage_class_name: _Optional[str] = ..., volume_mode: _Optional[str] = ..., data_source: _Optional[_Union[TypedLocalObjectReference, _Mapping]] = ..., data_source_ref: _Optional[_Union[TypedLocalObjectReference, _Mapping]] = ..., volume_attributes_class_name: _Optional[str] = ...) -> None: ...

class PersistentVolumeClaimStatus(_message.Message):
    __slots__ = ("phase", "access_modes", "capacity", "conditions", "allocated_resources", "allocated_resource_statuses", "current_volume_attributes_class_name", "modify_volume_status")
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AllocatedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AllocatedResourceStatusesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ACCESS_MODES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_RESOURCE_STATUSES_FIELD_NUMBER: _ClassVar[int]
    CURRENT_VOLUME_ATTRIBUTES_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    MODIFY_VOLUME_STATUS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    access_modes: _containers.RepeatedScalarFieldContainer[str]
    capacity: _containers.ScalarMap[str, str]
    conditions: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    allocated_resources: _containers.ScalarMap[str, str]
    allocated_resource_statuses: _containers.ScalarMap[str, str]
    current_volume_attributes_class_name: str
    modify_volume_status: _struct_pb2.Struct
    def __init__(self, phase: _Optional[str] = ..., access_modes: _Optional[_Iterable[str]] = ..., capacity: _Optional[_Mapping[str, str]] = ..., conditions: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., allocated_resources: _Optional[_Mapping[str, str]] = ..., allocated_resource_statuses: _Optional[_Mapping[str, str]] = ..., current_volume_attributes_class_name: _Optional[str] = ..., modify_volume_status: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class PersistentVolumeClaim(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec
    status: PersistentVolumeClaimStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PersistentVolumeClaimSpec, _Mapping]] = ..., status: _Optional[_Union[PersistentVolumeClaimStatus, _Mapping]] = ...) -> None: ...

class TopologySelectorLabelRequirement(_message.Message):
    __slots__ = ("key", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class TopologySelectorTerm(_message.Message):
    __slots__ = ("match_label_expressions",)
    MATCH_LABEL_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    match_label_expressions: _containers.RepeatedCompositeFieldContainer[TopologySelectorLabelRequirement]
    def __init__(self, match_label_expressions: _Optional[_Iterable[_Union[TopologySelectorLabelRequirement, _Mapping]]] = ...) -> None: ...

class StorageClass(_message.Message):
    __slots__ = ("metadata", "provisioner", "parameters", "reclaim_policy", "mount_options", "allow_volume_expansion", "volume_binding_mode", "allowed_topologies")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PROVISIONER_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_POLICY_FIELD_NUMBER: _ClassVar[int]
    MOUNT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_VOLUME_EXPANSION_FIELD_NUMBER: _ClassVar[int]
    VOLUME_BINDING_MODE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    provisioner: str
    parameters: _containers.ScalarMap[str, str]
    reclaim_policy: str
    mount_options: _containers.RepeatedScalarFieldContainer[str]
    allow_volume_expansion: bool
    volume_binding_mode: str
    allowed_topologies: _containers.RepeatedCompositeFieldContainer[TopologySelectorTerm]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., provisioner: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., reclaim_policy: _Optional[str] = ..., mount_options: _Optional[_Iterable[str]] = ..., allow_volume_expansion: _Optional[bool] = ..., volume_binding_mode: _Optional[str] = ..., allowed_topologies: _Optional[_Iterable[_Union[TopologySelectorTerm, _Mapping]]] = ...) -> None: ...

class VolumeNodeResources(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class CSINodeDriver(_message.Message):
    __slots__ = ("name", "node_id", "topology_keys", "allocatable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEYS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    node_id: str
    topology_keys: _containers.RepeatedScalarFieldContainer[str]
    allocatable: VolumeNodeResources
    def __init__(self, name: _Optional[str] = ..., node_id: _Optional[str] = ..., topology_keys: _Optional[_Iterable[str]] = ..., allocatable: _Optional[_Union[VolumeNodeResources, _Mapping]] = ...) -> None: ...

class CSINodeSpec(_message.Message):
    __slots__ = ("drivers",)
    DRIVERS_FIELD_NUMBER: _ClassVar[int]
    drivers: _containers.RepeatedCompositeFieldContainer[CSINodeDriver]
    def __init__(self, drivers: _Optional[_Iterable[_Union[CSINodeDriver, _Mapping]]] = ...) -> None: ...

class CSINode(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: CSINodeSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[CSINodeSpec, _Mapping]] = ...) -> None: ...

class CSIDriverSpec(_message.Message):
    __slots__ = ("attach_required", "pod_info_on_mount", "volume_lifecycle_modes", "storage_capacity", "fs_group_policy", "token_requests", "requires_republish", "se_linux_mount", "node_allocatable_update_period_seconds", "service_account_token_in_secrets", "prevent_pod_scheduling_if_missing")
    ATTACH_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    POD_INFO_ON_MOUNT_FIELD_NUMBER: _ClassVar[int]
    VOLUME_LIFECYCLE_MODES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    FS_GROUP_POLICY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_REPUBLISH_FIELD_NUMBER: _ClassVar[int]
    SE_LINUX_MOUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_ALLOCATABLE_UPDATE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_TOKEN_IN_SECRETS_FIELD_NUMBER: _ClassVar[int]
    PREVENT_POD_SCHEDULING_IF_MISSING_FIELD_NUMBER: _ClassVar[int]
    attach_required: bool
    pod_info_on_mount: bool
    volume_lifecycle_modes: _containers.RepeatedScalarFieldContainer[str]
    storage_capacity: bool
    fs_group_policy: str
    token_requests: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    requires_republish: bool
    se_linux_mount: bool
    node_allocatable_update_period_seconds: int
    service_account_token_in_secrets: bool
    prevent_pod_scheduling_if_missing: bool
    def __init__(self, attach_required: _Optional[bool] = ..., pod_info_on_mount: _Optional[bool] = ..., volume_lifecycle_modes: _Optional[_Iterable[str]] = ..., storage_capacity: _Optional[bool] = ..., fs_group_policy: _Optional[str] = ..., token_requests: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., requires_republish: _Optional[bool] = ..., se_linux_mount: _Optional[bool] = ..., node_allocatable_update_period_seconds: _Optional[int] = ..., service_account_token_in_secrets: _Optional[bool] = ..., prevent_pod_scheduling_if_missing: _Optional[bool] = ...) -> None: ...

class CSIDriver(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: CSIDriverSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[CSIDriverSpec, _Mapping]] = ...) -> None: ...

class CSIStorageCapacity(_message.Message):
    __slots__ = ("metadata", "node_topology", "storage_class_name", "capacity", "maximum_volume_size")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    NODE_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_VOLUME_SIZE_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    node_topology: LabelSelector
    storage_class_name: str
    capacity: str
    maximum_volume_size: str
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., node_topology: _Optional[_Union[LabelSelector, _Mapping]] = ..., storage_class_name: _Optional[str] = ..., capacity: _Optional[str] = ..., maximum_volume_size: _Optional[str] = ...) -> None: ...

class VolumeAttachmentSource(_message.Message):
    __slots__ = ("persistent_volume_name", "inline_volume_spec")
    PERSISTENT_VOLUME_NAME_FIELD_NUMBER: _ClassVar[int]
    INLINE_VOLUME_SPEC_FIELD_NUMBER: _ClassVar[int]
    persistent_volume_name: str
    inline_volume_spec: PersistentVolumeSpec
    def __init__(self, persistent_volume_name: _Optional[str] = ..., inline_volume_spec: _Optional[_Union[PersistentVolumeSpec, _Mapping]] = ...) -> None: ...

class VolumeAttachmentSpec(_message.Message):
    __slots__ = ("attacher", "source", "node_name")
    ATTACHER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    attacher: str
    source: VolumeAttachmentSource
    node_name: str
    def __init__(self, attacher: _Optional[str] = ..., source: _Optional[_Union[VolumeAttachmentSource, _Mapping]] = ..., node_name: _Optional[str] = ...) -> None: ...

class VolumeAttachmentStatus(_message.Message):
    __slots__ = ("attached", "attachment_metadata", "attach_error", "detach_error")
    class AttachmentMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_METADATA_FIELD_NUMBER: _ClassVar[int]
    ATTACH_ERROR_FIELD_NUMBER: _ClassVar[int]
    DETACH_ERROR_FIELD_NUMBER: _ClassVar[int]
    attached: bool
    attachment_metadata: _containers.ScalarMap[str, str]
    attach_error: _struct_pb2.Struct
    detach_error: _struct_pb2.Struct
    def __init__(self, attached: _Optional[bool] = ..., attachment_metadata: _Optional[_Mapping[str, str]] = ..., attach_error: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., detach_error: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class VolumeAttachment(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: VolumeAttachmentSpec
    status: VolumeAttachmentStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[VolumeAttachmentSpec, _Mapping]] = ..., status: _Optional[_Union[VolumeAttachmentStatus, _Mapping]] = ...) -> None: ...

class EventSource(_message.Message):
    __slots__ = ("component", "host")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    component: str
    host: str
    def __init__(self, component: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class EventSeries(_message.Message):
    __slots__ = ("count", "last_observed_time")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_OBSERVED_TIME_FIELD_NUMBER: _ClassVar[int]
    count: int
    last_observed_time: _timestamp_pb2.Timestamp
    def __init__(self, count: _Optional[int] = ..., last_observed_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("metadata", "involved_object", "reason", "message", "source", "first_timestamp", "last_timestamp", "count", "type", "event_time", "series", "action", "related", "reporting_controller", "reporting_instance")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    INVOLVED_OBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    REPORTING_CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    REPORTING_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    involved_object: ObjectReference
    reason: str
    message: str
    source: EventSource
    first_timestamp: _timestamp_pb2.Timestamp
    last_timestamp: _timestamp_pb2.Timestamp
    count: int
    type: str
    event_time: _timestamp_pb2.Timestamp
    series: EventSeries
    action: str
    related: ObjectReference
    reporting_controller: str
    reporting_instance: str
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., involved_object: _Optional[_Union[ObjectReference, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., source: _Optional[_Union[EventSource, _Mapping]] = ..., first_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., type: _Optional[str] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., series: _Optional[_Union[EventSeries, _Mapping]] = ..., action: _Optional[str] = ..., related: _Optional[_Union[ObjectReference, _Mapping]] = ..., reporting_controller: _Optional[str] = ..., reporting_instance: _Optional[str] = ...) -> None: ...

class LeaseSpec(_message.Message):
    __slots__ = ("holder_identity", "lease_duration_seconds", "acquire_time", "renew_time", "lease_transitions", "strategy", "preferred_holder")
    HOLDER_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    RENEW_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_HOLDER_FIELD_NUMBER: _ClassVar[int]
    holder_identity: str
    lease_duration_seconds: int
    acquire_time: _timestamp_pb2.Timestamp
    renew_time: _timestamp_pb2.Timestamp
    lease_transitions: int
    strategy: str
    preferred_holder: str
    def __init__(self, holder_identity: _Optional[str] = ..., lease_duration_seconds: _Optional[int] = ..., acquire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., renew_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_transitions: _Optional[int] = ..., strategy: _Optional[str] = ..., preferred_holder: _Optional[str] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: LeaseSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[LeaseSpec, _Mapping]] = ...) -> None: ...

class PolicyRule(_message.Message):
    __slots__ = ("verbs", "api_groups", "resources", "resource_names", "non_resource_urls")
    VERBS_FIELD_NUMBER: _ClassVar[int]
    API_GROUPS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAMES_FIELD_NUMBER: _ClassVar[int]
    NON_RESOURCE_URLS_FIELD_NUMBER: _ClassVar[int]
    verbs: _containers.RepeatedScalarFieldContainer[str]
    api_groups: _containers.RepeatedScalarFieldContainer[str]
    resources: _containers.RepeatedScalarFieldContainer[str]
    resource_names: _containers.RepeatedScalarFieldContainer[str]
    non_resource_urls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verbs: _Optional[_Iterable[str]] = ..., api_groups: _Optional[_Iterable[str]] = ..., resources: _Optional[_Iterable[str]] = ..., resource_names: _Optional[_Iterable[str]] = ..., non_resource_urls: _Optional[_Iterable[str]] = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("metadata", "rules")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    rules: _containers.RepeatedCompositeFieldContainer[PolicyRule]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[PolicyRule, _Mapping]]] = ...) -> None: ...

class AggregationRule(_message.Message):
    __slots__ = ("cluster_role_selectors",)
    CLUSTER_ROLE_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    cluster_role_selectors: _containers.RepeatedCompositeFieldContainer[LabelSelector]
    def __init__(self, cluster_role_selectors: _Optional[_Iterable[_Union[LabelSelector, _Mapping]]] = ...) -> None: ...

class ClusterRole(_message.Message):
    __slots__ = ("metadata", "rules", "aggregation_rule")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_RULE_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    rules: _containers.RepeatedCompositeFieldContainer[PolicyRule]
    aggregation_rule: AggregationRule
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[PolicyRule, _Mapping]]] = ..., aggregation_rule: _Optional[_Union[AggregationRule, _Mapping]] = ...) -> None: ...

class Subject(_message.Message):
    __slots__ = ("kind", "api_group", "name", "namespace")
    KIND_FIELD_NUMBER: _ClassVar[int]
    API_GROUP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    api_group: str
    name: str
    namespace: str
    def __init__(self, kind: _Optional[str] = ..., api_group: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ...) -> None: ...

class RoleRef(_message.Message):
    __slots__ = ("api_group", "kind", "name")
    API_GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    api_group: str
    kind: str
    name: str
    def __init__(self, api_group: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RoleBinding(_message.Message):
    __slots__ = ("metadata", "subjects", "role_ref")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    ROLE_REF_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    subjects: _containers.RepeatedCompositeFieldContainer[Subject]
    role_ref: RoleRef
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., subjects: _Optional[_Iterable[_Union[Subject, _Mapping]]] = ..., role_ref: _Optional[_Union[RoleRef, _Mapping]] = ...) -> None: ...

class ClusterRoleBinding(_message.Message):
    __slots__ = ("metadata", "subjects", "role_ref")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    ROLE_REF_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    subjects: _containers.RepeatedCompositeFieldContainer[Subject]
    role_ref: RoleRef
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., subjects: _Optional[_Iterable[_Union[Subject, _Mapping]]] = ..., role_ref: _Optional[_Union[RoleRef, _Mapping]] = ...) -> None: ...

class ConfigMap(_message.Message):
    __slots__ = ("metadata", "data", "binary_data", "immutable")
    class DataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class BinaryDataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    BINARY_DATA_FIELD_NUMBER: _ClassVar[int]
    IMMUTABLE_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    data: _containers.ScalarMap[str, str]
    binary_data: _containers.ScalarMap[str, str]
    immutable: bool
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., data: _Optional[_Mapping[str, str]] = ..., binary_data: _Optional[_Mapping[str, str]] = ..., immutable: _Optional[bool] = ...) -> None: ...

class RuntimeClassOverhead(_message.Message):
    __slots__ = ("pod_fixed",)
    class PodFixedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    POD_FIXED_FIELD_NUMBER: _ClassVar[int]
    pod_fixed: _containers.ScalarMap[str, str]
    def __init__(self, pod_fixed: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RuntimeClassScheduling(_message.Message):
    __slots__ = ("node_selector", "tolerations")
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    node_selector: _containers.ScalarMap[str, str]
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    def __init__(self, node_selector: _Optional[_Mapping[str, str]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ...) -> None: ...

class RuntimeClass(_message.Message):
    __slots__ = ("metadata", "handler", "overhead", "scheduling")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    handler: str
    overhead: RuntimeClassOverhead
    scheduling: RuntimeClassScheduling
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., handler: _Optional[str] = ..., overhead: _Optional[_Union[RuntimeClassOverhead, _Mapping]] = ..., scheduling: _Optional[_Union[RuntimeClassScheduling, _Mapping]] = ...) -> None: ...

class LimitRangeItem(_message.Message):
    __slots__ = ("type", "max", "min", "default", "default_request", "max_limit_request_ratio")
    class MaxEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MinEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DefaultEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DefaultRequestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MaxLimitRequestRatioEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAX_LIMIT_REQUEST_RATIO_FIELD_NUMBER: _ClassVar[int]
    type: str
    max: _containers.ScalarMap[str, str]
    min: _containers.ScalarMap[str, str]
    default: _containers.ScalarMap[str, str]
    default_request: _containers.ScalarMap[str, str]
    max_limit_request_ratio: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., max: _Optional[_Mapping[str, str]] = ..., min: _Optional[_Mapping[str, str]] = ..., default: _Optional[_Mapping[str, str]] = ..., default_request: _Optional[_Mapping[str, str]] = ..., max_limit_request_ratio: _Optional[_Mapping[str, str]] = ...) -> None: ...

class LimitRangeSpec(_message.Message):
    __slots__ = ("limits",)
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[LimitRangeItem]
    def __init__(self, limits: _Optional[_Iterable[_Union[LimitRangeItem, _Mapping]]] = ...) -> None: ...

class LimitRange(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: LimitRangeSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[LimitRangeSpec, _Mapping]] = ...) -> None: ...

class ResourceQuotaSpec(_message.Message):
    __slots__ = ("hard", "scopes", "scope_selector")
    class HardEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HARD_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    SCOPE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    hard: _containers.ScalarMap[str, str]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    scope_selector: _struct_pb2.Struct
    def __init__(self, hard: _Optional[_Mapping[str, str]] = ..., scopes: _Optional[_Iterable[str]] = ..., scope_selector: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ResourceQuotaStatus(_message.Message):
    __slots__ = ("hard", "used")
    class HardEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HARD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    hard: _containers.ScalarMap[str, str]
    used: _containers.ScalarMap[str, str]
    def __init__(self, hard: _Optional[_Mapping[str, str]] = ..., used: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResourceQuota(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceQuotaSpec
    status: ResourceQuotaStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceQuotaSpec, _Mapping]] = ..., status: _Optional[_Union[ResourceQuotaStatus, _Mapping]] = ...) -> None: ...

class BasicSchedulingPolicy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GangSchedulingPolicy(_message.Message):
    __slots__ = ("min_count",)
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    min_count: int
    def __init__(self, min_count: _Optional[int] = ...) -> None: ...

class PodGroupSchedulingPolicy(_message.Message):
    __slots__ = ("basic", "gang")
    BASIC_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    basic: BasicSchedulingPolicy
    gang: GangSchedulingPolicy
    def __init__(self, basic: _Optional[_Union[BasicSchedulingPolicy, _Mapping]] = ..., gang: _Optional[_Union[GangSchedulingPolicy, _Mapping]] = ...) -> None: ...

class TopologyConstraint(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class PodGroupSchedulingConstraints(_message.Message):
    __slots__ = ("topology",)
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    topology: _containers.RepeatedCompositeFieldContainer[TopologyConstraint]
    def __init__(self, topology: _Optional[_Iterable[_Union[TopologyConstraint, _Mapping]]] = ...) -> None: ...

class PodGroupResourceClaim(_message.Message):
    __slots__ = ("name", "resource_claim_name", "resource_claim_template_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    resource_claim_name: str
    resource_claim_template_name: str
    def __init__(self, name: _Optional[str] = ..., resource_claim_name: _Optional[str] = ..., resource_claim_template_name: _Optional[str] = ...) -> None: ...

class PodGroupTemplate(_message.Message):
    __slots__ = ("name", "scheduling_policy", "scheduling_constraints", "resource_claims", "disruption_mode", "priority_class_name", "priority")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_POLICY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    DISRUPTION_MODE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    scheduling_policy: PodGroupSchedulingPolicy
    scheduling_constraints: PodGroupSchedulingConstraints
    resource_claims: _containers.RepeatedCompositeFieldContainer[PodGroupResourceClaim]
    disruption_mode: str
    priority_class_name: str
    priority: int
    def __init__(self, name: _Optional[str] = ..., scheduling_policy: _Optional[_Union[PodGroupSchedulingPolicy, _Mapping]] = ..., scheduling_constraints: _Optional[_Union[PodGroupSchedulingConstraints, _Mapping]] = ..., resource_claims: _Optional[_Iterable[_Union[PodGroupResourceClaim, _Mapping]]] = ..., disruption_mode: _Optional[str] = ..., priority_class_name: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class WorkloadSpec(_message.Message):
    __slots__ = ("controller_ref", "pod_group_templates")
    CONTROLLER_REF_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    controller_ref: TypedLocalObjectReference
    pod_group_templates: _containers.RepeatedCompositeFieldContainer[PodGroupTemplate]
    def __init__(self, controller_ref: _Optional[_Union[TypedLocalObjectReference, _Mapping]] = ..., pod_group_templates: _Optional[_Iterable[_Union[PodGroupTemplate, _Mapping]]] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: WorkloadSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[WorkloadSpec, _Mapping]] = ...) -> None: ...

class WorkloadPodGroupTemplateReference(_message.Message):
    __slots__ = ("workload_name", "pod_group_template_name")
    WORKLOAD_NAME_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    workload_name: str
    pod_group_template_name: str
    def __init__(self, workload_name: _Optional[str] = ..., pod_group_template_name: _Optional[str] = ...) -> None: ...

class PodGroupTemplateReference(_message.Message):
    __slots__ = ("workload",)
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    workload: WorkloadPodGroupTemplateReference
    def __init__(self, workload: _Optional[_Union[WorkloadPodGroupTemplateReference, _Mapping]] = ...) -> None: ...

class PodGroupSpec(_message.Message):
    __slots__ = ("pod_group_template_ref", "scheduling_policy", "scheduling_constraints", "resource_claims", "disruption_mode", "priority_class_name", "priority")
    POD_GROUP_TEMPLATE_REF_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_POLICY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    DISRUPTION_MODE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    pod_group_template_ref: PodGroupTemplateReference
    scheduling_policy: PodGroupSchedulingPolicy
    scheduling_constraints: PodGroupSchedulingConstraints
    resource_claims: _containers.RepeatedCompositeFieldContainer[PodGroupResourceClaim]
    disruption_mode: str
    priority_class_name: str
    priority: int
    def __init__(self, pod_group_template_ref: _Optional[_Union[PodGroupTemplateReference, _Mapping]] = ..., scheduling_policy: _Optional[_Union[PodGroupSchedulingPolicy, _Mapping]] = ..., scheduling_constraints: _Optional[_Union[PodGroupSchedulingConstraints, _Mapping]] = ..., resource_claims: _Optional[_Iterable[_Union[PodGroupResourceClaim, _Mapping]]] = ..., disruption_mode: _Optional[str] = ..., priority_class_name: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class PodGroupResourceClaimStatus(_message.Message):
    __slots__ = ("name", "resource_claim_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    resource_claim_name: str
    def __init__(self, name: _Optional[str] = ..., resource_claim_name: _Optional[str] = ...) -> None: ...

class PodGroupStatus(_message.Message):
    __slots__ = ("conditions", "resource_claim_statuses")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_STATUSES_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    resource_claim_statuses: _containers.RepeatedCompositeFieldContainer[PodGroupResourceClaimStatus]
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., resource_claim_statuses: _Optional[_Iterable[_Union[PodGroupResourceClaimStatus, _Mapping]]] = ...) -> None: ...

class PodGroup(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PodGroupSpec
    status: PodGroupStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PodGroupSpec, _Mapping]] = ..., status: _Optional[_Union[PodGroupStatus, _Mapping]] = ...) -> None: ...

class CELDeviceSelector(_message.Message):
    __slots__ = ("expression",)
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    expression: str
    def __init__(self, expression: _Optional[str] = ...) -> None: ...

class DeviceSelector(_message.Message):
    __slots__ = ("cel",)
    CEL_FIELD_NUMBER: _ClassVar[int]
    cel: CELDeviceSelector
    def __init__(self, cel: _Optional[_Union[CELDeviceSelector, _Mapping]] = ...) -> None: ...

class OpaqueDeviceConfiguration(_message.Message):
    __slots__ = ("driver", "parameters")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    driver: str
    parameters: RawJSON
    def __init__(self, driver: _Optional[str] = ..., parameters: _Optional[_Union[RawJSON, _Mapping]] = ...) -> None: ...

class DeviceClassConfiguration(_message.Message):
    __slots__ = ("opaque",)
    OPAQUE_FIELD_NUMBER: _ClassVar[int]
    opaque: OpaqueDeviceConfiguration
    def __init__(self, opaque: _Optional[_Union[OpaqueDeviceConfiguration, _Mapping]] = ...) -> None: ...

class DeviceClassSpec(_message.Message):
    __slots__ = ("selectors", "config", "extended_resource_name")
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    selectors: _containers.RepeatedCompositeFieldContainer[DeviceSelector]
    config: _containers.RepeatedCompositeFieldContainer[DeviceClassConfiguration]
    extended_resource_name: str
    def __init__(self, selectors: _Optional[_Iterable[_Union[DeviceSelector, _Mapping]]] = ..., config: _Optional[_Iterable[_Union[DeviceClassConfiguration, _Mapping]]] = ..., extended_resource_name: _Optional[str] = ...) -> None: ...

class DeviceClass(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: DeviceClassSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[DeviceClassSpec, _Mapping]] = ...) -> None: ...

class CapacityRequirements(_message.Message):
    __slots__ = ("requests",)
    class RequestsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.ScalarMap[str, str]
    def __init__(self, requests: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExactDeviceRequest(_message.Message):
    __slots__ = ("device_class_name", "selectors", "allocation_mode", "count", "admin_access", "tolerations", "capacity")
    DEVICE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_MODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ADMIN_ACCESS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    device_class_name: str
    selectors: _containers.RepeatedCompositeFieldContainer[DeviceSelector]
    allocation_mode: str
    count: int
    admin_access: bool
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    capacity: CapacityRequirements
    def __init__(self, device_class_name: _Optional[str] = ..., selectors: _Optional[_Iterable[_Union[DeviceSelector, _Mapping]]] = ..., allocation_mode: _Optional[str] = ..., count: _Optional[int] = ..., admin_access: _Optional[bool] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., capacity: _Optional[_Union[CapacityRequirements, _Mapping]] = ...) -> None: ...

class DeviceSubRequest(_message.Message):
    __slots__ = ("name", "device_class_name", "selectors", "allocation_mode", "count", "tolerations", "capacity")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_MODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    device_class_name: str
    selectors: _containers.RepeatedCompositeFieldContainer[DeviceSelector]
    allocation_mode: str
    count: int
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    capacity: CapacityRequirements
    def __init__(self, name: _Optional[str] = ..., device_class_name: _Optional[str] = ..., selectors: _Optional[_Iterable[_Union[DeviceSelector, _Mapping]]] = ..., allocation_mode: _Optional[str] = ..., count: _Optional[int] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., capacity: _Optional[_Union[CapacityRequirements, _Mapping]] = ...) -> None: ...

class DeviceRequest(_message.Message):
    __slots__ = ("name", "exactly", "first_available")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXACTLY_FIELD_NUMBER: _ClassVar[int]
    FIRST_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    exactly: ExactDeviceRequest
    first_available: _containers.RepeatedCompositeFieldContainer[DeviceSubRequest]
    def __init__(self, name: _Optional[str] = ..., exactly: _Optional[_Union[ExactDeviceRequest, _Mapping]] = ..., first_available: _Optional[_Iterable[_Union[DeviceSubRequest, _Mapping]]] = ...) -> None: ...

class DeviceConstraint(_message.Message):
    __slots__ = ("requests", "match_attribute", "distinct_attribute")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MATCH_ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedScalarFieldContainer[str]
    match_attribute: str
    distinct_attribute: str
    def __init__(self, requests: _Optional[_Iterable[str]] = ..., match_attribute: _Optional[str] = ..., distinct_attribute: _Optional[str] = ...) -> None: ...

class DeviceClaimConfiguration(_message.Message):
    __slots__ = ("requests", "opaque")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedScalarFieldContainer[str]
    opaque: OpaqueDeviceConfiguration
    def __init__(self, requests: _Optional[_Iterable[str]] = ..., opaque: _Optional[_Union[OpaqueDeviceConfiguration, _Mapping]] = ...) -> None: ...

class DeviceClaim(_message.Message):
    __slots__ = ("requests", "constraints", "config")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[DeviceRequest]
    constraints: _containers.RepeatedCompositeFieldContainer[DeviceConstraint]
    config: _containers.RepeatedCompositeFieldContainer[DeviceClaimConfiguration]
    def __init__(self, requests: _Optional[_Iterable[_Union[DeviceRequest, _Mapping]]] = ..., constraints: _Optional[_Iterable[_Union[DeviceConstraint, _Mapping]]] = ..., config: _Optional[_Iterable[_Union[DeviceClaimConfiguration, _Mapping]]] = ...) -> None: ...

class ResourceClaimSpec(_message.Message):
    __slots__ = ("devices",)
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    devices: DeviceClaim
    def __init__(self, devices: _Optional[_Union[DeviceClaim, _Mapping]] = ...) -> None: ...

class DeviceRequestAllocationResult(_message.Message):
    __slots__ = ("request", "driver", "pool", "device", "admin_access", "tolerations", "binding_conditions", "binding_failure_conditions", "share_id", "consumed_capacity")
    class ConsumedCapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ADMIN_ACCESS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    BINDING_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    BINDING_FAILURE_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    SHARE_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    binding_conditions: _containers.RepeatedScalarFieldContainer[str]
    binding_failure_conditions: _containers.RepeatedScalarFieldContainer[str]
    share_id: str
    consumed_capacity: _containers.ScalarMap[str, str]
    def __init__(self, request: _Optional[str] = ..., driver: _Optional[str] = ..., pool: _Optional[str] = ..., device: _Optional[str] = ..., admin_access: _Optional[bool] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., binding_conditions: _Optional[_Iterable[str]] = ..., binding_failure_conditions: _Optional[_Iterable[str]] = ..., share_id: _Optional[str] = ..., consumed_capacity: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeviceAllocationConfiguration(_message.Message):
    __slots__ = ("source", "requests", "opaque")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_FIELD_NUMBER: _ClassVar[int]
    source: str
    requests: _containers.RepeatedScalarFieldContainer[str]
    opaque: OpaqueDeviceConfiguration
    def __init__(self, source: _Optional[str] = ..., requests: _Optional[_Iterable[str]] = ..., opaque: _Optional[_Union[OpaqueDeviceConfiguration, _Mapping]] = ...) -> None: ...

class DeviceAllocationResult(_message.Message):
    __slots__ = ("results", "config")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeviceRequestAllocationResult]
    config: _containers.RepeatedCompositeFieldContainer[DeviceAllocationConfiguration]
    def __init__(self, results: _Optional[_Iterable[_Union[DeviceRequestAllocationResult, _Mapping]]] = ..., config: _Optional[_Iterable[_Union[DeviceAllocationConfiguration, _Mapping]]] = ...) -> None: ...

class AllocationResult(_message.Message):
    __slots__ = ("devices", "node_selector", "allocation_timestamp")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    devices: DeviceAllocationResult
    node_selector: NodeSelector
    allocation_timestamp: _timestamp_pb2.Timestamp
    def __init__(self, devices: _Optional[_Union[DeviceAllocationResult, _Mapping]] = ..., node_selector: _Optional[_Union[NodeSelector, _Mapping]] = ..., allocation_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResourceClaimConsumerReference(_message.Message):
    __slots__ = ("api_group", "resource", "name", "uid")
    API_GROUP_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    api_group: str
    resource: str
    name: str
    uid: str
    def __init__(self, api_group: _Optional[str] = ..., resource: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class NetworkDeviceData(_message.Message):
    __slots__ = ("interface_name", "ips", "hardware_address")
    INTERFACE_NAME_FIELD_NUMBER: _ClassVar[int]
    IPS_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    interface_name: str
    ips: _containers.RepeatedScalarFieldContainer[str]
    hardware_address: str
    def __init__(self, interface_name: _Optional[str] = ..., ips: _Optional[_Iterable[str]] = ..., hardware_address: _Optional[str] = ...) -> None: ...

class AllocatedDeviceStatus(_message.Message):
    __slots__ = ("driver", "pool", "device", "share_id", "conditions", "data", "network_data")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SHARE_ID_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NETWORK_DATA_FIELD_NUMBER: _ClassVar[int]
    driver: str
    pool: str
    device: str
    share_id: str
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    data: RawJSON
    network_data: NetworkDeviceData
    def __init__(self, driver: _Optional[str] = ..., pool: _Optional[str] = ..., device: _Optional[str] = ..., share_id: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., data: _Optional[_Union[RawJSON, _Mapping]] = ..., network_data: _Optional[_Union[NetworkDeviceData, _Mapping]] = ...) -> None: ...

class ResourceClaimStatus(_message.Message):
    __slots__ = ("allocation", "reserved_for", "devices")
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FOR_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    allocation: AllocationResult
    reserved_for: _containers.RepeatedCompositeFieldContainer[ResourceClaimConsumerReference]
    devices: _containers.RepeatedCompositeFieldContainer[AllocatedDeviceStatus]
    def __init__(self, allocation: _Optional[_Union[AllocationResult, _Mapping]] = ..., reserved_for: _Optional[_Iterable[_Union[ResourceClaimConsumerReference, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[AllocatedDeviceStatus, _Mapping]]] = ...) -> None: ...

class ResourceClaim(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceClaimSpec
    status: ResourceClaimStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceClaimSpec, _Mapping]] = ..., status: _Optional[_Union[ResourceClaimStatus, _Mapping]] = ...) -> None: ...

class ResourceClaimTemplateSpec(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceClaimSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceClaimSpec, _Mapping]] = ...) -> None: ...

class ResourceClaimTemplate(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceClaimTemplateSpec, _Mapping]] = ...) -> None: ...

class ResourcePool(_message.Message):
    __slots__ = ("name", "generation", "resource_slice_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_SLICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: int
    resource_slice_count: int
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[int] = ..., resource_slice_count: _Optional[int] = ...) -> None: ...

class DeviceAttribute(_message.Message):
    __slots__ = ("int_value", "bool_value", "string_value", "version_value", "int_values", "bool_values", "string_values", "version_values")
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    VERSION_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUES_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUES_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUES_FIELD_NUMBER: _ClassVar[int]
    VERSION_VALUES_FIELD_NUMBER: _ClassVar[int]
    int_value: int
    bool_value: bool
    string_value: str
    version_value: str
    int_values: _containers.RepeatedScalarFieldContainer[int]
    bool_values: _containers.RepeatedScalarFieldContainer[bool]
    string_values: _containers.RepeatedScalarFieldContainer[str]
    version_values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, int_value: _Optional[int] = ..., bool_value: _Optional[bool] = ..., string_value: _Optional[str] = ..., version_value: _Optional[str] = ..., int_values: _Optional[_Iterable[int]] = ..., bool_values: _Optional[_Iterable[bool]] = ..., string_values: _Optional[_Iterable[str]] = ..., version_values: _Optional[_Iterable[str]] = ...) -> None: ...

class CapacityRequestPolicyRange(_message.Message):
    __slots__ = ("min", "max", "step")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    min: str
    max: str
    step: str
    def __init__(self, min: _Optional[str] = ..., max: _Optional[str] = ..., step: _Optional[str] = ...) -> None: ...

class CapacityRequestPolicy(_message.Message):
    __slots__ = ("default", "valid_values", "valid_range")
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    VALID_VALUES_FIELD_NUMBER: _ClassVar[int]
    VALID_RANGE_FIELD_NUMBER: _ClassVar[int]
    default: str
    valid_values: _containers.RepeatedScalarFieldContainer[str]
    valid_range: CapacityRequestPolicyRange
    def __init__(self, default: _Optional[str] = ..., valid_values: _Optional[_Iterable[str]] = ..., valid_range: _Optional[_Union[CapacityRequestPolicyRange, _Mapping]] = ...) -> None: ...

class DeviceCapacity(_message.Message):
    __slots__ = ("value", "request_policy")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_POLICY_FIELD_NUMBER: _ClassVar[int]
    value: str
    request_policy: CapacityRequestPolicy
    def __init__(self, value: _Optional[str] = ..., request_policy: _Optional[_Union[CapacityRequestPolicy, _Mapping]] = ...) -> None: ...

class Counter(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class CounterSet(_message.Message):
    __slots__ = ("name", "counters")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Counter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    counters: _containers.MessageMap[str, Counter]
    def __init__(self, name: _Optional[str] = ..., counters: _Optional[_Mapping[str, Counter]] = ...) -> None: ...

class DeviceCounterConsumption(_message.Message):
    __slots__ = ("counter_set", "counters")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Counter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...
    COUNTER_SET_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    counter_set: str
    counters: _containers.MessageMap[str, Counter]
    def __init__(self, counter_set: _Optional[str] = ..., counters: _Optional[_Mapping[str, Counter]] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("name", "attributes", "capacity", "consumes_counters", "node_name", "node_selector", "all_nodes", "taints", "binds_to_node", "binding_conditions", "binding_failure_conditions", "allow_multiple_allocations", "node_allocatable_resource_mappings")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeviceAttribute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DeviceAttribute, _Mapping]] = ...) -> None: ...
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeviceCapacity
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DeviceCapacity, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CONSUMES_COUNTERS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ALL_NODES_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    BINDS_TO_NODE_FIELD_NUMBER: _ClassVar[int]
    BINDING_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    BINDING_FAILURE_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MULTIPLE_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    NODE_ALLOCATABLE_RESOURCE_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    attributes: _containers.MessageMap[str, DeviceAttribute]
    capacity: _containers.MessageMap[str, DeviceCapacity]
    consumes_counters: _containers.RepeatedCompositeFieldContainer[DeviceCounterConsumption]
    node_name: str
    node_selector: NodeSelector
    all_nodes: bool
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    binds_to_node: bool
    binding_conditions: _containers.RepeatedScalarFieldContainer[str]
    binding_failure_conditions: _containers.RepeatedScalarFieldContainer[str]
    allow_multiple_allocations: bool
    node_allocatable_resource_mappings: _struct_pb2.Struct
    def __init__(self, name: _Optional[str] = ..., attributes: _Optional[_Mapping[str, DeviceAttribute]] = ..., capacity: _Optional[_Mapping[str, DeviceCapacity]] = ..., consumes_counters: _Optional[_Iterable[_Union[DeviceCounterConsumption, _Mapping]]] = ..., node_name: _Optional[str] = ..., node_selector: _Optional[_Union[NodeSelector, _Mapping]] = ..., all_nodes: _Optional[bool] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., binds_to_node: _Optional[bool] = ..., binding_conditions: _Optional[_Iterable[str]] = ..., binding_failure_conditions: _Optional[_Iterable[str]] = ..., allow_multiple_allocations: _Optional[bool] = ..., node_allocatable_resource_mappings: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ResourceSliceSpec(_message.Message):
    __slots__ = ("driver", "pool", "node_name", "node_selector", "all_nodes", "devices", "per_device_node_selection", "shared_counters")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ALL_NODES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    PER_DEVICE_NODE_SELECTION_FIELD_NUMBER: _ClassVar[int]
    SHARED_COUNTERS_FIELD_NUMBER: _ClassVar[int]
    driver: str
    pool: ResourcePool
    node_name: str
    node_selector: NodeSelector
    all_nodes: bool
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    per_device_node_selection: bool
    shared_counters: _containers.RepeatedCompositeFieldContainer[CounterSet]
    def __init__(self, driver: _Optional[str] = ..., pool: _Optional[_Union[ResourcePool, _Mapping]] = ..., node_name: _Optional[str] = ..., node_selector: _Optional[_Union[NodeSelector, _Mapping]] = ..., all_nodes: _Optional[bool] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., per_device_node_selection: _Optional[bool] = ..., shared_counters: _Optional[_Iterable[_Union[CounterSet, _Mapping]]] = ...) -> None: ...

class ResourceSlice(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceSliceSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceSliceSpec, _Mapping]] = ...) -> None: ...

class DeviceTaintSelector(_message.Message):
    __slots__ = ("driver", "pool", "device")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    driver: str
    pool: str
    device: str
    def __init__(self, driver: _Optional[str] = ..., pool: _Optional[str] = ..., device: _Optional[str] = ...) -> None: ...

class DeviceTaintRuleSpec(_message.Message):
    __slots__ = ("device_selector", "taint")
    DEVICE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    device_selector: DeviceTaintSelector
    taint: Taint
    def __init__(self, device_selector: _Optional[_Union[DeviceTaintSelector, _Mapping]] = ..., taint: _Optional[_Union[Taint, _Mapping]] = ...) -> None: ...

class DeviceTaintRuleStatus(_message.Message):
    __slots__ = ("conditions",)
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class DeviceTaintRule(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec
    status: DeviceTaintRuleStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[DeviceTaintRuleSpec, _Mapping]] = ..., status: _Optional[_Union[DeviceTaintRuleStatus, _Mapping]] = ...) -> None: ...

class RollingUpdate(_message.Message):
    __slots__ = ("max_unavailable", "max_surge")
    MAX_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    MAX_SURGE_FIELD_NUMBER: _ClassVar[int]
    max_unavailable: str
    max_surge: str
    def __init__(self, max_unavailable: _Optional[str] = ..., max_surge: _Optional[str] = ...) -> None: ...

class UpdateStrategy(_message.Message):
    __slots__ = ("type", "rolling_update")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLLING_UPDATE_FIELD_NUMBER: _ClassVar[int]
    type: str
    rolling_update: RollingUpdate
    def __init__(self, type: _Optional[str] = ..., rolling_update: _Optional[_Union[RollingUpdate, _Mapping]] = ...) -> None: ...

class DeploymentSpec(_message.Message):
    __slots__ = ("replicas", "selector", "template", "strategy", "min_ready_seconds", "revision_history_limit", "paused", "progress_deadline_seconds")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    MIN_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_HISTORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    selector: LabelSelector
    template: PodTemplateSpec
    strategy: UpdateStrategy
    min_ready_seconds: int
    revision_history_limit: int
    paused: bool
    progress_deadline_seconds: int
    def __init__(self, replicas: _Optional[int] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., strategy: _Optional[_Union[UpdateStrategy, _Mapping]] = ..., min_ready_seconds: _Optional[int] = ..., revision_history_limit: _Optional[int] = ..., paused: _Optional[bool] = ..., progress_deadline_seconds: _Optional[int] = ...) -> None: ...

class WorkloadCondition(_message.Message):
    __slots__ = ("type", "status", "last_update_time", "last_probe_time", "last_transition_time", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_PROBE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    last_update_time: _timestamp_pb2.Timestamp
    last_probe_time: _timestamp_pb2.Timestamp
    last_transition_time: _timestamp_pb2.Timestamp
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., last_update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_probe_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class DeploymentStatus(_message.Message):
    __slots__ = ("observed_generation", "replicas", "updated_replicas", "ready_replicas", "available_replicas", "unavailable_replicas", "terminating_replicas", "conditions", "collision_count")
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    READY_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    COLLISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    observed_generation: int
    replicas: int
    updated_replicas: int
    ready_replicas: int
    available_replicas: int
    unavailable_replicas: int
    terminating_replicas: int
    conditions: _containers.RepeatedCompositeFieldContainer[WorkloadCondition]
    collision_count: int
    def __init__(self, observed_generation: _Optional[int] = ..., replicas: _Optional[int] = ..., updated_replicas: _Optional[int] = ..., ready_replicas: _Optional[int] = ..., available_replicas: _Optional[int] = ..., unavailable_replicas: _Optional[int] = ..., terminating_replicas: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[WorkloadCondition, _Mapping]]] = ..., collision_count: _Optional[int] = ...) -> None: ...

class Deployment(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: DeploymentSpec
    status: DeploymentStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[DeploymentSpec, _Mapping]] = ..., status: _Optional[_Union[DeploymentStatus, _Mapping]] = ...) -> None: ...

class DaemonSetSpec(_message.Message):
    __slots__ = ("selector", "template", "update_strategy", "min_ready_seconds", "revision_history_limit")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    MIN_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_HISTORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: UpdateStrategy
    min_ready_seconds: int
    revision_history_limit: int
    def __init__(self, selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., update_strategy: _Optional[_Union[UpdateStrategy, _Mapping]] = ..., min_ready_seconds: _Optional[int] = ..., revision_history_limit: _Optional[int] = ...) -> None: ...

class DaemonSetStatus(_message.Message):
    __slots__ = ("current_number_scheduled", "number_misscheduled", "desired_number_scheduled", "number_ready", "observed_generation", "updated_number_scheduled", "number_available", "number_unavailable", "collision_count", "conditions")
    CURRENT_NUMBER_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    NUMBER_MISSCHEDULED_FIELD_NUMBER: _ClassVar[int]
    DESIRED_NUMBER_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    NUMBER_READY_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    UPDATED_NUMBER_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    NUMBER_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    COLLISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    current_number_scheduled: int
    number_misscheduled: int
    desired_number_scheduled: int
    number_ready: int
    observed_generation: int
    updated_number_scheduled: int
    number_available: int
    number_unavailable: int
    collision_count: int
    conditions: _containers.RepeatedCompositeFieldContainer[WorkloadCondition]
    def __init__(self, current_number_scheduled: _Optional[int] = ..., number_misscheduled: _Optional[int] = ..., desired_number_scheduled: _Optional[int] = ..., number_ready: _Optional[int] = ..., observed_generation: _Optional[int] = ..., updated_number_scheduled: _Optional[int] = ..., number_available: _Optional[int] = ..., number_unavailable: _Optional[int] = ..., collision_count: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[WorkloadCondition, _Mapping]]] = ...) -> None: ...

class DaemonSet(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: DaemonSetSpec
    status: DaemonSetStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[DaemonSetSpec, _Mapping]] = ..., status: _Optional[_Union[DaemonSetStatus, _Mapping]] = ...) -> None: ...

class PodFailurePolicyOnExitCodes(_message.Message):
    __slots__ = ("container_name", "operator", "values")
    CONTAINER_NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    container_name: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, container_name: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[int]] = ...) -> None: ...

class PodFailurePolicyOnPodCondition(_message.Message):
    __slots__ = ("type", "status")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class PodFailurePolicyRule(_message.Message):
    __slots__ = ("action", "on_exit_codes", "on_pod_conditions")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ON_EXIT_CODES_FIELD_NUMBER: _ClassVar[int]
    ON_POD_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    action: str
    on_exit_codes: PodFailurePolicyOnExitCodes
    on_pod_conditions: _containers.RepeatedCompositeFieldContainer[PodFailurePolicyOnPodCondition]
    def __init__(self, action: _Optional[str] = ..., on_exit_codes: _Optional[_Union[PodFailurePolicyOnExitCodes, _Mapping]] = ..., on_pod_conditions: _Optional[_Iterable[_Union[PodFailurePolicyOnPodCondition, _Mapping]]] = ...) -> None: ...

class PodFailurePolicy(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[PodFailurePolicyRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[PodFailurePolicyRule, _Mapping]]] = ...) -> None: ...

class SuccessPolicyRule(_message.Message):
    __slots__ = ("succeeded_indexes", "succeeded_count")
    SUCCEEDED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    succeeded_indexes: str
    succeeded_count: int
    def __init__(self, succeeded_indexes: _Optional[str] = ..., succeeded_count: _Optional[int] = ...) -> None: ...

class SuccessPolicy(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[SuccessPolicyRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[SuccessPolicyRule, _Mapping]]] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("parallelism", "completions", "active_deadline_seconds", "pod_failure_policy", "success_policy", "backoff_limit", "backoff_limit_per_index", "max_failed_indexes", "selector", "manual_selector", "template", "ttl_seconds_after_finished", "completion_mode", "suspend", "pod_replacement_policy", "managed_by")
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POD_FAILURE_POLICY_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_POLICY_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_LIMIT_PER_INDEX_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MANUAL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_AFTER_FINISHED_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_MODE_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    POD_REPLACEMENT_POLICY_FIELD_NUMBER: _ClassVar[int]
    MANAGED_BY_FIELD_NUMBER: _ClassVar[int]
    parallelism: int
    completions: int
    active_deadline_seconds: int
    pod_failure_policy: PodFailurePolicy
    success_policy: SuccessPolicy
    backoff_limit: int
    backoff_limit_per_index: int
    max_failed_indexes: int
    selector: LabelSelector
    manual_selector: bool
    template: PodTemplateSpec
    ttl_seconds_after_finished: int
    completion_mode: str
    suspend: bool
    pod_replacement_policy: str
    managed_by: str
    def __init__(self, parallelism: _Optional[int] = ..., completions: _Optional[int] = ..., active_deadline_seconds: _Optional[int] = ..., pod_failure_policy: _Optional[_Union[PodFailurePolicy, _Mapping]] = ..., success_policy: _Optional[_Union[SuccessPolicy, _Mapping]] = ..., backoff_limit: _Optional[int] = ..., backoff_limit_per_index: _Optional[int] = ..., max_failed_indexes: _Optional[int] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., manual_selector: _Optional[bool] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ..., ttl_seconds_after_finished: _Optional[int] = ..., completion_mode: _Optional[str] = ..., suspend: _Optional[bool] = ..., pod_replacement_policy: _Optional[str] = ..., managed_by: _Optional[str] = ...) -> None: ...

class UncountedTerminatedPods(_message.Message):
    __slots__ = ("succeeded", "failed")
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    succeeded: _containers.RepeatedScalarFieldContainer[str]
    failed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, succeeded: _Optional[_Iterable[str]] = ..., failed: _Optional[_Iterable[str]] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("conditions", "start_time", "completion_time", "active", "succeeded", "failed", "terminating", "completed_indexes", "failed_indexes", "uncounted_terminated_pods", "ready")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    FAILED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_TERMINATED_PODS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[WorkloadCondition]
    start_time: _timestamp_pb2.Timestamp
    completion_time: _timestamp_pb2.Timestamp
    active: int
    succeeded: int
    failed: int
    terminating: int
    completed_indexes: str
    failed_indexes: str
    uncounted_terminated_pods: UncountedTerminatedPods
    ready: int
    def __init__(self, conditions: _Optional[_Iterable[_Union[WorkloadCondition, _Mapping]]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., completion_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., active: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., terminating: _Optional[int] = ..., completed_indexes: _Optional[str] = ..., failed_indexes: _Optional[str] = ..., uncounted_terminated_pods: _Optional[_Union[UncountedTerminatedPods, _Mapping]] = ..., ready: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., status: _Optional[_Union[JobStatus, _Mapping]] = ...) -> None: ...

class JobTemplateSpec(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: JobSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class CronJobSpec(_message.Message):
    __slots__ = ("schedule", "time_zone", "starting_deadline_seconds", "concurrency_policy", "suspend", "job_template", "successful_jobs_history_limit", "failed_jobs_history_limit")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    STARTING_DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_POLICY_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    JOB_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_JOBS_HISTORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    FAILED_JOBS_HISTORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    time_zone: str
    starting_deadline_seconds: int
    concurrency_policy: str
    suspend: bool
    job_template: JobTemplateSpec
    successful_jobs_history_limit: int
    failed_jobs_history_limit: int
    def __init__(self, schedule: _Optional[str] = ..., time_zone: _Optional[str] = ..., starting_deadline_seconds: _Optional[int] = ..., concurrency_policy: _Optional[str] = ..., suspend: _Optional[bool] = ..., job_template: _Optional[_Union[JobTemplateSpec, _Mapping]] = ..., successful_jobs_history_limit: _Optional[int] = ..., failed_jobs_history_limit: _Optional[int] = ...) -> None: ...

class CronJobStatus(_message.Message):
    __slots__ = ("active", "last_schedule_time", "last_successful_time")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_SCHEDULE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_SUCCESSFUL_TIME_FIELD_NUMBER: _ClassVar[int]
    active: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    last_schedule_time: _timestamp_pb2.Timestamp
    last_successful_time: _timestamp_pb2.Timestamp
    def __init__(self, active: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., last_schedule_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_successful_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CronJob(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: CronJobSpec
    status: CronJobStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[CronJobSpec, _Mapping]] = ..., status: _Optional[_Union[CronJobStatus, _Mapping]] = ...) -> None: ...

class PodTemplate(_message.Message):
    __slots__ = ("metadata", "template")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    template: PodTemplateSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., template: _Optional[_Union[PodTemplateSpec, _Mapping]] = ...) -> None: ...

class CrossVersionObjectReference(_message.Message):
    __slots__ = ("kind", "name", "api_version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    api_version: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., api_version: _Optional[str] = ...) -> None: ...

class HorizontalPodAutoscalerSpec(_message.Message):
    __slots__ = ("scale_target_ref", "min_replicas", "max_replicas", "metrics", "behavior")
    SCALE_TARGET_REF_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    scale_target_ref: CrossVersionObjectReference
    min_replicas: int
    max_replicas: int
    metrics: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    behavior: _struct_pb2.Struct
    def __init__(self, scale_target_ref: _Optional[_Union[CrossVersionObjectReference, _Mapping]] = ..., min_replicas: _Optional[int] = ..., max_replicas: _Optional[int] = ..., metrics: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., behavior: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class HorizontalPodAutoscalerStatus(_message.Message):
    __slots__ = ("observed_generation", "last_scale_time", "current_replicas", "desired_replicas", "current_metrics", "conditions")
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    LAST_SCALE_TIME_FIELD_NUMBER: _ClassVar[int]
    CURRENT_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DESIRED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_METRICS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    observed_generation: int
    last_scale_time: _timestamp_pb2.Timestamp
    current_replicas: int
    desired_replicas: int
    current_metrics: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    conditions: _containers.RepeatedCompositeFieldContainer[WorkloadCondition]
    def __init__(self, observed_generation: _Optional[int] = ..., last_scale_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., current_replicas: _Optional[int] = ..., desired_replicas: _Optional[int] = ..., current_metrics: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., conditions: _Optional[_Iterable[_Union[WorkloadCondition, _Mapping]]] = ...) -> None: ...

class HorizontalPodAutoscaler(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[HorizontalPodAutoscalerSpec, _Mapping]] = ..., status: _Optional[_Union[HorizontalPodAutoscalerStatus, _Mapping]] = ...) -> None: ...

class EndpointAddress(_message.Message):
    __slots__ = ("ip", "hostname", "node_name", "target_ref")
    IP_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_REF_FIELD_NUMBER: _ClassVar[int]
    ip: str
    hostname: str
    node_name: str
    target_ref: ObjectReference
    def __init__(self, ip: _Optional[str] = ..., hostname: _Optional[str] = ..., node_name: _Optional[str] = ..., target_ref: _Optional[_Union[ObjectReference, _Mapping]] = ...) -> None: ...

class EndpointPort(_message.Message):
    __slots__ = ("name", "port", "protocol", "app_protocol")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    APP_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: int
    protocol: str
    app_protocol: str
    def __init__(self, name: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., app_protocol: _Optional[str] = ...) -> None: ...

class EndpointSubset(_message.Message):
    __slots__ = ("addresses", "not_ready_addresses", "ports")
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedCompositeFieldContainer[EndpointAddress]
    not_ready_addresses: _containers.RepeatedCompositeFieldContainer[EndpointAddress]
    ports: _containers.RepeatedCompositeFieldContainer[EndpointPort]
    def __init__(self, addresses: _Optional[_Iterable[_Union[EndpointAddress, _Mapping]]] = ..., not_ready_addresses: _Optional[_Iterable[_Union[EndpointAddress, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[EndpointPort, _Mapping]]] = ...) -> None: ...

class Endpoints(_message.Message):
    __slots__ = ("metadata", "subsets")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SUBSETS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    subsets: _containers.RepeatedCompositeFieldContainer[EndpointSubset]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., subsets: _Optional[_Iterable[_Union[EndpointSubset, _Mapping]]] = ...) -> None: ...

class EndpointConditions(_message.Message):
    __slots__ = ("ready", "serving", "terminating")
    READY_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    serving: bool
    terminating: bool
    def __init__(self, ready: _Optional[bool] = ..., serving: _Optional[bool] = ..., terminating: _Optional[bool] = ...) -> None: ...

class EndpointHint(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class EndpointHints(_message.Message):
    __slots__ = ("for_zones", "for_nodes")
    FOR_ZONES_FIELD_NUMBER: _ClassVar[int]
    FOR_NODES_FIELD_NUMBER: _ClassVar[int]
    for_zones: _containers.RepeatedCompositeFieldContainer[EndpointHint]
    for_nodes: _containers.RepeatedCompositeFieldContainer[EndpointHint]
    def __init__(self, for_zones: _Optional[_Iterable[_Union[EndpointHint, _Mapping]]] = ..., for_nodes: _Optional[_Iterable[_Union[EndpointHint, _Mapping]]] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("addresses", "conditions", "hostname", "target_ref", "deprecated_topology", "node_name", "zone", "hints")
    class DeprecatedTopologyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_REF_FIELD_NUMBER: _ClassVar[int]
    DEPRECATED_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    conditions: EndpointConditions
    hostname: str
    target_ref: ObjectReference
    deprecated_topology: _containers.ScalarMap[str, str]
    node_name: str
    zone: str
    hints: EndpointHints
    def __init__(self, addresses: _Optional[_Iterable[str]] = ..., conditions: _Optional[_Union[EndpointConditions, _Mapping]] = ..., hostname: _Optional[str] = ..., target_ref: _Optional[_Union[ObjectReference, _Mapping]] = ..., deprecated_topology: _Optional[_Mapping[str, str]] = ..., node_name: _Optional[str] = ..., zone: _Optional[str] = ..., hints: _Optional[_Union[EndpointHints, _Mapping]] = ...) -> None: ...

class EndpointSlice(_message.Message):
    __slots__ = ("metadata", "address_type", "endpoints", "ports")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    address_type: str
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    ports: _containers.RepeatedCompositeFieldContainer[EndpointPort]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., address_type: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[EndpointPort, _Mapping]]] = ...) -> None: ...

class Secret(_message.Message):
    __slots__ = ("metadata", "data", "type", "immutable", "string_data")
    class DataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class StringDataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    IMMUTABLE_FIELD_NUMBER: _ClassVar[int]
    STRING_DATA_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    data: _containers.ScalarMap[str, str]
    type: str
    immutable: bool
    string_data: _containers.ScalarMap[str, str]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., data: _Optional[_Mapping[str, str]] = ..., type: _Optional[str] = ..., immutable: _Optional[bool] = ..., string_data: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ServiceAccount(_message.Message):
    __slots__ = ("metadata", "secrets", "image_pull_secrets", "automount_service_account_token")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_PULL_SECRETS_FIELD_NUMBER: _ClassVar[int]
    AUTOMOUNT_SERVICE_ACCOUNT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    secrets: _containers.RepeatedCompositeFieldContainer[ObjectReference]
    image_pull_secrets: _containers.RepeatedCompositeFieldContainer[LocalObjectReference]
    automount_service_account_token: bool
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., secrets: _Optional[_Iterable[_Union[ObjectReference, _Mapping]]] = ..., image_pull_secrets: _Optional[_Iterable[_Union[LocalObjectReference, _Mapping]]] = ..., automount_service_account_token: _Optional[bool] = ...) -> None: ...

class CertificateSigningRequestSpec(_message.Message):
    __slots__ = ("request", "signer_name", "expiration_seconds", "usages", "username", "uid", "groups", "extra")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNER_NAME_FIELD_NUMBER: _ClassVar[int]
    EXPIRATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    USAGES_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    request: str
    signer_name: str
    expiration_seconds: int
    usages: _containers.RepeatedScalarFieldContainer[str]
    username: str
    uid: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    extra: _struct_pb2.Struct
    def __init__(self, request: _Optional[str] = ..., signer_name: _Optional[str] = ..., expiration_seconds: _Optional[int] = ..., usages: _Optional[_Iterable[str]] = ..., username: _Optional[str] = ..., uid: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., extra: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class CertificateSigningRequestCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message", "last_update_time", "last_transition_time")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    last_update_time: _timestamp_pb2.Timestamp
    last_transition_time: _timestamp_pb2.Timestamp
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., last_update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_transition_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CertificateSigningRequestStatus(_message.Message):
    __slots__ = ("conditions", "certificate")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[CertificateSigningRequestCondition]
    certificate: str
    def __init__(self, conditions: _Optional[_Iterable[_Union[CertificateSigningRequestCondition, _Mapping]]] = ..., certificate: _Optional[str] = ...) -> None: ...

class CertificateSigningRequest(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: CertificateSigningRequestSpec
    status: CertificateSigningRequestStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[CertificateSigningRequestSpec, _Mapping]] = ..., status: _Optional[_Union[CertificateSigningRequestStatus, _Mapping]] = ...) -> None: ...

class ResourceFlavorSpec(_message.Message):
    __slots__ = ("node_labels", "node_taints", "tolerations", "topology_name")
    class NodeLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_LABELS_FIELD_NUMBER: _ClassVar[int]
    NODE_TAINTS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_NAME_FIELD_NUMBER: _ClassVar[int]
    node_labels: _containers.ScalarMap[str, str]
    node_taints: _containers.RepeatedCompositeFieldContainer[Taint]
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    topology_name: str
    def __init__(self, node_labels: _Optional[_Mapping[str, str]] = ..., node_taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., topology_name: _Optional[str] = ...) -> None: ...

class ResourceFlavor(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ResourceFlavorSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ResourceFlavorSpec, _Mapping]] = ...) -> None: ...

class FlavorResourceQuota(_message.Message):
    __slots__ = ("name", "nominal_quota", "borrowing_limit", "lending_limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOMINAL_QUOTA_FIELD_NUMBER: _ClassVar[int]
    BORROWING_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LENDING_LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    nominal_quota: str
    borrowing_limit: str
    lending_limit: str
    def __init__(self, name: _Optional[str] = ..., nominal_quota: _Optional[str] = ..., borrowing_limit: _Optional[str] = ..., lending_limit: _Optional[str] = ...) -> None: ...

class FlavorQuotas(_message.Message):
    __slots__ = ("name", "resources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    resources: _containers.RepeatedCompositeFieldContainer[FlavorResourceQuota]
    def __init__(self, name: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[FlavorResourceQuota, _Mapping]]] = ...) -> None: ...

class ResourceGroup(_message.Message):
    __slots__ = ("covered_resources", "flavors")
    COVERED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    FLAVORS_FIELD_NUMBER: _ClassVar[int]
    covered_resources: _containers.RepeatedScalarFieldContainer[str]
    flavors: _containers.RepeatedCompositeFieldContainer[FlavorQuotas]
    def __init__(self, covered_resources: _Optional[_Iterable[str]] = ..., flavors: _Optional[_Iterable[_Union[FlavorQuotas, _Mapping]]] = ...) -> None: ...

class FlavorFungibility(_message.Message):
    __slots__ = ("when_can_borrow", "when_can_preempt", "preference")
    WHEN_CAN_BORROW_FIELD_NUMBER: _ClassVar[int]
    WHEN_CAN_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    when_can_borrow: str
    when_can_preempt: str
    preference: str
    def __init__(self, when_can_borrow: _Optional[str] = ..., when_can_preempt: _Optional[str] = ..., preference: _Optional[str] = ...) -> None: ...

class BorrowWithinCohort(_message.Message):
    __slots__ = ("policy", "max_priority_threshold")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    policy: str
    max_priority_threshold: int
    def __init__(self, policy: _Optional[str] = ..., max_priority_threshold: _Optional[int] = ...) -> None: ...

class ClusterQueuePreemption(_message.Message):
    __slots__ = ("reclaim_within_cohort", "borrow_within_cohort", "within_cluster_queue")
    RECLAIM_WITHIN_COHORT_FIELD_NUMBER: _ClassVar[int]
    BORROW_WITHIN_COHORT_FIELD_NUMBER: _ClassVar[int]
    WITHIN_CLUSTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    reclaim_within_cohort: str
    borrow_within_cohort: BorrowWithinCohort
    within_cluster_queue: str
    def __init__(self, reclaim_within_cohort: _Optional[str] = ..., borrow_within_cohort: _Optional[_Union[BorrowWithinCohort, _Mapping]] = ..., within_cluster_queue: _Optional[str] = ...) -> None: ...

class AdmissionCheckStrategyRule(_message.Message):
    __slots__ = ("name", "on_flavors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ON_FLAVORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    on_flavors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., on_flavors: _Optional[_Iterable[str]] = ...) -> None: ...

class AdmissionChecksStrategy(_message.Message):
    __slots__ = ("admission_checks",)
    ADMISSION_CHECKS_FIELD_NUMBER: _ClassVar[int]
    admission_checks: _containers.RepeatedCompositeFieldContainer[AdmissionCheckStrategyRule]
    def __init__(self, admission_checks: _Optional[_Iterable[_Union[AdmissionCheckStrategyRule, _Mapping]]] = ...) -> None: ...

class FairSharing(_message.Message):
    __slots__ = ("weight",)
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    weight: str
    def __init__(self, weight: _Optional[str] = ...) -> None: ...

class AdmissionScope(_message.Message):
    __slots__ = ("admission_mode",)
    ADMISSION_MODE_FIELD_NUMBER: _ClassVar[int]
    admission_mode: str
    def __init__(self, admission_mode: _Optional[str] = ...) -> None: ...

class ClusterQueueSpec(_message.Message):
    __slots__ = ("resource_groups", "cohort_name", "queueing_strategy", "namespace_selector", "flavor_fungibility", "preemption", "admission_checks_strategy", "stop_policy", "fair_sharing", "admission_scope", "concurrent_admission_policy")
    RESOURCE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    COHORT_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUEING_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FLAVOR_FUNGIBILITY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_CHECKS_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    STOP_POLICY_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_SCOPE_FIELD_NUMBER: _ClassVar[int]
    CONCURRENT_ADMISSION_POLICY_FIELD_NUMBER: _ClassVar[int]
    resource_groups: _containers.RepeatedCompositeFieldContainer[ResourceGroup]
    cohort_name: str
    queueing_strategy: str
    namespace_selector: LabelSelector
    flavor_fungibility: FlavorFungibility
    preemption: ClusterQueuePreemption
    admission_checks_strategy: AdmissionChecksStrategy
    stop_policy: str
    fair_sharing: FairSharing
    admission_scope: AdmissionScope
    concurrent_admission_policy: _struct_pb2.Struct
    def __init__(self, resource_groups: _Optional[_Iterable[_Union[ResourceGroup, _Mapping]]] = ..., cohort_name: _Optional[str] = ..., queueing_strategy: _Optional[str] = ..., namespace_selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., flavor_fungibility: _Optional[_Union[FlavorFungibility, _Mapping]] = ..., preemption: _Optional[_Union[ClusterQueuePreemption, _Mapping]] = ..., admission_checks_strategy: _Optional[_Union[AdmissionChecksStrategy, _Mapping]] = ..., stop_policy: _Optional[str] = ..., fair_sharing: _Optional[_Union[FairSharing, _Mapping]] = ..., admission_scope: _Optional[_Union[AdmissionScope, _Mapping]] = ..., concurrent_admission_policy: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ResourceUsage(_message.Message):
    __slots__ = ("name", "total", "borrowed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    name: str
    total: str
    borrowed: str
    def __init__(self, name: _Optional[str] = ..., total: _Optional[str] = ..., borrowed: _Optional[str] = ...) -> None: ...

class FlavorUsage(_message.Message):
    __slots__ = ("name", "resources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    resources: _containers.RepeatedCompositeFieldContainer[ResourceUsage]
    def __init__(self, name: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[ResourceUsage, _Mapping]]] = ...) -> None: ...

class FairSharingStatus(_message.Message):
    __slots__ = ("weighted_share",)
    WEIGHTED_SHARE_FIELD_NUMBER: _ClassVar[int]
    weighted_share: int
    def __init__(self, weighted_share: _Optional[int] = ...) -> None: ...

class ClusterQueueStatus(_message.Message):
    __slots__ = ("conditions", "flavors_reservation", "flavors_usage", "pending_workloads", "reserving_workloads", "admitted_workloads", "fair_sharing")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    FLAVORS_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    FLAVORS_USAGE_FIELD_NUMBER: _ClassVar[int]
    PENDING_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    RESERVING_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    flavors_reservation: _containers.RepeatedCompositeFieldContainer[FlavorUsage]
    flavors_usage: _containers.RepeatedCompositeFieldContainer[FlavorUsage]
    pending_workloads: int
    reserving_workloads: int
    admitted_workloads: int
    fair_sharing: FairSharingStatus
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., flavors_reservation: _Optional[_Iterable[_Union[FlavorUsage, _Mapping]]] = ..., flavors_usage: _Optional[_Iterable[_Union[FlavorUsage, _Mapping]]] = ..., pending_workloads: _Optional[int] = ..., reserving_workloads: _Optional[int] = ..., admitted_workloads: _Optional[int] = ..., fair_sharing: _Optional[_Union[FairSharingStatus, _Mapping]] = ...) -> None: ...

class ClusterQueue(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ClusterQueueSpec
    status: ClusterQueueStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ClusterQueueSpec, _Mapping]] = ..., status: _Optional[_Union[ClusterQueueStatus, _Mapping]] = ...) -> None: ...

class LocalQueueSpec(_message.Message):
    __slots__ = ("cluster_queue", "stop_policy", "fair_sharing")
    CLUSTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    STOP_POLICY_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    cluster_queue: str
    stop_policy: str
    fair_sharing: FairSharing
    def __init__(self, cluster_queue: _Optional[str] = ..., stop_policy: _Optional[str] = ..., fair_sharing: _Optional[_Union[FairSharing, _Mapping]] = ...) -> None: ...

class LocalQueueAdmissionFairSharingStatus(_message.Message):
    __slots__ = ("consumed_resources", "last_update")
    class ConsumedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONSUMED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_FIELD_NUMBER: _ClassVar[int]
    consumed_resources: _containers.ScalarMap[str, str]
    last_update: _timestamp_pb2.Timestamp
    def __init__(self, consumed_resources: _Optional[_Mapping[str, str]] = ..., last_update: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LocalQueueFairSharingStatus(_message.Message):
    __slots__ = ("weighted_share", "admission_fair_sharing_status")
    WEIGHTED_SHARE_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FAIR_SHARING_STATUS_FIELD_NUMBER: _ClassVar[int]
    weighted_share: int
    admission_fair_sharing_status: LocalQueueAdmissionFairSharingStatus
    def __init__(self, weighted_share: _Optional[int] = ..., admission_fair_sharing_status: _Optional[_Union[LocalQueueAdmissionFairSharingStatus, _Mapping]] = ...) -> None: ...

class LocalQueueStatus(_message.Message):
    __slots__ = ("conditions", "pending_workloads", "reserving_workloads", "admitted_workloads", "flavors_reservation", "flavors_usage", "fair_sharing")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    RESERVING_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    FLAVORS_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    FLAVORS_USAGE_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    pending_workloads: int
    reserving_workloads: int
    admitted_workloads: int
    flavors_reservation: _containers.RepeatedCompositeFieldContainer[FlavorUsage]
    flavors_usage: _containers.RepeatedCompositeFieldContainer[FlavorUsage]
    fair_sharing: LocalQueueFairSharingStatus
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., pending_workloads: _Optional[int] = ..., reserving_workloads: _Optional[int] = ..., admitted_workloads: _Optional[int] = ..., flavors_reservation: _Optional[_Iterable[_Union[FlavorUsage, _Mapping]]] = ..., flavors_usage: _Optional[_Iterable[_Union[FlavorUsage, _Mapping]]] = ..., fair_sharing: _Optional[_Union[LocalQueueFairSharingStatus, _Mapping]] = ...) -> None: ...

class LocalQueue(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: LocalQueueSpec
    status: LocalQueueStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[LocalQueueSpec, _Mapping]] = ..., status: _Optional[_Union[LocalQueueStatus, _Mapping]] = ...) -> None: ...

class CohortSpec(_message.Message):
    __slots__ = ("parent_name", "resource_groups", "fair_sharing")
    PARENT_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    parent_name: str
    resource_groups: _containers.RepeatedCompositeFieldContainer[ResourceGroup]
    fair_sharing: FairSharing
    def __init__(self, parent_name: _Optional[str] = ..., resource_groups: _Optional[_Iterable[_Union[ResourceGroup, _Mapping]]] = ..., fair_sharing: _Optional[_Union[FairSharing, _Mapping]] = ...) -> None: ...

class CohortStatus(_message.Message):
    __slots__ = ("fair_sharing",)
    FAIR_SHARING_FIELD_NUMBER: _ClassVar[int]
    fair_sharing: FairSharingStatus
    def __init__(self, fair_sharing: _Optional[_Union[FairSharingStatus, _Mapping]] = ...) -> None: ...

class Cohort(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: CohortSpec
    status: CohortStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[CohortSpec, _Mapping]] = ..., status: _Optional[_Union[CohortStatus, _Mapping]] = ...) -> None: ...

class WorkloadPriorityClass(_message.Message):
    __slots__ = ("metadata", "value", "description")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    value: int
    description: str
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., value: _Optional[int] = ..., description: _Optional[str] = ...) -> None: ...

class TopologyLevel(_message.Message):
    __slots__ = ("node_label",)
    NODE_LABEL_FIELD_NUMBER: _ClassVar[int]
    node_label: str
    def __init__(self, node_label: _Optional[str] = ...) -> None: ...

class TopologySpec(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[TopologyLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[TopologyLevel, _Mapping]]] = ...) -> None: ...

class Topology(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: TopologySpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[TopologySpec, _Mapping]] = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ("pod", "node", "namespace", "priority_class", "pod_disruption_budget", "service", "replica_set", "stateful_set", "replication_controller", "persistent_volume", "persistent_volume_claim", "storage_class", "csi_node", "csi_driver", "csi_storage_capacity", "volume_attachment", "event", "lease", "role", "cluster_role", "role_binding", "cluster_role_binding", "config_map", "resource_quota", "runtime_class", "limit_range", "controller_revision", "workload", "pod_group", "device_class", "resource_claim", "resource_claim_template", "resource_slice", "device_taint_rule", "deployment", "daemon_set", "job", "cron_job", "pod_template", "horizontal_pod_autoscaler", "endpoints", "endpoint_slice", "secret", "service_account", "resource_flavor", "cluster_queue", "local_queue", "cohort", "workload_priority_class", "topology", "certificate_signing_request")
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
    CONTROLLER_REVISION_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_CLAIM_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_SLICE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TAINT_RULE_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    DAEMON_SET_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    CRON_JOB_FIELD_NUMBER: _ClassVar[int]
    POD_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    HORIZONTAL_POD_AUTOSCALER_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_SLICE_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FLAVOR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_QUEUE_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SIGNING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    pod: Pod
    node: Node
    namespace: Namespace
    priority_class: PriorityClass
    pod_disruption_budget: PodDisruptionBudget
    service: Service
    replica_set: ReplicaSet
    stateful_set: StatefulSet
    replication_controller: ReplicationController
    persistent_volume: PersistentVolume
    persistent_volume_claim: PersistentVolumeClaim
    storage_class: StorageClass
    csi_node: CSINode
    csi_driver: CSIDriver
    csi_storage_capacity: CSIStorageCapacity
    volume_attachment: VolumeAttachment
    event: Event
    lease: Lease
    role: Role
    cluster_role: ClusterRole
    role_binding: RoleBinding
    cluster_role_binding: ClusterRoleBinding
    config_map: ConfigMap
    resource_quota: ResourceQuota
    runtime_class: RuntimeClass
    limit_range: LimitRange
    controller_revision: ControllerRevision
    workload: Workload
    pod_group: PodGroup
    device_class: DeviceClass
    resource_claim: ResourceClaim
    resource_claim_template: ResourceClaimTemplate
    resource_slice: ResourceSlice
    device_taint_rule: DeviceTaintRule
    deployment: Deployment
    daemon_set: DaemonSet
    job: Job
    cron_job: CronJob
    pod_template: PodTemplate
    horizontal_pod_autoscaler: HorizontalPodAutoscaler
    endpoints: Endpoints
    endpoint_slice: EndpointSlice
    secret: Secret
    service_account: ServiceAccount
    resource_flavor: ResourceFlavor
    cluster_queue: ClusterQueue
    local_queue: LocalQueue
    cohort: Cohort
    workload_priority_class: WorkloadPriorityClass
    topology: Topology
    certificate_signing_request: CertificateSigningRequest
    def __init__(self, pod: _Optional[_Union[Pod, _Mapping]] = ..., node: _Optional[_Union[Node, _Mapping]] = ..., namespace: _Optional[_Union[Namespace, _Mapping]] = ..., priority_class: _Optional[_Union[PriorityClass, _Mapping]] = ..., pod_disruption_budget: _Optional[_Union[PodDisruptionBudget, _Mapping]] = ..., service: _Optional[_Union[Service, _Mapping]] = ..., replica_set: _Optional[_Union[ReplicaSet, _Mapping]] = ..., stateful_set: _Optional[_Union[StatefulSet, _Mapping]] = ..., replication_controller: _Optional[_Union[ReplicationController, _Mapping]] = ..., persistent_volume: _Optional[_Union[PersistentVolume, _Mapping]] = ..., persistent_volume_claim: _Optional[_Union[PersistentVolumeClaim, _Mapping]] = ..., storage_class: _Optional[_Union[StorageClass, _Mapping]] = ..., csi_node: _Optional[_Union[CSINode, _Mapping]] = ..., csi_driver: _Optional[_Union[CSIDriver, _Mapping]] = ..., csi_storage_capacity: _Optional[_Union[CSIStorageCapacity, _Mapping]] = ..., volume_attachment: _Optional[_Union[VolumeAttachment, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., role: _Optional[_Union[Role, _Mapping]] = ..., cluster_role: _Optional[_Union[ClusterRole, _Mapping]] = ..., role_binding: _Optional[_Union[RoleBinding, _Mapping]] = ..., cluster_role_binding: _Optional[_Union[ClusterRoleBinding, _Mapping]] = ..., config_map: _Optional[_Union[ConfigMap, _Mapping]] = ..., resource_quota: _Optional[_Union[ResourceQuota, _Mapping]] = ..., runtime_class: _Optional[_Union[RuntimeClass, _Mapping]] = ..., limit_range: _Optional[_Union[LimitRange, _Mapping]] = ..., controller_revision: _Optional[_Union[ControllerRevision, _Mapping]] = ..., workload: _Optional[_Union[Workload, _Mapping]] = ..., pod_group: _Optional[_Union[PodGroup, _Mapping]] = ..., device_class: _Optional[_Union[DeviceClass, _Mapping]] = ..., resource_claim: _Optional[_Union[ResourceClaim, _Mapping]] = ..., resource_claim_template: _Optional[_Union[ResourceClaimTemplate, _Mapping]] = ..., resource_slice: _Optional[_Union[ResourceSlice, _Mapping]] = ..., device_taint_rule: _Optional[_Union[DeviceTaintRule, _Mapping]] = ..., deployment: _Optional[_Union[Deployment, _Mapping]] = ..., daemon_set: _Optional[_Union[DaemonSet, _Mapping]] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., cron_job: _Optional[_Union[CronJob, _Mapping]] = ..., pod_template: _Optional[_Union[PodTemplate, _Mapping]] = ..., horizontal_pod_autoscaler: _Optional[_Union[HorizontalPodAutoscaler, _Mapping]] = ..., endpoints: _Optional[_Union[Endpoints, _Mapping]] = ..., endpoint_slice: _Optional[_Union[EndpointSlice, _Mapping]] = ..., secret: _Optional[_Union[Secret, _Mapping]] = ..., service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ..., resource_flavor: _Optional[_Union[ResourceFlavor, _Mapping]] = ..., cluster_queue: _Optional[_Union[ClusterQueue, _Mapping]] = ..., local_queue: _Optional[_Union[LocalQueue, _Mapping]] = ..., cohort: _Optional[_Union[Cohort, _Mapping]] = ..., workload_priority_class: _Optional[_Union[WorkloadPriorityClass, _Mapping]] = ..., topology: _Optional[_Union[Topology, _Mapping]] = ..., certificate_signing_request: _Optional[_Union[CertificateSigningRequest, _Mapping]] = ...) -> None: ...
