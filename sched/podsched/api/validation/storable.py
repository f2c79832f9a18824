"""What must hold of every object in the store: whoever reads it can decode and show it.

protobuf decodes at most 100 messages deep, and a level of a ``Struct`` is three of them; a
``Timestamp`` may hold any int64, but times have years of four digits only. An object outside these
bounds could be written by whoever may write at all, and then nobody could read it: not the
schedulers, not the client that wants to delete it.

Only a ``Struct`` can nest without end and only a ``Timestamp`` can be out of range (integers are as
wide as their field, quantities are validated with the fields that hold them), so only the fields
that lead to one are followed, which costs some microseconds an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import FIRST_SECOND, LAST_SECOND
from podsched.api.field_errors import FieldError, invalid

#: Levels of objects and lists in a field without a schema; managed fields have about 12.
MAX_STRUCT_DEPTH: Final = 24

_TIMESTAMP = Timestamp.DESCRIPTOR.full_name
_STRUCT = Struct.DESCRIPTOR.full_name


def validate_storable(
    message: Message, path: str = "", without: Iterable[str] = ()
) -> list[FieldError]:
    """Return every time out of range and every structure nested too deeply.

    ``without``: top-level fields that are not looked at.
    """
    errors: list[FieldError] = []
    _walk(message, path, errors, frozenset(without))
    return errors


def _walk(
    message: Message, path: str, errors: list[FieldError], without: frozenset[str] = frozenset()
) -> None:
    followed = _followed(message.DESCRIPTOR)
    if not followed:
        return
    for field, value in message.ListFields():
        name = followed.get(field.name)
        if name is None or field.name in without:
            continue
        here = f"{path}.{name}" if path else name
        if not field.is_repeated:
            _check(value, here, errors)
        elif isinstance(value, Mapping):
            for key in value:
                _check(value[key], f"{here}[{key}]", errors)
        else:
            for index, item in enumerate(value):
                _check(item, f"{here}[{index}]", errors)


def _check(value: Message, path: str, errors: list[FieldError]) -> None:
    if isinstance(value, Timestamp):
        if not (FIRST_SECOND <= value.seconds <= LAST_SECOND and 0 <= value.nanos < 10**9):
            reason = "must be a time from the year 1 to the year 9999"
            errors.append(invalid(path, value.seconds, reason))
    elif isinstance(value, Struct):
        reason = _fault(value)
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


@lru_cache(None)
def _followed(descriptor: Descriptor) -> dict[str, str]:
    """Return the fields that lead to what is checked, with their names in JSON."""
    return {
        field.name: field.json_name for field in descriptor.fields if _leads(field, frozenset())
    }


def _leads(field: FieldDescriptor, above: frozenset[str]) -> bool:
    inner = field.message_type
    if inner is None:
        return False
    if inner.GetOptions().map_entry:
        return _leads(inner.fields_by_name["value"], above)
    if inner.full_name in (_TIMESTAMP, _STRUCT):
        return True
    if inner.full_name in above:
        return False
    return any(_leads(f, above | {inner.full_name}) for f in inner.fields)
