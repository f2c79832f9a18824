"""Represents a stored object inside the server: its bytes, which are decoded only on demand.

API servers of this version store only objects that can be decoded, but etcd's tools and other
versions may store others. Lists and watches leave them out, because clients could not decode the
whole response. A get of such an object fails, and a delete works.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from podsched.api.etcd_keys import local_key, name_in, parse_object_key
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.serve.server import errors, frames
from podsched.serve.store.protocol import KeyValue
from podsched.v1 import api_pb2 as v1


class Entry:
    """One version of an object; immutable.

    key: "namespace/name", or the name of a cluster-scoped object. value: the serialized object
    without resourceVersion. revision, created: etcd's revisions of this version and of the
    object's creation.
    """

    __slots__ = ("_message", "created", "key", "kind", "revision", "value")

    def __init__(self, kind: Kind, key: str, value: bytes, revision: int, created: int) -> None:
        self.kind = kind
        self.key = key
        self.value = value
        self.revision = revision
        self.created = created
        self._message: AnyObject | None = None

    @classmethod
    def of(cls, kv: KeyValue) -> Entry | None:
        """Return the object under an etcd key; None for keys of unknown kinds."""
        found = parse_object_key(kv.key)
        return cls.at(*found, kv) if found is not None else None

    @classmethod
    def at(cls, kind: Kind, key: str, kv: KeyValue) -> Entry:
        """Return the object of a kind and local key from its value in etcd."""
        return cls(kind, key, kv.value, kv.mod_revision, kv.create_revision)

    @property
    def message(self) -> AnyObject:
        """The decoded object without resourceVersion, shared by all readers: do not change it.

        Raises ApiError if it cannot be decoded.
        """
        if self._message is None:
            self._message = self.decode()
        return self._message

    def decode(self) -> AnyObject:
        """Decode the object, without resourceVersion, for the caller to change.

        Raises ApiError if it cannot be decoded.
        """
        try:
            message: AnyObject = self.kind.message.FromString(self.value)
        except DecodeError:
            raise errors.unreadable(self.kind, name_in(self.key)) from None
        return message

    def release(self) -> None:
        """Drop the decoded object, which may take ten times the memory of its bytes."""
        self._message = None

    def is_readable(self) -> bool:
        """Return whether the value decodes to the object that the key names; not cached."""
        try:
            return self.is_of(self.kind.message.FromString(self.value))
        except DecodeError:
            return False

    def is_of(self, message: AnyObject) -> bool:
        """Return whether the entry's key is that of a message."""
        metadata = message.metadata
        return local_key(self.kind, metadata.namespace, metadata.name) == self.key

    def raw(self) -> v1.RawObject:
        """Return the stored bytes as a message, with the error if they cannot be decoded."""
        namespace, _, name = self.key.rpartition("/")
        problem = "" if self.is_readable() else errors.unreadable(self.kind, name).message
        return v1.RawObject(
            kind=self.kind.name,
            namespace=namespace,
            name=name,
            resource_version=self.revision,
            value=self.value,
            problem=problem,
        )

    def changed(self, value: bytes, revision: int = 0) -> Entry:
        """Return the object with other bytes, by default as of the same revision."""
        return Entry(self.kind, self.key, value, revision or self.revision, self.created)

    def name_only(self) -> Entry:
        """Return an entry with only the object's name, in place of undecodable bytes."""
        message = self.kind.new()
        namespace, _, message.metadata.name = self.key.rpartition("/")
        message.metadata.namespace = namespace
        return self.changed(message.SerializeToString())

    def wrapped(self, revision: int = 0) -> bytes:
        """Return the serialized ``Object``, with its own resourceVersion or the given one."""
        return frames.object_frame(self.kind, self.value, revision or self.revision)
