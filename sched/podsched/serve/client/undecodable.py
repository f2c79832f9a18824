"""Finds the kind and name of objects that cannot be decoded.

Objects stored through API servers of this version can be decoded; objects stored by other versions
or by etcd's tools may not. Readers of many objects skip such an object, count it and log its name.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from podsched.api.kinds import KINDS
from podsched.api.objects import joined_key
from podsched.lib.varint import delimited_fields
from podsched.telemetry.logs import get_logger
from podsched.v1.objects_pb2 import Object, ObjectMeta

_log = get_logger("client")
_KINDS = {
    Object.DESCRIPTOR.fields_by_name[kind.oneof_field].number: name for name, kind in KINDS.items()
}
_META = {field.name: field.number for field in ObjectMeta.DESCRIPTOR.fields}
#: The number of the field ``metadata``, in every kind.
_METADATA = 1


class Identity(NamedTuple):
    """A kind and a key, "namespace/name" or only the name; "" if unknown."""

    kind: str
    key: str


UNKNOWN = Identity("", "")


def identify(raw: bytes) -> Identity:
    """Return kind and key of an undecodable ``Object``, as far as they can be read.

    It parses only the few fields that lead to the name, so errors in others do not matter.
    """
    try:
        for number, content in _fields(raw).items():
            kind = _KINDS.get(number, "")
            if kind:
                metadata = _fields(_fields(content).get(_METADATA, b""))
                names = (metadata.get(_META["namespace"], b""), metadata.get(_META["name"], b""))
                namespace, name = (part.decode() for part in names)
                return Identity(kind, joined_key(namespace, name))
    except (DecodeError, UnicodeDecodeError):
        pass
    return UNKNOWN


def _fields(raw: bytes) -> dict[int, bytes]:
    """Return the length-delimited fields of a message, the first of each number.

    The first, since API servers append a second ``metadata`` with only the resourceVersion.
    """
    found: dict[int, bytes] = {}
    for number, content in delimited_fields(raw):
        found.setdefault(number, content)
    return found


def log_undecodable(identity: Identity) -> None:
    """Log that an object is ignored because it cannot be decoded."""
    kind, key = identity
    _log.warning("An object cannot be decoded and is ignored", kind=kind or "?", name=key or "?")
