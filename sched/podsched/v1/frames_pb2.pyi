from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RawListResponse(_message.Message):
    __slots__ = ("items", "resource_version", "remaining_item_count")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedScalarFieldContainer[bytes]
    resource_version: int
    remaining_item_count: int
    def __init__(self, items: _Optional[_Iterable[bytes]] = ..., resource_version: _Optional[int] = ..., remaining_item_count: _Optional[int] = ..., **kwargs) -> None: ...

class RawWatchEvent(_message.Message):
    __slots__ = ("type", "object")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    type: int
    object: bytes
    def __init__(self, type: _Optional[int] = ..., object: _Optional[bytes] = ...) -> None: ...

class RawWatchResponse(_message.Message):
    __slots__ = ("events", "revision", "bookmark", "initial_events_end")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    INITIAL_EVENTS_END_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[RawWatchEvent]
    revision: int
    bookmark: bool
    initial_events_end: bool
    def __init__(self, events: _Optional[_Iterable[_Union[RawWatchEvent, _Mapping]]] = ..., revision: _Optional[int] = ..., bookmark: _Optional[bool] = ..., initial_events_end: _Optional[bool] = ...) -> None: ...
