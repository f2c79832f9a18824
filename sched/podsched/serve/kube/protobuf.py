r"""Adds finalizers to an object in Kubernetes' protobuf and leaves all its other bytes alone.

The encoding is the magic ``k8s\0`` and a ``runtime.Unknown``, whose field 2 is the object. Field 1
of each object is its ``ObjectMeta``. A second field 1 that follows is merged into the first, as
protobuf demands of every decoder: repeated fields are appended, others replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from podsched.lib.varint import varint
from podsched.serve.client.errors import Unreadable

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
_METADATA: Final = 1
_UID, _RESOURCE_VERSION, _FINALIZERS = 5, 6, 14
_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED_SIZES: Final = {1: 8, 5: 4}


def add_finalizers(
    encoded: bytes, finalizers: Iterable[str], *, uid: str = "", resource_version: str = ""
) -> bytes:
    """Return an encoded object with the finalizers that it lacks.

    ``uid``, ``resource_version``: preconditions of the write, which replace what the object has.
    Raises Unreadable if it is not an object in this encoding.
    """
    if not encoded.startswith(_MAGIC):
        raise Unreadable("the answer is no object in Kubernetes' protobuf")
    try:
        envelope = list(_fields(encoded[len(_MAGIC) :]))
        [raw] = [content for number, content, _ in envelope if number == _RAW]
        metadata = [content for number, content, _ in _fields(raw) if number == _METADATA]
        there = {
            content.decode()
            for part in metadata
            for number, content, _ in _fields(part)
            if number == _FINALIZERS
        }
    except (IndexError, ValueError) as error:
        raise Unreadable(f"the answer is no object in Kubernetes' protobuf: {error}") from error
    added = b"".join(_field(_FINALIZERS, name.encode()) for name in finalizers if name not in there)
    if uid:
        added += _field(_UID, uid.encode())
    if resource_version:
        added += _field(_RESOURCE_VERSION, resource_version.encode())
    changed = _field(_RAW, raw + _field(_METADATA, added))
    others = (whole for number, _, whole in envelope if number != _RAW)
    return _MAGIC + b"".join(others) + changed


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def _fields(raw: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield number, content and whole encoding of each field; numbers have no content.

    Raises IndexError or ValueError.
    """
    at = 0
    while at < len(raw):
        begin = at
        tag, at = _read_varint(raw, at)
        wire, content = tag & 7, b""
        if wire == _VARINT:
            _, at = _read_varint(raw, at)
        elif wire == _LENGTH_DELIMITED:
            size, at = _read_varint(raw, at)
            content, at = raw[at : at + size], at + size
        elif wire in _FIXED_SIZES:
            at += _FIXED_SIZES[wire]
        else:
            raise ValueError(f"unknown wire type {wire}")
        if at > len(raw):
            raise ValueError("it is cut short")
        yield tag >> 3, content, raw[begin:at]


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
