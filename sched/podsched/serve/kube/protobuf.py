r"""Adds finalizers to an object in Kubernetes' protobuf and leaves all its other bytes alone.

The encoding is the magic ``k8s\0`` and a ``runtime.Unknown``, whose field 2 is the object. Field 1
of each object is its ``ObjectMeta``. A second field 1 that follows is merged into the first, as
protobuf demands of every decoder: repeated fields are appended, others replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import DecodeError

from podsched.lib.varint import delimited_fields, varint
from podsched.serve.client.errors import Unreadable

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
#: Comes before each object; then follow the field numbers of runtime.Unknown, of any object and of
#: ObjectMeta, and protobuf's wire type.
_MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
_METADATA: Final = 1
_UID, _RESOURCE_VERSION, _FINALIZERS = 5, 6, 14
_LENGTH_DELIMITED: Final = 2


def add_finalizers(
    encoded: bytes, finalizers: Iterable[str], *, uid: str = "", resource_version: str = ""
) -> bytes:
    """Return an encoded object with the finalizers that it lacks.

    ``uid``, ``resource_version``: preconditions of the write, which replace what the object has.
    Raises Unreadable if it is not an object in this encoding.
    """
    if not encoded.startswith(_MAGIC):
        raise Unreadable("the answer is not an object in Kubernetes' protobuf")
    try:
        envelope = list(delimited_fields(encoded[len(_MAGIC) :]))
        [raw] = [content for number, content in envelope if number == _RAW]
        metadata = [content for number, content in delimited_fields(raw) if number == _METADATA]
        there = {
            content.decode()
            for part in metadata
            for number, content in delimited_fields(part)
            if number == _FINALIZERS
        }
    except (DecodeError, ValueError) as error:
        raise Unreadable(f"the answer is not an object in Kubernetes' protobuf: {error}") from error
    added = b"".join(_field(_FINALIZERS, name.encode()) for name in finalizers if name not in there)
    if uid:
        added += _field(_UID, uid.encode())
    if resource_version:
        added += _field(_RESOURCE_VERSION, resource_version.encode())
    changed = _field(_RAW, raw + _field(_METADATA, added))
    others = (_field(number, content) for number, content in envelope if number != _RAW)
    return _MAGIC + b"".join(others) + changed


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content
