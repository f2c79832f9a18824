"""Refuse objects that readers could not decode or show.

protobuf decodes at most 100 messages deep, and a level of a ``Struct`` is three of them; a
``Timestamp`` may hold any int64, but times have years of four digits only. An object outside these
bounds could be written by any client, and then not be read: not by the schedulers, and not by the
client that wants to delete it.

Only a ``Struct`` or a ``RawJSON`` can nest without end and only a ``Timestamp`` can be out of range
(integers are as wide as their field, quantities are validated with the fields that hold them), so
only the fields that lead to one are followed, which costs some microseconds an object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import isfinite
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import FIRST_SECOND, LAST_SECOND
from podsched.api.field_errors import FieldError, invalid
from podsched.api.json_text import load_json
from podsched.api.objects import RawJSON

#: Levels of objects and lists in a field without a schema; managed fields have about 12.
MAX_STRUCT_DEPTH: Final = 24

_TIMESTAMP = Timestamp.DESCRIPTOR.full_name
_STRUCT = Struct.DESCRIPTOR.full_name
_RAW = RawJSON.DESCRIPTOR.full_name


def validate_storable(
    message: Message, path: str = "", without: Collection[str] = ()
) -> list[FieldError]:
    """Every time that is out of range and every structure that is nested too deeply.

    ``without``: top-level fields that are not looked at.
    """
    errors: list[FieldError] = []
    # Paths are put together only where there is something to say: 1.5 µs a pod instead of 4.
    if not _is_storable(message, without):
        _walk(message, path, errors, without)
    return errors


def _is_storable(message: Message, without: Collection[str] = ()) -> bool:
    for name, _, is_repeated, is_map, holds in _followed(type(message)):
        if name in without:
            continue
        if is_repeated:
            found = getattr(message, name)
            if found and not all(map(holds, found.values() if is_map else found)):
                return False
        elif message.HasField(name) and not holds(getattr(message, name)):
            return False
    return True


def _is_time(stamp: Timestamp) -> bool:
    return FIRST_SECOND <= stamp.seconds <= LAST_SECOND and 0 <= stamp.nanos < 10**9


def _is_plain(struct: Struct) -> bool:
    return not _fault(struct)


def _is_raw(raw: RawJSON) -> bool:
    return not _raw_fault(raw)


def _walk(
    message: Message, path: str, errors: list[FieldError], without: Collection[str] = ()
) -> None:
    for field in _followed(type(message)):
        value = getattr(message, field.name)
        here = f"{path}.{field.json_name}" if path else field.json_name
        if field.name in without:
            continue
        if not field.is_repeated:
            if message.HasField(field.name):
                _check(value, here, errors)
        elif field.is_map:
            for key in value:
                _check(value[key], f"{here}[{key}]", errors)
        else:
            for index, item in enumerate(value):
                _check(item, f"{here}[{index}]", errors)


def _check(value: Message, path: str, errors: list[FieldError]) -> None:
    if isinstance(value, Timestamp):
        if not _is_time(value):
            reason = "must be a time from the year 1 to the year 9999"
            errors.append(invalid(path, value.seconds, reason))
    elif isinstance(value, Struct | RawJSON):
        reason = _fault(value) if isinstance(value, Struct) else _raw_fault(value)
        if reason:
            errors.append(invalid(path, "object", reason))
    else:
        _walk(value, path, errors)


def _fault(struct: Struct) -> str:
    """Return what makes a structure unreadable, "" for nothing. Not recursive: it may be deep."""
    waiting: list[tuple[Any, int]] = [(struct, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_STRUCT_DEPTH:
            return f"must not be nested more than {MAX_STRUCT_DEPTH} levels deep"
        values: Iterable[Value] = (
            part.values if isinstance(part, ListValue) else part.fields.values()
        )
        for value in values:
            which = value.WhichOneof("kind")
            if which in ("struct_value", "list_value"):
                waiting.append((getattr(value, which), depth + 1))
            elif which == "number_value" and not isfinite(value.number_value):
                return "must hold finite numbers only"
            elif which is None:
                return "must hold a value under each key"
    return ""


def _raw_fault(raw: RawJSON) -> str:
    """Return what makes JSON unreadable, "" for nothing."""
    try:
        content = load_json(raw.text.encode())
    except ValueError:
        return "must be JSON"
    if not isinstance(content, dict):
        return "must be a JSON object"
    waiting: list[tuple[Any, int]] = [(content, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_STRUCT_DEPTH:
            return f"must not be nested more than {MAX_STRUCT_DEPTH} levels deep"
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, dict | list):
                waiting.append((value, depth + 1))
            elif isinstance(value, float) and not isfinite(value):
                return "must hold finite numbers only"
    return ""


class _Field(NamedTuple):
    """A field that leads to what is checked; ``holds`` says of a value whether all is well."""

    name: str
    json_name: str
    is_repeated: bool
    is_map: bool
    holds: Callable[[Any], bool]


#: By class of message.
_FOLLOWED: dict[Any, tuple[_Field, ...]] = {}


def _followed(message: Any) -> tuple[_Field, ...]:
    found = _FOLLOWED.get(message)
    if found is None:
        found = _FOLLOWED[message] = tuple(
            _Field(
                field.name,
                field.json_name,
                field.is_repeated,
                field.message_type.GetOptions().map_entry,
                _judge_of(field),
            )
            for field in message.DESCRIPTOR.fields
            if _leads(field, frozenset())
        )
    return found


def _judge_of(field: Any) -> Callable[[Any], bool]:
    inner = field.message_type
    if inner.GetOptions().map_entry:
        inner = inner.fields_by_name["value"].message_type
    if inner.full_name == _TIMESTAMP:
        return _is_time
    if inner.full_name == _RAW:
        return _is_raw
    return _is_plain if inner.full_name == _STRUCT else _is_storable


def _leads(field: Any, above: frozenset[str]) -> bool:
    inner = field.message_type
    if inner is None:
        return False
    if inner.GetOptions().map_entry:
        return _leads(inner.fields_by_name["value"], above)
    if inner.full_name in (_TIMESTAMP, _STRUCT, _RAW):
        return True
    if inner.full_name in above:
        return False
    return any(_leads(f, above | {inner.full_name}) for f in inner.fields)
