from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Profile(_message.Message):
    __slots__ = ("sample_type", "sample", "location", "function", "string_table", "time_nanos", "duration_nanos", "period_type", "period", "default_sample_type")
    SAMPLE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    STRING_TABLE_FIELD_NUMBER: _ClassVar[int]
    TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    DURATION_NANOS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_TYPE_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SAMPLE_TYPE_FIELD_NUMBER: _ClassVar[int]
    sample_type: _containers.RepeatedCompositeFieldContainer[ProfileValueType]
    sample: _containers.RepeatedCompositeFieldContainer[ProfileSample]
    location: _containers.RepeatedCompositeFieldContainer[ProfileLocation]
    function: _containers.RepeatedCompositeFieldContainer[ProfileFunction]
    string_table: _containers.RepeatedScalarFieldContainer[str]
    time_nanos: int
    duration_nanos: int
    period_type: ProfileValueType
    period: int
    default_sample_type: int
    def __init__(self, sample_type: _Optional[_Iterable[_Union[ProfileValueType, _Mapping]]] = ..., sample: _Optional[_Iterable[_Union[ProfileSample, _Mapping]]] = ..., location: _Optional[_Iterable[_Union[ProfileLocation, _Mapping]]] = ..., function: _Optional[_Iterable[_Union[ProfileFunction, _Mapping]]] = ..., string_table: _Optional[_Iterable[str]] = ..., time_nanos: _Optional[int] = ..., duration_nanos: _Optional[int] = ..., period_type: _Optional[_Union[ProfileValueType, _Mapping]] = ..., period: _Optional[int] = ..., default_sample_type: _Optional[int] = ...) -> None: ...

class ProfileValueType(_message.Message):
    __slots__ = ("type", "unit")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    type: int
    unit: int
    def __init__(self, type: _Optional[int] = ..., unit: _Optional[int] = ...) -> None: ...

class ProfileSample(_message.Message):
    __slots__ = ("location_id", "value")
    LOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    location_id: _containers.RepeatedScalarFieldContainer[int]
    value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, location_id: _Optional[_Iterable[int]] = ..., value: _Optional[_Iterable[int]] = ...) -> None: ...

class ProfileLocation(_message.Message):
    __slots__ = ("id", "line")
    ID_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    id: int
    line: _containers.RepeatedCompositeFieldContainer[ProfileLine]
    def __init__(self, id: _Optional[int] = ..., line: _Optional[_Iterable[_Union[ProfileLine, _Mapping]]] = ...) -> None: ...

class ProfileLine(_message.Message):
    __slots__ = ("function_id", "line")
    FUNCTION_ID_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    function_id: int
    line: int
    def __init__(self, function_id: _Optional[int] = ..., line: _Optional[int] = ...) -> None: ...

class ProfileFunction(_message.Message):
    __slots__ = ("id", "name", "system_name", "filename", "start_line")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_NAME_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    START_LINE_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: int
    system_name: int
    filename: int
    start_line: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[int] = ..., system_name: _Optional[int] = ..., filename: _Optional[int] = ..., start_line: _Optional[int] = ...) -> None: ...
