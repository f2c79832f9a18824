"""The contract of the store: keys with revisions, conditional writes, watches, leases.

Guarantees, checked by one suite (tests/serve/store) on the in-memory fake and on a real etcd:

- Reads without a revision are linearizable.
- A ``Write`` is applied whole or not at all; its compares and its ops are one atomic step.
  Writes to the same key take effect in the order in which they were submitted.
- Writes submitted together may share one revision: revisions order *groups* of writes.
- A watch delivers every change of its keys once, in order, from its start revision on, even if
  connections break in between, and never splits one revision over two batches.

Values are opaque bytes.

The data types are NamedTuples: a frozen dataclass costs three times as much to create, and on the
hottest path of the API server one is created for each object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from podsched.serve.store.errors import StoreError


class KeyValue(NamedTuple):
    """One key as of ``mod_revision``.

    create_revision, mod_revision: revisions of its creation and of its last change.
    version: number of writes since its creation, 1 at creation, 0 if deleted.
    lease: id of the lease it is attached to, 0 for none.
    """

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


class CompareTarget(IntEnum):
    """The property of a key to compare (numbers are etcd's)."""

    VERSION = 0
    CREATE_REVISION = 1
    MOD_REVISION = 2
    VALUE = 3
    LEASE = 4


class CompareRelation(IntEnum):
    """The relation to the operand (numbers are etcd's)."""

    EQUAL = 0
    GREATER = 1
    LESS = 2
    NOT_EQUAL = 3


class Compare(NamedTuple):
    """A condition on one key; the class methods build the usual ones.

    A key that does not exist has version, revisions and lease 0, and no value: every
    comparison of its value is false.
    """

    key: str
    target: CompareTarget
    relation: CompareRelation
    operand: int | bytes

    @classmethod
    def mod_revision_is(cls, key: str, revision: int) -> Compare:
        """Compare that the key was last changed at this revision (0: it does not exist)."""
        return cls(key, CompareTarget.MOD_REVISION, CompareRelation.EQUAL, revision)

    @classmethod
    def version_is(cls, key: str, version: int) -> Compare:
        """Compare that the key has been written this often since its creation."""
        return cls(key, CompareTarget.VERSION, CompareRelation.EQUAL, version)

    @classmethod
    def exists(cls, key: str) -> Compare:
        """Compare that the key exists."""
        return cls(key, CompareTarget.CREATE_REVISION, CompareRelation.GREATER, 0)

    @classmethod
    def absent(cls, key: str) -> Compare:
        """Compare that the key does not exist."""
        return cls(key, CompareTarget.CREATE_REVISION, CompareRelation.EQUAL, 0)


class Put(NamedTuple):
    """Set a key; ``lease`` 0 attaches it to none (and detaches it from an earlier one)."""

    key: str
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Remove a key; removing an absent key succeeds and changes nothing."""

    key: str


class Get(NamedTuple):
    """Read a key inside a ``txn``."""

    key: str


WriteOp = Put | Delete
TxnOp = Put | Delete | Get


class Write(NamedTuple):
    """Ops applied together if all compares hold; each key may be written once."""

    compares: Sequence[Compare]
    ops: Sequence[WriteOp]


class WriteResult(NamedTuple):
    """Outcome of one ``Write``.

    revision: of the store after it; if it succeeded and changed something, this is the
        mod revision of all keys it put.
    current: only if a compare failed: the present values of the compared keys (None: absent).
    """

    succeeded: bool
    revision: int
    current: Mapping[str, KeyValue | None]


WriteOutcome = WriteResult | StoreError
"""One entry of a batch: its result, or the fault that a single ``write`` would have raised."""


class TxnResult(NamedTuple):
    """Outcome of a ``txn``: kvs answers the ``Get``s of the branch taken, in their order."""

    succeeded: bool
    revision: int
    kvs: tuple[KeyValue | None, ...]


class GetResult(NamedTuple):
    """A key (None: absent) and the store's revision when it was read."""

    kv: KeyValue | None
    revision: int


class RangeResult(NamedTuple):
    """Keys in ascending order.

    more: there are keys beyond the limit.
    total: number of keys in the range asked for, without the limit.
    revision: of the store when it was read (not the revision asked for).
    """

    kvs: list[KeyValue]
    more: bool
    total: int
    revision: int


class EventType(IntEnum):
    """Kinds of change (numbers are etcd's)."""

    PUT = 0
    DELETE = 1


class WatchEvent(NamedTuple):
    """One change; after a DELETE kv holds the key and the deletion's mod_revision only."""

    type: EventType
    kv: KeyValue


class WatchBatch(NamedTuple):
    """Changes in order, with all events of every revision it touches.

    revision: all changes up to and including it have been delivered. Without events the batch only
        reports progress (a progress notification, or the start of a watch from "now").
    """

    revision: int
    events: Sequence[WatchEvent]


class LeaseGrant(NamedTuple):
    """A lease; ttl in seconds as granted, which may be more than requested."""

    id: int
    ttl: int


class StoreStatus(NamedTuple):
    """State of the member that answered; db_size in bytes."""

    endpoint: str
    revision: int
    db_size: int
    raft_term: int


class Store(Protocol):
    """The store that podsched needs; every method may raise ``StoreError``s."""

    @property
    def raft_term(self) -> int:
        """The highest Raft term seen in an answer, 0 before the first.

        It grows when etcd elects a leader, and begins anew when a watch raises ``Restored``.
        """

    async def get(self, key: str, *, revision: int | None = None) -> GetResult:
        """Read one key, linearizable, or as of an earlier revision (else ``Compacted``)."""

    async def range(
        self,
        prefix: str,
        *,
        limit: int = 0,
        start_after: str | None = None,
        revision: int | None = None,
    ) -> RangeResult:
        """Read the keys that begin with prefix, at most ``limit`` (0: all), after a key."""

    async def write(self, write: Write) -> WriteResult:
        """Apply one write; concurrent writes share a commit, each succeeds independently.

        Cancelling the caller does not undo a submitted write.
        """

    async def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        """Apply many writes, each independently, in order; cheaper than as many ``write`` calls.

        They are not one atomic step. Errors are entries of the list and are not raised.
        """

    async def txn(
        self,
        compares: Sequence[Compare],
        on_success: Sequence[TxnOp],
        on_failure: Sequence[TxnOp] = (),
    ) -> TxnResult:
        """Run one transaction directly, not grouped with other writes."""

    def watch(
        self, prefix: str | Sequence[str], *, start_revision: int = 0
    ) -> AsyncIterator[WatchBatch]:
        """Yield changes of all keys under the prefix(es) from start_revision on (0: from now).

        From now: the first batch is empty and has the revision after which the watch begins.
        Broken connections are resumed. Raises ``Compacted`` if a needed revision is compacted,
        ``Restored`` if etcd has lost history that was seen, ``Unauthorized`` if watching is not
        permitted; retries after all other errors.
        Several prefixes are watched as the one range that covers them, so they should lie
        close together in the key space; else use several watches.
        """

    async def lease_grant(self, ttl: int) -> LeaseGrant:
        """Grant a lease of about ttl seconds; its keys are deleted when it expires."""

    async def lease_keep_alive(self, lease_id: int) -> int:
        """Renew a lease once; return the new ttl in seconds. Raises ``LeaseNotFound``."""

    async def lease_revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys; ``LeaseNotFound`` if it has ended already."""

    async def compact(self, revision: int) -> None:
        """Discard the history before a revision; no error if that is already done."""

    async def status(self) -> StoreStatus:
        """Return the state of the etcd member in use."""

    async def close(self) -> None:
        """End watches and connections; queued writes fail with ``Closed``."""
