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

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
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


def validate_storable(
    message: Message, path: str = "", without: Collection[str] = ()
) -> list[FieldError]:
    """Every time that is out of range and every structure that is nested too deeply.

    ``without``: top-level fields that are not looked at.
    """
    errors: list[FieldError] = []
    # Paths are put together only where there is something to say: 1.5 µs a pod instead of 4.
    if _is_unstorable(message, without):
        _walk(message, path, errors, without)
    return errors


def _is_unstorable(message: Message, without: Collection[str] = ()) -> bool:
    for name, _, is_repeated, is_map, fault in _followed(message.DESCRIPTOR):
        if name in without:
            continue
        if is_repeated:
            found = getattr(message, name)
            if found and any(map(fault, found.values() if is_map else found)):
                return True
        elif message.HasField(name) and fault(getattr(message, name)):
            return True
    return False


def _walk(
    message: Message, path: str, errors: list[FieldError], without: Collection[str] = ()
) -> None:
    for field in _followed(message.DESCRIPTOR):
        if field.name in without:
            continue
        value = getattr(message, field.name)
        here = f"{path}.{field.json_name}" if path else field.json_name
        if field.is_map:
            items = {f"{here}[{key}]": value[key] for key in value}
        elif field.is_repeated:
            items = {f"{here}[{index}]": item for index, item in enumerate(value)}
        else:
            items = {here: value} if message.HasField(field.name) else {}
        for place, item in items.items():
            fault = field.fault(item)
            if fault is True:
                _walk(item, place, errors)
            elif fault:
                shown = item.seconds if isinstance(item, Timestamp) else "object"
                errors.append(invalid(place, shown, fault))


def _time_fault(stamp: Timestamp) -> str:
    if FIRST_SECOND <= stamp.seconds <= LAST_SECOND and 0 <= stamp.nanos < 10**9:
        return ""
    return "must be a time from the year 1 to the year 9999"


def _fault(content: Any) -> str:
    """Return what makes a ``Struct`` or a JSON object unreadable, "" for nothing.

    Not recursive: it may be deep.
    """
    waiting = [(content, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_STRUCT_DEPTH:
            return f"must not be nested more than {MAX_STRUCT_DEPTH} levels deep"
        for value in _members(part):
            if isinstance(value, Value):
                which = value.WhichOneof("kind")
                if which is None:
                    return "must hold a value under each key"
                value = getattr(value, which)
            if isinstance(value, Struct | ListValue | dict | list):
                waiting.append((value, depth + 1))
            elif isinstance(value, float) and not isfinite(value):
                return "must hold finite numbers only"
    return ""


def _members(part: Any) -> Iterable[Any]:
    if isinstance(part, Struct | dict):
        return (part.fields if isinstance(part, Struct) else part).values()
    return part.values if isinstance(part, ListValue) else part


def _raw_fault(raw: RawJSON) -> str:
    """Return what makes JSON unreadable, "" for nothing."""
    try:
        content = load_json(raw.text.encode())
    except ValueError:
        return "must be JSON"
    return _fault(content) if isinstance(content, dict) else "must be a JSON object"


#: How messages are judged that can be wrong in themselves.
_FAULTS: Final[Mapping[str, Callable[[Any], str]]] = {
    Timestamp.DESCRIPTOR.full_name: _time_fault,
    Struct.DESCRIPTOR.full_name: _fault,
    RawJSON.DESCRIPTOR.full_name: _raw_fault,
}


class _Field(NamedTuple):
    """A field that leads to what is checked.

    ``fault``: returns what is wrong with a value, True for a message within which something is.
    """

    name: str
    json_name: str
    is_repeated: bool
    is_map: bool
    fault: Callable[[Any], str | bool]


@lru_cache(None)
def _followed(descriptor: Any) -> tuple[_Field, ...]:
    """Return the fields of a message that lead to what is checked."""
    return tuple(
        _Field(
            field.name,
            field.json_name,
            field.is_repeated,
            field.message_type.GetOptions().map_entry,
            _fault_of(field),
        )
        for field in descriptor.fields
        if _leads(field, frozenset())
    )


def _fault_of(field: Any) -> Callable[[Any], str | bool]:
    inner = field.message_type
    if inner.GetOptions().map_entry:
        inner = inner.fields_by_name["value"].message_type
    return _FAULTS.get(inner.full_name, _is_unstorable)


def _leads(field: Any, above: frozenset[str]) -> bool:
    inner = field.message_type
    if inner is None:
        return False
    if inner.GetOptions().map_entry:
        return _leads(inner.fields_by_name["value"], above)
    if inner.full_name in _FAULTS:
        return True
    if inner.full_name in above:
        return False
    return any(_leads(f, above | {inner.full_name}) for f in inner.fields)
