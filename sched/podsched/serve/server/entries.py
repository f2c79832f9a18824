"""A stored object inside the server: bytes, decoded only when somebody looks inside.

Nothing that cannot be read is stored through this server, but etcd's tools and other versions
write there, too. Such an entry is in no list and no watch, because clients would fail to decode
the whole response; reading it is refused by name and deleting it works.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from podsched.api.etcd_keys import local_key, parse_object_key
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.serve.server import errors, frames
from podsched.serve.store.protocol import KeyValue
from podsched.v1 import api_pb2 as v1


class Entry:
    """One object as of ``revision``; never changed after it was made.

    key: namespace/name, or the name alone; value: the serialized object without resourceVersion.
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
        """Return the object under an etcd key; None for a key that is no object of a known kind."""
        found = parse_object_key(kv.key)
        if found is None:
            return None
        return cls(found[0], found[1], kv.value, kv.mod_revision, kv.create_revision)

    @property
    def message(self) -> AnyObject:
        """The decoded object without resourceVersion, shared by all readers: not to be changed.

        Raises ApiError when it cannot be read.
        """
        if self._message is None:
            self._message = self.decode()
        return self._message

    def decode(self) -> AnyObject:
        """Return a decoded object without resourceVersion, for the caller to change.

        Raises ApiError when it cannot be read.
        """
        try:
            message: AnyObject = self.kind.message.FromString(self.value)
        except DecodeError:
            raise errors.unreadable(self.kind, self.key.rpartition("/")[2]) from None
        return message

    def is_readable(self) -> bool:
        """Return whether it decodes to the object that its key names; not cached."""
        try:
            return self.is_of(self.kind.message.FromString(self.value))
        except DecodeError:
            return False

    def is_of(self, message: AnyObject) -> bool:
        """Return whether the key is the message's."""
        metadata = message.metadata
        return local_key(self.kind, metadata.namespace, metadata.name) == self.key

    def raw(self) -> v1.RawObject:
        """Return what is stored, with what is wrong with it if it cannot be read."""
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

    def name_only(self) -> Entry:
        """Return an entry with nothing but the object's name, for clients to decode instead."""
        message = self.kind.new()
        namespace, _, message.metadata.name = self.key.rpartition("/")
        message.metadata.namespace = namespace
        value = message.SerializeToString()
        return Entry(self.kind, self.key, value, self.revision, self.created)

    def wrapped(self, revision: int = 0) -> bytes:
        """Return the serialized ``Object``, as of its own or another revision."""
        return frames.object_frame(self.kind, self.value, revision or self.revision)

    def bare(self) -> bytes:
        """Return the serialized object of its own kind, with its resourceVersion."""
        return self.value + frames.revision_suffix(self.revision)
