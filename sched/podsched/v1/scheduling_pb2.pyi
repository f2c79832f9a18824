import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from podsched.v1 import decisions_pb2 as _decisions_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PodState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POD_STATE_UNSPECIFIED: _ClassVar[PodState]
    PENDING: _ClassVar[PodState]
    BINDING: _ClassVar[PodState]
    BOUND: _ClassVar[PodState]
    FINISHED: _ClassVar[PodState]
    OTHER_SCHEDULER: _ClassVar[PodState]
    DELETING: _ClassVar[PodState]
POD_STATE_UNSPECIFIED: PodState
PENDING: PodState
BINDING: PodState
BOUND: PodState
FINISHED: PodState
OTHER_SCHEDULER: PodState
DELETING: PodState

class ReplicaMessage(_message.Message):
    __slots__ = ("state", "answer")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    state: ReplicaState
    answer: Answer
    def __init__(self, state: _Optional[_Union[ReplicaState, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class ReplicaState(_message.Message):
    __slots__ = ("name", "identity", "leading", "term")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LEADING_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    name: str
    identity: str
    leading: bool
    term: int
    def __init__(self, name: _Optional[str] = ..., identity: _Optional[str] = ..., leading: _Optional[bool] = ..., term: _Optional[int] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("id", "timeout_seconds", "revision", "explain", "cancel", "decisions", "apply_config", "checkpoint")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    APPLY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    id: int
    timeout_seconds: float
    revision: int
    explain: ExplainRequest
    cancel: bool
    decisions: _decisions_pb2.DecisionsRequest
    apply_config: ApplyConfigRequest
    checkpoint: CheckpointRequest
    def __init__(self, id: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., revision: _Optional[int] = ..., explain: _Optional[_Union[ExplainRequest, _Mapping]] = ..., cancel: _Optional[bool] = ..., decisions: _Optional[_Union[_decisions_pb2.DecisionsRequest, _Mapping]] = ..., apply_config: _Optional[_Union[ApplyConfigRequest, _Mapping]] = ..., checkpoint: _Optional[_Union[CheckpointRequest, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("id", "code", "message", "more", "explanation", "decisions", "config", "checkpoint")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    id: int
    code: int
    message: str
    more: bool
    explanation: Explanation
    decisions: _decisions_pb2.DecisionsResponse
    config: ConfigOutcome
    checkpoint: SchedulingCheckpoint
    def __init__(self, id: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., more: _Optional[bool] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., decisions: _Optional[_Union[_decisions_pb2.DecisionsResponse, _Mapping]] = ..., config: _Optional[_Union[ConfigOutcome, _Mapping]] = ..., checkpoint: _Optional[_Union[SchedulingCheckpoint, _Mapping]] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SchedulingCheckpoint(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class ApplyConfigRequest(_message.Message):
    __slots__ = ("scheduler_configuration", "validate_only")
    SCHEDULER_CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    scheduler_configuration: str
    validate_only: bool
    def __init__(self, scheduler_configuration: _Optional[str] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ConfigOutcome(_message.Message):
    __slots__ = ("replica", "leading", "applied", "errors", "warnings", "profiles")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    LEADING_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    replica: str
    leading: bool
    applied: bool
    errors: _containers.RepeatedScalarFieldContainer[str]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    profiles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, replica: _Optional[str] = ..., leading: _Optional[bool] = ..., applied: _Optional[bool] = ..., errors: _Optional[_Iterable[str]] = ..., warnings: _Optional[_Iterable[str]] = ..., profiles: _Optional[_Iterable[str]] = ...) -> None: ...

class ApplyConfigResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ConfigOutcome]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ConfigOutcome, _Mapping]]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("namespace", "name", "replica", "nodes", "changes", "kind")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    replica: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    changes: bool
    kind: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., replica: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., changes: _Optional[bool] = ..., kind: _Optional[str] = ...) -> None: ...

class PodReference(_message.Message):
    __slots__ = ("namespace", "name", "uid", "priority", "node_name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    priority: int
    node_name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., priority: _Optional[int] = ..., node_name: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("pod", "state", "scheduler_name", "message", "answered_by", "queue", "attempts", "nominations", "nodes", "feasible_nodes", "funnel", "groups", "node_verdicts", "wake_events", "preemption", "scores", "tied_nodes", "decision", "changes", "eta", "notes", "pod_group", "admission")
    POD_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NOMINATIONS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    FUNNEL_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NODE_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    WAKE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    TIED_NODES_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    pod: PodReference
    state: PodState
    scheduler_name: str
    message: str
    answered_by: AnsweredBy
    queue: QueueStanding
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    nominations: _containers.RepeatedCompositeFieldContainer[Nomination]
    nodes: int
    feasible_nodes: int
    funnel: _containers.RepeatedCompositeFieldContainer[FunnelStep]
    groups: _containers.RepeatedCompositeFieldContainer[NodeGroup]
    node_verdicts: _containers.RepeatedCompositeFieldContainer[NodeVerdict]
    wake_events: _containers.RepeatedCompositeFieldContainer[WakeEvent]
    preemption: Preemption
    scores: _containers.RepeatedCompositeFieldContainer[NodeScore]
    tied_nodes: int
    decision: DecisionFacts
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    eta: Eta
    notes: _containers.RepeatedScalarFieldContainer[str]
    pod_group: PodGroupStanding
    admission: QueueAdmission
    def __init__(self, pod: _Optional[_Union[PodReference, _Mapping]] = ..., state: _Optional[_Union[PodState, str]] = ..., scheduler_name: _Optional[str] = ..., message: _Optional[str] = ..., answered_by: _Optional[_Union[AnsweredBy, _Mapping]] = ..., queue: _Optional[_Union[QueueStanding, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., nominations: _Optional[_Iterable[_Union[Nomination, _Mapping]]] = ..., nodes: _Optional[int] = ..., feasible_nodes: _Optional[int] = ..., funnel: _Optional[_Iterable[_Union[FunnelStep, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[NodeGroup, _Mapping]]] = ..., node_verdicts: _Optional[_Iterable[_Union[NodeVerdict, _Mapping]]] = ..., wake_events: _Optional[_Iterable[_Union[WakeEvent, _Mapping]]] = ..., preemption: _Optional[_Union[Preemption, _Mapping]] = ..., scores: _Optional[_Iterable[_Union[NodeScore, _Mapping]]] = ..., tied_nodes: _Optional[int] = ..., decision: _Optional[_Union[DecisionFacts, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., eta: _Optional[_Union[Eta, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ..., pod_group: _Optional[_Union[PodGroupStanding, _Mapping]] = ..., admission: _Optional[_Union[QueueAdmission, _Mapping]] = ...) -> None: ...

class QueueAdmission(_message.Message):
    __slots__ = ("sentence", "local_queue", "cluster_queue", "ahead", "ahead_admissible", "first", "shortages", "victims", "changes", "nodes")
    class Shortage(_message.Message):
        __slots__ = ("flavor", "resource", "needed", "available", "missing", "most", "beyond_maximum", "borrowers")
        FLAVOR_FIELD_NUMBER: _ClassVar[int]
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        NEEDED_FIELD_NUMBER: _ClassVar[int]
        AVAILABLE_FIELD_NUMBER: _ClassVar[int]
        MISSING_FIELD_NUMBER: _ClassVar[int]
        MOST_FIELD_NUMBER: _ClassVar[int]
        BEYOND_MAXIMUM_FIELD_NUMBER: _ClassVar[int]
        BORROWERS_FIELD_NUMBER: _ClassVar[int]
        flavor: str
        resource: str
        needed: str
        available: str
        missing: str
        most: str
        beyond_maximum: bool
        borrowers: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, flavor: _Optional[str] = ..., resource: _Optional[str] = ..., needed: _Optional[str] = ..., available: _Optional[str] = ..., missing: _Optional[str] = ..., most: _Optional[str] = ..., beyond_maximum: _Optional[bool] = ..., borrowers: _Optional[_Iterable[str]] = ...) -> None: ...
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_QUEUE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    AHEAD_ADMISSIBLE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SHORTAGES_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    local_queue: str
    cluster_queue: str
    ahead: int
    ahead_admissible: int
    first: _containers.RepeatedScalarFieldContainer[str]
    shortages: _containers.RepeatedCompositeFieldContainer[QueueAdmission.Shortage]
    victims: _containers.RepeatedScalarFieldContainer[str]
    changes: _containers.RepeatedScalarFieldContainer[str]
    nodes: str
    def __init__(self, sentence: _Optional[str] = ..., local_queue: _Optional[str] = ..., cluster_queue: _Optional[str] = ..., ahead: _Optional[int] = ..., ahead_admissible: _Optional[int] = ..., first: _Optional[_Iterable[str]] = ..., shortages: _Optional[_Iterable[_Union[QueueAdmission.Shortage, _Mapping]]] = ..., victims: _Optional[_Iterable[str]] = ..., changes: _Optional[_Iterable[str]] = ..., nodes: _Optional[str] = ...) -> None: ...

class PodGroupStanding(_message.Message):
    __slots__ = ("name", "exists", "min_count", "members", "with_node", "message", "stuck", "stuck_members", "namespace", "priority", "topology_key", "fits", "domains", "all_domains")
    class Domain(_message.Message):
        __slots__ = ("name", "nodes", "holds", "lacks", "misfit")
        NAME_FIELD_NUMBER: _ClassVar[int]
        NODES_FIELD_NUMBER: _ClassVar[int]
        HOLDS_FIELD_NUMBER: _ClassVar[int]
        LACKS_FIELD_NUMBER: _ClassVar[int]
        MISFIT_FIELD_NUMBER: _ClassVar[int]
        name: str
        nodes: int
        holds: int
        lacks: int
        misfit: PodGroupStanding.Member
        def __init__(self, name: _Optional[str] = ..., nodes: _Optional[int] = ..., holds: _Optional[int] = ..., lacks: _Optional[int] = ..., misfit: _Optional[_Union[PodGroupStanding.Member, _Mapping]] = ...) -> None: ...
    class Member(_message.Message):
        __slots__ = ("name", "message")
        NAME_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        name: str
        message: str
        def __init__(self, name: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    WITH_NODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STUCK_FIELD_NUMBER: _ClassVar[int]
    STUCK_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    ALL_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    name: str
    exists: bool
    min_count: int
    members: int
    with_node: int
    message: str
    stuck: _containers.RepeatedCompositeFieldContainer[PodGroupStanding.Member]
    stuck_members: int
    namespace: str
    priority: int
    topology_key: str
    fits: bool
    domains: _containers.RepeatedCompositeFieldContainer[PodGroupStanding.Domain]
    all_domains: int
    def __init__(self, name: _Optional[str] = ..., exists: _Optional[bool] = ..., min_count: _Optional[int] = ..., members: _Optional[int] = ..., with_node: _Optional[int] = ..., message: _Optional[str] = ..., stuck: _Optional[_Iterable[_Union[PodGroupStanding.Member, _Mapping]]] = ..., stuck_members: _Optional[int] = ..., namespace: _Optional[str] = ..., priority: _Optional[int] = ..., topology_key: _Optional[str] = ..., fits: _Optional[bool] = ..., domains: _Optional[_Iterable[_Union[PodGroupStanding.Domain, _Mapping]]] = ..., all_domains: _Optional[int] = ...) -> None: ...

class AnsweredBy(_message.Message):
    __slots__ = ("replica", "identity", "leading", "term", "revision", "time", "took_ms")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LEADING_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    replica: str
    identity: str
    leading: bool
    term: int
    revision: int
    time: _timestamp_pb2.Timestamp
    took_ms: float
    def __init__(self, replica: _Optional[str] = ..., identity: _Optional[str] = ..., leading: _Optional[bool] = ..., term: _Optional[int] = ..., revision: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., took_ms: _Optional[float] = ...) -> None: ...

class QueueStanding(_message.Message):
    __slots__ = ("queue", "since", "first_attemptable", "attempts", "unschedulable_count", "consecutive_errors", "backoff_left_seconds", "backoff_seconds", "unschedulable_plugins", "pending_plugins", "gating_plugin", "gate_reasons", "ahead", "pods_ahead", "waiting", "timeout_left_seconds")
    class WaitingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTABLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONSECUTIVE_ERRORS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_LEFT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_PLUGINS_FIELD_NUMBER: _ClassVar[int]
    PENDING_PLUGINS_FIELD_NUMBER: _ClassVar[int]
    GATING_PLUGIN_FIELD_NUMBER: _ClassVar[int]
    GATE_REASONS_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    PODS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_LEFT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    since: _timestamp_pb2.Timestamp
    first_attemptable: _timestamp_pb2.Timestamp
    attempts: int
    unschedulable_count: int
    consecutive_errors: int
    backoff_left_seconds: float
    backoff_seconds: float
    unschedulable_plugins: _containers.RepeatedScalarFieldContainer[str]
    pending_plugins: _containers.RepeatedScalarFieldContainer[str]
    gating_plugin: str
    gate_reasons: _containers.RepeatedScalarFieldContainer[str]
    ahead: int
    pods_ahead: _containers.RepeatedCompositeFieldContainer[PodReference]
    waiting: _containers.ScalarMap[str, int]
    timeout_left_seconds: float
    def __init__(self, queue: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., first_attemptable: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[int] = ..., unschedulable_count: _Optional[int] = ..., consecutive_errors: _Optional[int] = ..., backoff_left_seconds: _Optional[float] = ..., backoff_seconds: _Optional[float] = ..., unschedulable_plugins: _Optional[_Iterable[str]] = ..., pending_plugins: _Optional[_Iterable[str]] = ..., gating_plugin: _Optional[str] = ..., gate_reasons: _Optional[_Iterable[str]] = ..., ahead: _Optional[int] = ..., pods_ahead: _Optional[_Iterable[_Union[PodReference, _Mapping]]] = ..., waiting: _Optional[_Mapping[str, int]] = ..., timeout_left_seconds: _Optional[float] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("time", "outcome", "plugins", "number", "message")
    TIME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    outcome: str
    plugins: _containers.RepeatedScalarFieldContainer[str]
    number: int
    message: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[str] = ..., plugins: _Optional[_Iterable[str]] = ..., number: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Nomination(_message.Message):
    __slots__ = ("pod", "node_name", "own")
    POD_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    pod: PodReference
    node_name: str
    own: bool
    def __init__(self, pod: _Optional[_Union[PodReference, _Mapping]] = ..., node_name: _Optional[str] = ..., own: _Optional[bool] = ...) -> None: ...

class FunnelStep(_message.Message):
    __slots__ = ("extension_point", "plugin", "before", "rejected", "after", "skipped", "rejects_alone", "reasons")
    EXTENSION_POINT_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    REJECTS_ALONE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    extension_point: str
    plugin: str
    before: int
    rejected: int
    after: int
    skipped: bool
    rejects_alone: int
    reasons: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    def __init__(self, extension_point: _Optional[str] = ..., plugin: _Optional[str] = ..., before: _Optional[int] = ..., rejected: _Optional[int] = ..., after: _Optional[int] = ..., skipped: _Optional[bool] = ..., rejects_alone: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ...) -> None: ...

class ReasonCount(_message.Message):
    __slots__ = ("reason", "nodes")
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    reason: str
    nodes: int
    def __init__(self, reason: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class NodeGroup(_message.Message):
    __slots__ = ("nodes", "plugin", "code", "reasons", "examples", "shortfalls")
    NODES_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    plugin: str
    code: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    examples: _containers.RepeatedScalarFieldContainer[str]
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    def __init__(self, nodes: _Optional[int] = ..., plugin: _Optional[str] = ..., code: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., examples: _Optional[_Iterable[str]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ...) -> None: ...

class Shortfall(_message.Message):
    __slots__ = ("what", "unit", "least", "most", "nodes")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    what: str
    unit: str
    least: ShortfallOnNode
    most: ShortfallOnNode
    nodes: int
    def __init__(self, what: _Optional[str] = ..., unit: _Optional[str] = ..., least: _Optional[_Union[ShortfallOnNode, _Mapping]] = ..., most: _Optional[_Union[ShortfallOnNode, _Mapping]] = ..., nodes: _Optional[int] = ...) -> None: ...

class ShortfallOnNode(_message.Message):
    __slots__ = ("node", "wanted", "available", "lacks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    wanted: int
    available: int
    lacks: int
    def __init__(self, node: _Optional[str] = ..., wanted: _Optional[int] = ..., available: _Optional[int] = ..., lacks: _Optional[int] = ...) -> None: ...

class NodeVerdict(_message.Message):
    __slots__ = ("node", "code", "plugin", "reasons", "shortfalls", "score", "parts")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    code: str
    plugin: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    score: NodeScore
    parts: _containers.RepeatedCompositeFieldContainer[NodeParts]
    def __init__(self, node: _Optional[str] = ..., code: _Optional[str] = ..., plugin: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ..., score: _Optional[_Union[NodeScore, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[NodeParts, _Mapping]]] = ...) -> None: ...

class NodeParts(_message.Message):
    __slots__ = ("request", "names", "why_not")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    request: str
    names: _containers.RepeatedScalarFieldContainer[str]
    why_not: str
    def __init__(self, request: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., why_not: _Optional[str] = ...) -> None: ...

class WakeEvent(_message.Message):
    __slots__ = ("event", "plugins", "asks_first")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIRST_FIELD_NUMBER: _ClassVar[int]
    event: str
    plugins: _containers.RepeatedScalarFieldContainer[str]
    asks_first: bool
    def __init__(self, event: _Optional[str] = ..., plugins: _Optional[_Iterable[str]] = ..., asks_first: _Optional[bool] = ...) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("plugin", "eligible", "reason", "candidate_nodes", "candidates", "rejected", "tied_nodes", "untried_nodes")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_NODES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    TIED_NODES_FIELD_NUMBER: _ClassVar[int]
    UNTRIED_NODES_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    eligible: bool
    reason: str
    candidate_nodes: int
    candidates: _containers.RepeatedCompositeFieldContainer[PreemptionCandidate]
    rejected: _containers.RepeatedCompositeFieldContainer[ReasonCount]
    tied_nodes: int
    untried_nodes: int
    def __init__(self, plugin: _Optional[str] = ..., eligible: _Optional[bool] = ..., reason: _Optional[str] = ..., candidate_nodes: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[PreemptionCandidate, _Mapping]]] = ..., rejected: _Optional[_Iterable[_Union[ReasonCount, _Mapping]]] = ..., tied_nodes: _Optional[int] = ..., untried_nodes: _Optional[int] = ...) -> None: ...

class PreemptionCandidate(_message.Message):
    __slots__ = ("node", "victims", "more_victims", "pdb_violations", "budgets")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    MORE_VICTIMS_FIELD_NUMBER: _ClassVar[int]
    PDB_VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    node: str
    victims: _containers.RepeatedCompositeFieldContainer[PodReference]
    more_victims: int
    pdb_violations: int
    budgets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., victims: _Optional[_Iterable[_Union[PodReference, _Mapping]]] = ..., more_victims: _Optional[int] = ..., pdb_violations: _Optional[int] = ..., budgets: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeScore(_message.Message):
    __slots__ = ("node", "total", "plugins", "rank")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    node: str
    total: int
    plugins: _containers.RepeatedCompositeFieldContainer[PluginScore]
    rank: int
    def __init__(self, node: _Optional[str] = ..., total: _Optional[int] = ..., plugins: _Optional[_Iterable[_Union[PluginScore, _Mapping]]] = ..., rank: _Optional[int] = ...) -> None: ...

class PluginScore(_message.Message):
    __slots__ = ("plugin", "score", "weight")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    score: int
    weight: int
    def __init__(self, plugin: _Optional[str] = ..., score: _Optional[int] = ..., weight: _Optional[int] = ...) -> None: ...

class DecisionFacts(_message.Message):
    __slots__ = ("time", "replica", "term", "revision", "node_name", "evaluated_nodes", "feasible_nodes", "attempts", "pods_between", "pods_between_count", "outcome", "waited_seconds", "decided_seconds", "together")
    TIME_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_NODES_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PODS_BETWEEN_FIELD_NUMBER: _ClassVar[int]
    PODS_BETWEEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    replica: str
    term: int
    revision: int
    node_name: str
    evaluated_nodes: int
    feasible_nodes: int
    attempts: int
    pods_between: _containers.RepeatedCompositeFieldContainer[PodReference]
    pods_between_count: int
    outcome: str
    waited_seconds: float
    decided_seconds: float
    together: int
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replica: _Optional[str] = ..., term: _Optional[int] = ..., revision: _Optional[int] = ..., node_name: _Optional[str] = ..., evaluated_nodes: _Optional[int] = ..., feasible_nodes: _Optional[int] = ..., attempts: _Optional[int] = ..., pods_between: _Optional[_Iterable[_Union[PodReference, _Mapping]]] = ..., pods_between_count: _Optional[int] = ..., outcome: _Optional[str] = ..., waited_seconds: _Optional[float] = ..., decided_seconds: _Optional[float] = ..., together: _Optional[int] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("kind", "description", "patch", "cost", "nodes", "examples", "pods", "node", "smaller_possible", "patched")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PATCH_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SMALLER_POSSIBLE_FIELD_NUMBER: _ClassVar[int]
    PATCHED_FIELD_NUMBER: _ClassVar[int]
    kind: str
    description: str
    patch: str
    cost: float
    nodes: int
    examples: _containers.RepeatedScalarFieldContainer[str]
    pods: _containers.RepeatedCompositeFieldContainer[PodReference]
    node: str
    smaller_possible: bool
    patched: str
    def __init__(self, kind: _Optional[str] = ..., description: _Optional[str] = ..., patch: _Optional[str] = ..., cost: _Optional[float] = ..., nodes: _Optional[int] = ..., examples: _Optional[_Iterable[str]] = ..., pods: _Optional[_Iterable[_Union[PodReference, _Mapping]]] = ..., node: _Optional[str] = ..., smaller_possible: _Optional[bool] = ..., patched: _Optional[str] = ...) -> None: ...

class Eta(_message.Message):
    __slots__ = ("quantiles", "basis")
    QUANTILES_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    quantiles: _containers.RepeatedCompositeFieldContainer[EtaQuantile]
    basis: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, quantiles: _Optional[_Iterable[_Union[EtaQuantile, _Mapping]]] = ..., basis: _Optional[_Iterable[str]] = ...) -> None: ...

class EtaQuantile(_message.Message):
    __slots__ = ("probability", "seconds")
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    probability: float
    seconds: float
    def __init__(self, probability: _Optional[float] = ..., seconds: _Optional[float] = ...) -> None: ...
