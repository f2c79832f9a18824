"""The interface of a lock; implemented for etcd and for Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from podsched.lib.ids import Revision
from podsched.term.election.events import Release, Renew, TryAcquire
from podsched.term.election.record import LeaderElectionRecord, Snapshot

Stored = tuple[Revision, LeaderElectionRecord] | None
"""The revision of a write and the stored record; None if a comparison of the write failed."""


class ElectionLock(Protocol):
    """A lock, as used by one candidate. Methods raise StoreError.

    Revisions grow with every change of the lock, and order all reads and writes. The revision of an
    acquisition is its term.
    """

    async def read(self) -> Snapshot:
        """Return the lock at one revision."""
        ...

    async def acquire(self, effect: TryAcquire) -> Stored:
        """Make the candidate the holder, if the record is unchanged."""
        ...

    async def renew(self, effect: Renew) -> Stored:
        """Renew the record, if record and term are unchanged."""
        ...

    async def release(self, effect: Release) -> Stored:
        """Empty the record, if record and term are unchanged."""
        ...

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[Snapshot | None]]]:
        """Return named watches; each yields the changed lock, or None if it should be read."""
        ...

    async def keep_alive(self) -> None:
        """Keep the candidate's liveness key, if the lock has one, until cancelled."""
        ...

    async def revoke(self) -> None:
        """Remove the candidate's liveness key."""
        ...
