"""JSON values to protobuf messages and back, by descriptor, the way Kubernetes writes them.

What differs from protobuf's own JSON mapping: int64 is a number, quantities and int-or-strings may
be numbers, unknown fields are collected instead of refused, all mistakes are collected, and reading
onto a message that has content is a JSON merge patch (RFC 7396).

Non-goal: speed beyond a manifest's needs; objects travel as protobuf.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.field_errors import FieldError, invalid
from podsched.api.kubernetes_fields import misfits, types_of
from podsched.v1 import objects_pb2

#: Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the first and last time with a form.
FIRST_SECOND: Final = -62_135_596_800
LAST_SECOND: Final = 253_402_300_799

YAML_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")

_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})"
)
_INT_BITS = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
_MAX_DEPTH = 100


def type_name(value: object) -> str:
    """Return what JSON calls the type of a value."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


class _Mismatch(ValueError):
    """A value that does not fit its field."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message, with data to read and write it.

    form: Kubernetes' type of a field without a schema here; "" for others.
    """

    name: str
    json_name: str
    scalar: Callable[[object], Any] | None
    message: type[Message] | None
    form: str
    is_list: bool
    is_map: bool
    always: bool
    to_json: Callable[[Any], Any]


def _string(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    raise _Mismatch(f"expected a string, got {type_name(value)} {_shown(value)}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Mismatch(
            f"not Unicode text, it has half a surrogate pair: {_shown(value)}"
        ) from None
    return value


def _raw_text(value: object) -> str:
    try:
        return _text(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise _Mismatch(f"not a JSON object: {error}") from None


def _shown(value: object) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _number_or_string(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _Mismatch(f"expected a string or a number, got {type_name(value)}")
    return _text(value) if isinstance(value, str) else _plain_number(value)


def _plain_number(value: float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _Mismatch(f"expected a boolean, got {type_name(value)} {_shown(value)}")


def _integer(bits: int) -> Callable[[object], int]:
    bound = 1 << (bits - 1)

    def read(value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _Mismatch(f"expected an integer, got {type_name(value)} {_shown(value)}")
        if not -bound <= value < bound:
            raise _Mismatch(f"{value} does not fit into {bits} bits")
        return value

    return read


def parse_time(value: object) -> Timestamp:
    """Return the time in an RFC 3339 text. Raises ValueError."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _Mismatch(f"expected a time such as 2006-01-02T15:04:05Z, got {_shown(value)}")
    day, clock, fraction, zone = match.groups()
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{zone.upper().replace('Z', '+00:00')}")
    except ValueError as error:
        raise _Mismatch(f"not a time: {error}") from error
    return Timestamp(seconds=int(whole.timestamp()), nanos=int((fraction or "0").ljust(9, "0")))


def format_time(stamp: Timestamp) -> str:
    """Format a time as RFC 3339 in UTC, with a fraction only where there is one.

    A time that has no such form, which only a stored object of another origin can hold, is shown as
    the nearest that has.
    """
    text = _format_seconds(stamp.seconds)
    nanos = min(max(stamp.nanos, 0), 10**9 - 1)
    if not nanos:
        return text + "Z"
    if nanos % 1000 == 0:
        return f"{text}.{nanos // 1000:06d}Z"
    return f"{text}.{nanos:09d}Z"


def format_seconds(seconds: float) -> str:
    """Format a Unix time, cut to whole seconds as ``metav1.Time``."""
    return _format_seconds(int(seconds)) + "Z"


@lru_cache(1024)  # Most times are recent, and many objects share one.
def _format_seconds(seconds: int) -> str:
    seconds = min(max(seconds, FIRST_SECOND), LAST_SECOND)
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def _int_or_string_json(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


def _struct_json(value: Any) -> Any:
    which = value.WhichOneof("kind")
    if which == "struct_value":
        return object_json(value.struct_value)
    if which == "list_value":
        return [_struct_json(item) for item in value.list_value.values]
    if which == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < 2**63 else number
    if which in ("string_value", "bool_value"):
        return getattr(value, which)
    return None


def object_json(message: Struct) -> dict[str, Any]:
    """Return a ``Struct`` as JSON."""
    # A message keeps the members in an order that differs from process to process.
    return {key: _struct_json(message.fields[key]) for key in sorted(message.fields)}


def _raw_json(message: objects_pb2.RawJSON) -> Any:
    return json.loads(message.text or "{}")


#: How messages are written that have a form of their own.
_OWN_FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    Timestamp.DESCRIPTOR.full_name: format_time,
    Struct.DESCRIPTOR.full_name: object_json,
    objects_pb2.RawJSON.DESCRIPTOR.full_name: _raw_json,
}


def _identity(value: Any) -> Any:
    return value


def _scalar_reader(field: FieldDescriptor, fmt: int) -> Callable[[object], Any]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return _bool
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _string if fmt == objects_pb2.FORMAT_UNSPECIFIED else _number_or_string
    return _integer(_INT_BITS[field.cpp_type])


def _describe_field(field: FieldDescriptor) -> _Field:
    # The stubs of the descriptors know neither extensions nor the class of a message.
    extensions: Any = field.GetOptions().Extensions
    fmt = extensions[objects_pb2.format]
    message_type: Any = field.message_type
    is_map = bool(message_type and message_type.GetOptions().map_entry)
    inner: Any = message_type.fields_by_name["value"] if is_map else field
    is_message = inner.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    to_json: Callable[[Any], Any] = _identity
    if is_message:
        to_json = _OWN_FORMS.get(inner.message_type.full_name, write)
    if fmt == objects_pb2.FORMAT_INT_OR_STRING:
        to_json = _int_or_string_json
    return _Field(
        name=field.name,
        json_name=field.json_name,
        scalar=None if is_message else _scalar_reader(inner, fmt),
        message=inner.message_type._concrete_class if is_message else None,
        form=_form(field) if message_type is Struct.DESCRIPTOR else "",
        is_list=field.is_repeated and not is_map,
        is_map=is_map,
        always=extensions[objects_pb2.always],
        to_json=to_json,
    )


def _form(field: FieldDescriptor) -> str:
    parent: Any = field.containing_type
    return types_of(parent.name).get(field.json_name, "")


@lru_cache(None)
def _fields(descriptor: Descriptor) -> dict[str, _Field]:
    """Return the fields of a message by their name in JSON, in the order of the proto."""
    return {field.json_name: _describe_field(field) for field in descriptor.fields}


T = TypeVar("T")

#: Items of one list or map, and of all those of an object together, that are read at all.
#: Validation has bounds of its own, which are not higher.
MAX_LIST: Final = 10_000
MAX_ITEMS: Final = 50_000

#: A patch of 700 kB may have 250,000 mistakes, and telling them all took 190 MB and 1.4 s.
MOST_PROBLEMS = 100


#: What an object within another one may say of its type, as the API's own answers do.
_TYPES_WITHIN = {
    ("PersistentVolumeClaim", "apiVersion"): "v1",
    ("PersistentVolumeClaim", "kind"): "PersistentVolumeClaim",
}


class Reader:
    """Reads JSON values into messages, and collects errors.

    ``unknown`` are paths of fields that do not exist; there are at most MOST_PROBLEMS of these and
    of ``problems``, and ``left_out`` of both that are not among them.
    """

    def __init__(self) -> None:
        self.problems: list[FieldError] = []
        self.unknown: list[str] = []
        self.left_out = 0
        self._items = 0

    def read(self, message: Message, content: object, path: str, depth: int = 0) -> None:
        """Merge an object's members into a message; null clears a member."""
        if not isinstance(content, Mapping):
            self._mismatch(path, content, f"expected an object, got {_got(content)}")
            return
        if depth > _MAX_DEPTH:
            self._mismatch(path, None, "nested too deeply")
            return
        if isinstance(message, Struct):
            self._read_struct(message, content, path)
            return
        message.SetInParent()
        if isinstance(message, objects_pb2.RawJSON):
            whole = merged(_raw_json(message), content) if message.text else content
            message.text = self._scalar(_raw_text, whole, path) or message.text
            return
        fields = _fields(message.DESCRIPTOR)
        for key, value in content.items():
            here = f"{path}.{key}" if path else str(key)
            field = fields.get(key)
            if field is None:
                if _TYPES_WITHIN.get((message.DESCRIPTOR.name, str(key))) != value:
                    self._note(self.unknown, here)
            elif value is None:
                message.ClearField(field.name)
            else:
                self._read_field(message, field, value, here, depth)

    def _read_field(
        self, message: Message, field: _Field, value: object, path: str, depth: int
    ) -> None:
        if field.form and self._misfits(value, field.form, path):
            return
        if field.is_map:
            self._read_map(message, field, value, path, depth)
        elif field.is_list:
            self._read_list(message, field, value, path, depth)
        elif field.scalar is not None:
            read = self._scalar(field.scalar, value, path)
            if read is not None:
                setattr(message, field.name, read)
        else:
            self._read_message(getattr(message, field.name), value, path, depth)

    def _misfits(self, value: object, form: str, path: str) -> bool:
        """Return whether a value does not fit Kubernetes' type of it, and note why."""
        known = len(self.problems)
        for place, found, expected in misfits(value, form, path):
            if expected:
                self._mismatch(place, found, f"expected {expected}, got {_got(found)}")
            else:
                self._note(self.unknown, place)
        return len(self.problems) > known

    def _read_message(self, message: Message, value: object, path: str, depth: int) -> None:
        if not isinstance(message, Timestamp):
            self.read(message, value, path, depth + 1)
        elif (stamp := self._scalar(parse_time, value, path)) is not None:
            message.CopyFrom(stamp)

    def _read_list(
        self, message: Message, field: _Field, value: Any, path: str, depth: int
    ) -> None:
        if not self._takes(value, list, "an array", path):
            return
        message.ClearField(field.name)
        target = getattr(message, field.name)
        for index, item in enumerate(value):
            here = f"{path}[{index}]"
            if field.scalar is None:
                self.read(target.add(), item, here, depth + 1)
            else:
                read = self._scalar(field.scalar, item, here)
                if read is not None:
                    target.append(read)

    def _read_map(self, message: Message, field: _Field, value: Any, path: str, depth: int) -> None:
        if not self._takes(value, Mapping, "an object", path):
            return
        target = getattr(message, field.name)
        for key, item in value.items():
            here = f"{path}[{key}]"
            if not isinstance(key, str):
                self._mismatch(here, key, f"expected a string as key, got {_got(key)}")
            elif self._scalar(_string, key, _shown(here)) is None:
                continue
            elif item is None:
                target.pop(key, None)
            elif field.scalar is not None:
                read = self._scalar(field.scalar, item, here)
                if read is not None:
                    target[key] = read
            else:
                self._read_message(target[key], item, here, depth)

    def _takes(self, value: Any, wanted: Any, called: str, path: str) -> bool:
        """Return whether a value is a list or map that is not too large; if not, note why."""
        if not isinstance(value, wanted):
            self._mismatch(path, value, f"expected {called}, got {_got(value)}")
            return False
        self._items += len(value)
        if reason := excess(len(value), self._items):
            self._mismatch(path, len(value), reason)
        return not reason

    def _read_struct(self, message: Struct, content: Mapping[Any, Any], path: str) -> None:
        try:
            whole = merged(object_json(message), content)
            message.Clear()
            message.SetInParent()
            message.update(whole)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            self._mismatch(path, content, f"not a JSON object: {error}")

    def _scalar(self, read: Callable[[object], Any], value: object, path: str) -> Any:
        try:
            return read(value)
        except _Mismatch as mismatch:
            self._mismatch(path, value, str(mismatch))
            return None

    def _mismatch(self, path: str, value: object, reason: str) -> None:
        self._note(self.problems, invalid(path, value, reason))

    def _note(self, known: list[T], found: T) -> None:
        if len(known) < MOST_PROBLEMS:
            known.append(found)
        else:
            self.left_out += 1


def excess(count: int, in_all: int) -> str:
    """Return why a list or map of ``count`` items is too large; "" if it is not.

    in_all: the items of the object so far, this list's included.
    """
    if count > MAX_LIST:
        return f"must have at most {MAX_LIST} items, this has {count}"
    if in_all > MAX_ITEMS:
        return f"with it, the object has more than {MAX_ITEMS} items in its lists"
    return ""


def _got(value: object) -> str:
    kind = type_name(value)
    return kind if kind in ("null", "object", "array") else f"{kind} {_shown(value)}"


def merged(target: object, patch: object) -> Any:
    """Apply a JSON merge patch (RFC 7396) to a value."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def write(message: Message) -> dict[str, Any]:
    """Return the set fields of a message as JSON values, by their JSON names."""
    # Most fields of most messages are not set: the C of protobuf names those that are.
    fields = message.ListFields()
    result: dict[str, Any] = {}
    names = tuple([field.name for field, _ in fields])
    for place, field in _written_fields(message.DESCRIPTOR, names):
        value = getattr(message, field.name) if place is None else fields[place][1]
        if field.is_list:
            result[field.json_name] = [field.to_json(item) for item in value]
        elif field.is_map:
            result[field.json_name] = {key: field.to_json(value[key]) for key in sorted(value)}
        else:
            result[field.json_name] = field.to_json(value)
    return result


@lru_cache(4096)
def _written_fields(
    descriptor: Descriptor, are_set: tuple[str, ...]
) -> Sequence[tuple[int | None, _Field]]:
    """Return the fields to write, in the order of the proto, with their places among those set."""
    places = {name: place for place, name in enumerate(are_set)}
    fields = _fields(descriptor).values()
    return [(places.get(f.name), f) for f in fields if f.always or f.name in places]
