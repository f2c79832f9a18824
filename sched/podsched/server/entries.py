"""A stored object as the server passes it about: bytes, decoded only when somebody looks inside."""

from __future__ import annotations

from podsched.api.etcd_keys import parse_object_key
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.server import frames
from podsched.store.protocol import KeyValue


class Entry:
    """One object as of `revision`; never changed after it was made.

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
        """Return the object under an etcd key; None when the key holds no object of a known kind."""
        found = parse_object_key(kv.key)
        if found is None:
            return None
        return cls(found[0], found[1], kv.value, kv.mod_revision, kv.create_revision)

    @property
    def message(self) -> AnyObject:
        """The decoded object without resourceVersion, shared by all readers: not to be changed."""
        if self._message is None:
            self._message = self.decode()
        return self._message

    def decode(self) -> AnyObject:
        """Return a decoded object without resourceVersion, for the caller to change."""
        message: AnyObject = self.kind.message.FromString(self.value)
        return message

    def wrapped(self, revision: int = 0) -> bytes:
        """Return the serialized `Object`, as of its own or another revision."""
        return frames.object_frame(self.kind, self.value, revision or self.revision)

    def bare(self) -> bytes:
        """Return the serialized object of its own kind, with its resourceVersion."""
        return self.value + frames.revision_suffix(self.revision)
