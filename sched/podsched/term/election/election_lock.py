"""What the elector needs of a lock: the port that etcd's and Kubernetes' implement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from podsched.lib.ids import Revision
from podsched.term.election.events import Release, Renew, TryAcquire
from podsched.term.election.record import LeaderElectionRecord, Snapshot

Stored = tuple[Revision, LeaderElectionRecord] | None
"""The revision of a write and the record as stored; None if what it compared had changed."""


class ElectionLock(Protocol):
    """A lock as one candidate sees it; methods raise StoreError.

    Revisions grow with every change of the lock and order all that is read and written. The
    revision of an acquisition is its term.
    """

    async def read(self) -> Snapshot:
        """Return the lock at one revision."""
        ...

    async def acquire(self, effect: TryAcquire) -> Stored:
        """Make the candidate the holder, if the record is still the one expected."""
        ...

    async def renew(self, effect: Renew) -> Stored:
        """Renew the record, if it and the term are still the ones expected."""
        ...

    async def release(self, effect: Release) -> Stored:
        """Empty the record, if it and the term are still the ones expected."""
        ...

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[None]]]:
        """Return watches by a name: each yields whenever the lock should be read."""
        ...

    async def keep_alive(self) -> None:
        """Show signs of life until cancelled, where the lock knows any."""
        ...

    async def revoke(self) -> None:
        """End the signs of life: the lock is released."""
        ...
