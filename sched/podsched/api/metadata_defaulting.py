"""The metadata that the API server sets in new objects."""

from __future__ import annotations

import zlib

from podsched.api import objects as o
from podsched.api.kinds import kind_of

DEFAULT_NAMESPACE = "default"
#: The namespace of the Leases with which nodes report, and the namespaces that always exist.
NODE_LEASES = "kube-node-lease"
BUILT_IN_NAMESPACES = (DEFAULT_NAMESPACE, "kube-system", "kube-public", NODE_LEASES)
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_PREFIX = 63 - _SUFFIX_LENGTH


def default_metadata(message: o.AnyObject, *, now: float, uid: str) -> None:
    """Set name, namespace, uid, creation time and generation of a new object."""
    metadata = message.metadata
    if not metadata.name and metadata.generate_name:
        metadata.name = generated_name(metadata.generate_name, uid)
    if not metadata.namespace and kind_of(message).namespaced:
        metadata.namespace = DEFAULT_NAMESPACE
    metadata.uid = uid
    metadata.generation = 1
    metadata.resource_version = ""
    created = metadata.creation_timestamp
    created.seconds, created.nanos = int(now), 0
    metadata.ClearField("deletion_timestamp")
    metadata.ClearField("deletion_grace_period_seconds")


def generated_name(prefix: str, uid: str) -> str:
    """Return the prefix with five letters derived from the uid."""
    number = zlib.crc32(uid.encode())
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        number, index = divmod(number, len(_SUFFIX_LETTERS))
        letters.append(_SUFFIX_LETTERS[index])
    return prefix[:_MAX_GENERATED_PREFIX] + "".join(letters)
