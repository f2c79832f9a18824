"""Decodes bodies in Kubernetes' protobuf, for the kinds that clients send in that form.

Answers are JSON: a client that accepts only protobuf gets 406. But ``kubectl create``, ``drain``
and ``auth`` always send protobuf, and so do kubelets, kube-scheduler and kube-controller-manager by
default. So the kinds that they write are read: a message is converted to the JSON of the object by
the field numbers in ``api/kubernetes_fields.txt``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from podsched.api import codec
from podsched.api.json_text import load_json, number_of_values
from podsched.api.kubernetes_fields import numbered_fields
from podsched.api.objects import Timestamp
from podsched.lib.varint import read_varint

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
#: Max fields in all messages of a body, and values in its JSON, together.
_MAX_FIELDS: Final = 50_000
_WORD: Final = 1 << 64


class ProtobufError(ValueError):
    """Bytes that are not a message of the expected type."""


class UnsupportedKindError(ValueError):
    """A kind that is not read as protobuf."""


def decode(raw: bytes) -> dict[str, Any]:
    """Decode the object in a body of Kubernetes' protobuf to JSON.

    Raises ProtobufError and UnsupportedKindError.
    """
    if not raw.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    try:
        return _Decoder().decode(raw[len(_MAGIC) :])
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtobufError(f"the message cannot be decoded: {error}") from None


class _Decoder:
    """Decodes one body of at most _MAX_FIELDS fields."""

    def __init__(self) -> None:
        self._left = _MAX_FIELDS

    def decode(self, raw: bytes) -> dict[str, Any]:
        """Return the object in a ``runtime.Unknown``."""
        parts = self._parts(raw)
        meta = self._parts(_bytes(parts.get(1)))
        version, kind = _text(meta.get(1)), _text(meta.get(2))
        # Events have a different schema in each of their groups.
        message = next(
            (name for name in (f"{version} {kind}", kind) if name in numbered_fields()), ""
        )
        if not message:
            raise UnsupportedKindError(f"{kind[:100]} is not read as protobuf here, only as JSON")
        content = self._message(_bytes(parts.get(2)), message)
        return {"apiVersion": version, "kind": kind, **content}

    def _message(self, raw: bytes, message: str) -> dict[str, Any]:
        known = numbered_fields()[message]
        found: dict[str, Any] = {}
        for number, value in self._fields(raw):
            if number not in known:
                continue
            name, form = known[number]
            if form.endswith("[]"):
                found.setdefault(name, []).append(self._value(value, form[:-2]))
            elif form.endswith("{}"):
                entry = self._parts(_bytes(value))
                inner = self._value(entry.get(2, b""), form[:-2])
                found.setdefault(name, {})[_text(entry.get(1))] = inner
            elif name == "...":
                found |= self._message(_bytes(value), form)
            else:
                found[name] = self._value(value, form)
        return found

    def _value(self, value: Any, form: str) -> Any:
        if form == "int":
            return _number(value)
        if form == "bool":
            return bool(_number(value))
        if form == "string":
            return _text(value)
        raw = _bytes(value)
        if form == "bytes":
            return base64.b64encode(raw).decode()
        if form == "Quantity":
            return _text(self._parts(raw).get(1))
        if form == "RawExtension":
            text = _bytes(self._parts(raw).get(1))
            self._take(number_of_values(text, self._left))
            return _json(text)
        if form == "IntOrString":
            parts = self._parts(raw)
            is_text = _number(parts.get(1))
            return _text(parts.get(3)) if is_text else _number(parts.get(2))
        if form in ("Time", "MicroTime"):
            # Go's zero time is empty.
            return self._time(raw, micros=form == "MicroTime") if raw else None
        return self._message(raw, form)

    def _time(self, raw: bytes, *, micros: bool) -> str:
        parts = self._parts(raw)
        seconds, nanos = _number(parts.get(1)), _number(parts.get(2))
        if not codec.FIRST_SECOND <= seconds <= codec.LAST_SECOND or not 0 <= nanos < 10**9:
            raise ProtobufError("a time is not one of the years 1 to 9999")
        text = codec.format_time(Timestamp(seconds=seconds, nanos=nanos // 1000 * 1000))
        return text if "." in text or not micros else f"{text[:-1]}.000000Z"

    def _take(self, fields: int) -> None:
        self._left -= fields
        if self._left < 0:
            raise ProtobufError(f"the message has more than {_MAX_FIELDS:,} fields")

    def _parts(self, raw: bytes) -> dict[int, Any]:
        """Return the last value of each field."""
        return dict(self._fields(raw))

    def _fields(self, raw: bytes) -> Iterator[tuple[int, Any]]:
        """Yield number and value of each field: an int for a varint, bytes, or a float.

        A float stands for a number of fixed size, which none of these messages has.
        """
        at = 0
        while at < len(raw):
            self._take(1)
            tag, at = read_varint(raw, at)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = read_varint(raw, at)
                yield number, value
                continue
            size, at = read_varint(raw, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, -1), at)
            if size < 0 or at + size > len(raw):
                raise ProtobufError("the message is cut short")
            yield number, raw[at : at + size] if wire == 2 else float("nan")
            at += size


def _json(raw: bytes) -> Any:
    try:
        return load_json(raw)
    except ValueError as error:
        raise ProtobufError(f"JSON cannot be decoded: {error}") from None


def _bytes(value: Any) -> bytes:
    """Return the bytes of a field, empty if absent."""
    if value is None:
        return b""
    if not isinstance(value, bytes):
        raise ProtobufError("a value does not fit its field")
    return value


def _text(value: Any) -> str:
    return _bytes(value).decode()


def _number(value: Any) -> int:
    """Return the number of a field, zero if absent."""
    if value is None:
        return 0
    if not isinstance(value, int):
        raise ProtobufError("a value does not fit its field")
    found = value % _WORD
    return found - _WORD if found >= _WORD >> 1 else found
