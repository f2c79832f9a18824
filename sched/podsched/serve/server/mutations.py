"""Describes writes of objects: what they change, their conditions, and why etcd refused one.

Pure. ``storage`` executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from podsched.api.etcd_keys import name_in, object_key, term_key
from podsched.api.kinds import KINDS, Kind
from podsched.api.metadata_defaulting import NODE_LEASES
from podsched.api.quota import Usage
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.store.protocol import Compare, KeyValue, Put, WriteOp
from podsched.v1.api_pb2 import Fence

_LEASE = KINDS["Lease"]


class KeysTakenError(ApiError):
    """Exclusive keys of a new object belong to another one; others may be free."""

    def __init__(self, kind: Kind, name: str, keys: frozenset[str]) -> None:
        why = "what was allocated to it was taken meanwhile; please try again"
        known = errors.conflict(kind, name, why)
        super().__init__(known.code, known.reason, known.message, about=known.about)
        self.keys = keys


class New(NamedTuple):
    """An object to be created.

    key: "namespace/name", or the name of a cluster-scoped object. value: the serialized object.
    lease: id of the etcd lease that deletes it, 0 for none. also: further ops of the same write.
    usage: its quota usage, None if no quota counts it. exclusive: keys that must be absent, and
    that the same write puts, with the object's key as their value.
    """

    kind: Kind
    key: str
    value: bytes
    lease: int = 0
    also: tuple[WriteOp, ...] = ()
    usage: Usage | None = None
    exclusive: tuple[str, ...] = ()

    @property
    def compares(self) -> tuple[Compare, ...]:
        """The conditions of its write, beside the fence."""
        keys = (object_key(self.kind, self.key), *self.exclusive)
        return (*map(Compare.absent, keys), *is_no_lock(self))

    @property
    def ops(self) -> tuple[WriteOp, ...]:
        """The operations of its write."""
        owned = [Put(key, self.key.encode()) for key in self.exclusive]
        return (Put(object_key(self.kind, self.key), self.value, self.lease), *self.also, *owned)


class Step(NamedTuple):
    """The write that changes an object.

    value: the new serialized object, None to remove it. compares, ops: further conditions and
    operations of the same transaction. lease: id of the etcd lease that deletes it, 0 for none.
    """

    value: bytes | None
    compares: tuple[Compare, ...] = ()
    ops: tuple[WriteOp, ...] = ()
    lease: int = 0


class Mutation(NamedTuple):
    """A change of one object.

    change: computes the step from a version (None: no change); raises ApiError if that version
    forbids it. It is called again for each newer version, so it must have no side effects.
    refusal: explains why the compares of a step failed although the object is unchanged, from the
    present values of the compared keys; None: retry the change.
    """

    kind: Kind
    key: str
    change: Callable[[Entry], Step | None]
    refusal: Callable[[Mapping[str, KeyValue | None]], ApiError | None] | None = None


Outcome = Entry | ApiError
"""Outcome of a batch's item: the object after the write (or before its removal), or an error."""


def only_entry(outcomes: Sequence[Outcome]) -> Entry:
    """Return the entry of a batch with one item. Raises its ApiError if it failed."""
    outcome = outcomes[0]
    if isinstance(outcome, ApiError):
        raise outcome
    return outcome


# ------------------------------------------------------------------ conditions


def still_leads(fence: Fence | None) -> tuple[Compare, ...]:
    """Return the compare that fails once another leader's term has begun.

    A term's number is the revision at which its leader wrote the term key of the lock.
    """
    return () if fence is None else (Compare.mod_revision_is(term_key(fence.lock), fence.term),)


def is_no_lock(item: New | Mutation) -> tuple[Compare, ...]:
    """Return the compare that fails if a client writes a lock of the schedulers."""
    return (Compare.absent(term_key(item.key)),) if may_be_lock(item) else ()


def may_be_lock(item: New | Mutation) -> bool:
    """Return whether an object might be a lock of the schedulers.

    Schedulers write locks directly to etcd. A client that could replace a lock could stop all
    scheduling: a record with a duration of 68 years is valid until someone deletes it. Most Leases
    are heartbeats of nodes; these have their own namespace and are no locks.
    """
    return item.kind is _LEASE and not item.key.startswith(f"{NODE_LEASES}/")


def refusal(
    item: New | Mutation, fence: Fence | None, current: Mapping[str, KeyValue | None]
) -> ApiError | None:
    """Return the error if the compare of the fence failed, or else that of the lock.

    current: the present values of the compared keys.
    """
    if fence is not None:
        kv = current.get(term_key(fence.lock))
        if kv is None or kv.mod_revision != fence.term:
            return errors.fence_lost(fence.lock, fence.term)
    if may_be_lock(item) and current.get(term_key(item.key)) is not None:
        why = "it is the lock of schedulers, which only they write"
        return errors.forbidden(item.kind, name_in(item.key), why)
    return None


def creation_refusal(
    item: New, fence: Fence | None, current: Mapping[str, KeyValue | None]
) -> ApiError | None:
    """Return the error of ``refusal``, or of a name or an exclusive key that is taken."""
    if (refused := refusal(item, fence, current)) is not None:
        return refused
    if current.get(object_key(item.kind, item.key)) is not None:
        return errors.already_exists(item.kind, name_in(item.key))
    taken = frozenset(key for key in item.exclusive if current.get(key) is not None)
    return KeysTakenError(item.kind, name_in(item.key), taken) if taken else None
