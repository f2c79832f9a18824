"""What people ask of the leader, and who could lead instead: read from Leases of kube-system.

    Lease of a replica           label, ``replica_lease``: how it is; hand-over-to: who is to lead
    Lease <lock's name>-paused   while it exists, the leader of that lock decides nothing

Both outlive a leader: whoever leads next is paused as well, and a request that came too late is
ignored, since it is an annotation that was there before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from podsched.api.objects import AnyObject, Lease, seconds_of
from podsched.app.replica_lease import COMPONENT, LABEL, NAMESPACE, PREFIX, STALE_AFTER, lease_name
from podsched.client.informer import Batch

#: "<identity> <when>" on the leader's own Lease; when makes each request another one.
HAND_OVER = f"{PREFIX}hand-over-to"
#: On the Lease that pauses: why, as people read it.
REASON = f"{PREFIX}reason"


class StandbyReplica(NamedTuple):
    """A replica that could lead at once: its caches are warm, and it has been seen just now."""

    identity: str
    priority: int


def standbys(leases: Iterable[AnyObject], lock: str, now: float) -> list[StandbyReplica]:
    """Return the warm standbys of a lock, the one to be preferred first; now: Unix seconds."""
    found = []
    for lease in leases:
        if not isinstance(lease, Lease) or lease.metadata.labels.get(LABEL) != COMPONENT:
            continue
        about = lease.metadata.annotations
        fresh = now - seconds_of(lease.spec.renew_time) < STALE_AFTER
        warm = (about.get(f"{PREFIX}state"), about.get(f"{PREFIX}warm")) == ("standby", "true")
        if fresh and warm and about.get(f"{PREFIX}lock") == lock:
            priority = _whole(about.get(f"{PREFIX}priority", ""))
            found.append(StandbyReplica(lease.spec.holder_identity, priority))
    return sorted(found, key=lambda standby: (-standby.priority, standby.identity))


def name_of(identity: str) -> str:
    """Return the name of the replica with this identity."""
    return identity.rpartition("_")[0] or identity


def pause_name(lock: str) -> str:
    """Return the name of the Lease that pauses a lock's leader; it is in the lock's namespace."""
    return f"{lock.partition('/')[2]}-paused"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


class LeaderRequests:
    """Hears requests from an informer's batches, and knows the standbys."""

    def __init__(
        self,
        replica: str,
        lock: str,
        leases: Callable[[], Mapping[str, AnyObject]],
        *,
        pause: Callable[[bool], None],
        hand_over: Callable[[str], None],
    ) -> None:
        """``replica``: as ``ReplicaLease`` names it; pause and hand_over: who does it."""
        self._own = f"{NAMESPACE}/{lease_name(replica)}"
        self._lock = lock
        self._pause_key = f"{lock.partition('/')[0]}/{pause_name(lock)}"
        self._leases = leases
        self._pause = pause
        self._hand_over = hand_over

    def handle(self, batch: Batch) -> None:
        """Hear what is asked in a batch that has been taken over."""
        for event in batch.events:
            if event.kind != "Lease":
                continue
            if event.key == self._pause_key:
                self._pause(event.new is not None)
            elif event.key == self._own and event.old is not None and event.new is not None:
                before = event.old.metadata.annotations.get(HAND_OVER, "")
                asked = event.new.metadata.annotations.get(HAND_OVER, "")
                if asked and asked != before:
                    self._hand_over(asked.partition(" ")[0])

    def unheard(self, identity: str, now: float) -> float:
        """Return the seconds since when nothing of this process came back by way of the API.

        Its Lease is written through an API server and seen by the informer: when that stands still,
        it reads nothing new, or writes nothing, or both. 0.0 while it has not been seen at all.
        """
        lease = self._leases().get(self._own)
        if not isinstance(lease, Lease) or lease.spec.holder_identity != identity:
            return 0.0
        return max(0.0, now - seconds_of(lease.spec.renew_time))

    def successor(self) -> StandbyReplica | None:
        """Return who is to lead next, None if nobody is known to be warm."""
        return next(iter(standbys(self._leases().values(), self._lock, time.time())), None)
