import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DecisionRecord(_message.Message):
    __slots__ = ("number", "replica", "term", "revision", "namespace", "name", "uid", "attempt", "profile", "pod_class", "evaluated_nodes", "feasible_nodes", "node_name", "total", "together", "rotation", "draws", "queued_time", "popped_time", "decided_time", "ended_time", "seconds", "outcome", "message", "nominated_node", "victims", "scores", "tied_nodes", "plugin_seconds", "bound_node", "beyond", "ended_after", "begun_after", "pod_group", "pod_group_binding", "began_revision", "began_beyond")
    class PluginSecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    POD_CLASS_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_NODES_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    ROTATION_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_TIME_FIELD_NUMBER: _ClassVar[int]
    POPPED_TIME_FIELD_NUMBER: _ClassVar[int]
    DECIDED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NOMINATED_NODE_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    TIED_NODES_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BOUND_NODE_FIELD_NUMBER: _ClassVar[int]
    BEYOND_FIELD_NUMBER: _ClassVar[int]
    ENDED_AFTER_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AFTER_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_BINDING_FIELD_NUMBER: _ClassVar[int]
    BEGAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    BEGAN_BEYOND_FIELD_NUMBER: _ClassVar[int]
    number: int
    replica: str
    term: int
    revision: int
    namespace: str
    name: str
    uid: str
    attempt: int
    profile: str
    pod_class: str
    evaluated_nodes: int
    feasible_nodes: int
    node_name: str
    total: int
    together: int
    rotation: int
    draws: int
    queued_time: _timestamp_pb2.Timestamp
    popped_time: _timestamp_pb2.Timestamp
    decided_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    seconds: float
    outcome: str
    message: str
    nominated_node: str
    victims: int
    scores: _containers.RepeatedCompositeFieldContainer[NodeTotal]
    tied_nodes: int
    plugin_seconds: _containers.ScalarMap[str, float]
    bound_node: str
    beyond: int
    ended_after: int
    begun_after: int
    pod_group: str
    pod_group_binding: bool
    began_revision: int
    began_beyond: int
    def __init__(self, number: _Optional[int] = ..., replica: _Optional[str] = ..., term: _Optional[int] = ..., revision: _Optional[int] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., attempt: _Optional[int] = ..., profile: _Optional[str] = ..., pod_class: _Optional[str] = ..., evaluated_nodes: _Optional[int] = ..., feasible_nodes: _Optional[int] = ..., node_name: _Optional[str] = ..., total: _Optional[int] = ..., together: _Optional[int] = ..., rotation: _Optional[int] = ..., draws: _Optional[int] = ..., queued_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., popped_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decided_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[float] = ..., outcome: _Optional[str] = ..., message: _Optional[str] = ..., nominated_node: _Optional[str] = ..., victims: _Optional[int] = ..., scores: _Optional[_Iterable[_Union[NodeTotal, _Mapping]]] = ..., tied_nodes: _Optional[int] = ..., plugin_seconds: _Optional[_Mapping[str, float]] = ..., bound_node: _Optional[str] = ..., beyond: _Optional[int] = ..., ended_after: _Optional[int] = ..., begun_after: _Optional[int] = ..., pod_group: _Optional[str] = ..., pod_group_binding: _Optional[bool] = ..., began_revision: _Optional[int] = ..., began_beyond: _Optional[int] = ...) -> None: ...

class NodeTotal(_message.Message):
    __slots__ = ("node_name", "total", "plugins")
    class PluginsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    total: int
    plugins: _containers.ScalarMap[str, int]
    def __init__(self, node_name: _Optional[str] = ..., total: _Optional[int] = ..., plugins: _Optional[_Mapping[str, int]] = ...) -> None: ...

class DecisionsRequest(_message.Message):
    __slots__ = ("namespace", "name", "node_name", "since", "reason", "shadow", "limit", "until", "replica")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    node_name: str
    since: _timestamp_pb2.Timestamp
    reason: str
    shadow: bool
    limit: int
    until: _timestamp_pb2.Timestamp
    replica: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., node_name: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., shadow: _Optional[bool] = ..., limit: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replica: _Optional[str] = ...) -> None: ...

class DecisionsResponse(_message.Message):
    __slots__ = ("records", "dropped", "more")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[DecisionRecord]
    dropped: int
    more: bool
    def __init__(self, records: _Optional[_Iterable[_Union[DecisionRecord, _Mapping]]] = ..., dropped: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...
