"""The interface of a lock; implemented for etcd and for Kubernetes.

Only etcd's lock fences writes: API servers compare its term key in the transaction of each write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from podsched.lib.ids import Revision
from podsched.term.election.events import Renew, Write
from podsched.term.election.record import LeaderElectionRecord, Snapshot

Stored = tuple[Revision, LeaderElectionRecord] | None
"""The revision of a write and the stored record; None if a comparison of the write failed."""


class ElectionLock(Protocol):
    """A lock, as used by one candidate. Methods raise StoreError.

    Revisions grow with every change of the lock, and order all reads and writes. The revision of an
    acquisition is its term.
    """

    @property
    def timeout(self) -> float:
        """Max seconds for a read or a write."""

    async def read(self) -> Snapshot:
        """Return the lock at one revision."""

    async def write(self, write: Write) -> Stored:
        """Make a write, if the record and, except for an acquisition, the term are unchanged."""

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[Snapshot | None]]]:
        """Return named watches; each yields the changed lock, or None if it should be read."""

    async def keep_alive(self) -> None:
        """Keep the candidate's liveness key, if the lock has one, until cancelled."""

    async def revoke(self) -> None:
        """Remove the candidate's liveness key."""


def stamped(write: Write) -> LeaderElectionRecord:
    """Return the record of a write as of now; a renewal keeps the acquireTime."""
    now = datetime.now(UTC)
    acquired = write.record.acquire_time if isinstance(write, Renew) else now
    return replace(write.record, acquire_time=acquired, renew_time=now)
