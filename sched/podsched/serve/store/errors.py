"""The store's exceptions; each class says who is at fault and whether to retry.

    StoreError
    ├── Unavailable       etcd cannot be reached or has no leader; nothing was applied: retry
    ├── MaybeApplied      a write was sent and its answer lost: read before trying again
    ├── Compacted         the revision asked for is gone: list again and watch from there
    │   └── Restored      etcd was restored from a backup and has lost history
    ├── LeaseNotFound     the lease expired or was revoked: grant a new one
    ├── TooLarge          the request exceeds etcd's limits: the caller must send less
    ├── InvalidRequest    etcd refuses the request as malformed: a bug in the caller
    ├── Unauthorized      wrong or missing credentials or permissions: the operator
    ├── NoSpace           etcd's quota is used up and it refuses writes: the operator
    ├── Closed            the store was closed by its owner
    └── EmbeddedEtcdError the embedded etcd could not be started or died

A failed compare is not an exception but a ``WriteResult`` with ``succeeded=False``.
gRPC and etcd errors never leave this package; they are the ``__cause__`` of these.
"""

from __future__ import annotations

from typing import ClassVar


class StoreError(Exception):
    """A fault of the store.

    retryable: the same call may succeed later without any intervention.
    outcome_unknown: the call may have been applied although it failed.
    """

    retryable: ClassVar[bool] = False
    outcome_unknown: ClassVar[bool] = False


class Unavailable(StoreError):
    """No etcd member answered in time, or none knows a leader; nothing was applied."""

    retryable = True


class MaybeApplied(StoreError):
    """A write was sent but its answer was lost; it may or may not have been applied.

    Not retryable blindly: read the keys first, or repeat the write only if its compares
    make a second application harmless.
    """

    outcome_unknown = True


class Compacted(StoreError):
    """The revision asked for has been compacted.

    compact_revision: the oldest revision that can still be read or watched; 0 when etcd
    does not tell (it does for watches, it does not for reads).
    """

    def __init__(self, compact_revision: int = 0) -> None:
        known = f" (oldest is {compact_revision})" if compact_revision else ""
        super().__init__(f"the revision asked for has been compacted{known}")
        self.compact_revision = compact_revision


class Restored(Compacted):
    """etcd no longer has the history that this client has seen: it was restored from a backup.

    Revisions seen before may be in the future now, or occur again with other changes.
    """

    def __init__(self, seen: int, why: str) -> None:
        super().__init__()
        self.args = (f"etcd has another history than the one seen up to revision {seen}: {why}",)


class LeaseNotFound(StoreError):
    """The lease does not exist: expired, revoked or never granted."""


class TooLarge(StoreError):
    """The request has more bytes or operations than etcd accepts; nothing was applied."""


class InvalidRequest(StoreError):
    """etcd refuses the request as malformed (a key written twice, a future revision, ...)."""


class Unauthorized(StoreError):
    """Credentials are missing or wrong, or do not permit the operation."""


class NoSpace(StoreError):
    """etcd's backend quota is exhausted; only reads and deletes work until it is raised."""


class Closed(StoreError):
    """The store has been closed; writes that were still queued were not sent."""


class EmbeddedEtcdError(StoreError):
    """The embedded etcd could not be started, or ended by itself."""
