"""Read requests to the leader (pause, hand over) from Leases of kube-system.

    Lease of a replica           annotations: its state (``replica_lease``), and HAND_OVER: the
                                 next leader
    Lease <lock's name>-paused   while it exists, the leader of that lock is paused

Both stay when the leader changes. So the next leader is paused as well. A request to hand over is
on the Lease of one replica, which carries it out only when it changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from podsched.api.objects import AnyObject, Lease, seconds_of
from podsched.app.replica_lease import (
    NAMESPACE,
    PREFIX,
    STALE_AFTER,
    is_of_replica,
    lease_name,
    published,
)
from podsched.serve.client.informer import Batch, Event

#: On the leader's own Lease, "<identity> <time>": the time makes every request different.
HAND_OVER = f"{PREFIX}hand-over-to"
#: On the Lease that pauses the leader: why, for people.
REASON = f"{PREFIX}reason"


class StandbyReplica(NamedTuple):
    """A replica that could lead at once, because its caches are warm and its Lease is current."""

    identity: str
    priority: int


def standbys(
    leases: Iterable[AnyObject], lock: str, age: Callable[[Lease], float]
) -> list[StandbyReplica]:
    """Return the warm standbys of a lock, the preferred ones first.

    ``age``: returns the seconds since a Lease was renewed.
    """
    found = []
    for lease in leases:
        if not isinstance(lease, Lease) or not is_of_replica(lease):
            continue
        about = published(lease)
        fresh = age(lease) < STALE_AFTER
        warm = (about.get("state"), about.get("warm")) == ("standby", "true")
        if fresh and warm and about.get("lock") == lock:
            priority = _priority(about.get("priority", ""))
            found.append(StandbyReplica(lease.spec.holder_identity, priority))
    return sorted(found, key=lambda standby: (-standby.priority, standby.identity))


def age_by_wall_clock(lease: Lease) -> float:
    """Return the seconds since a Lease was renewed, as far as both clocks agree."""
    return max(0.0, time.time() - seconds_of(lease.spec.renew_time))


def name_of(identity: str) -> str:
    """Return the name of the replica with this identity."""
    return identity.rpartition("_")[0] or identity


def pause_name(lock: str) -> str:
    """Return the name of the Lease that pauses a lock's leader; it is in the lock's namespace."""
    return f"{lock.partition('/')[2]}-paused"


def _priority(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


class LeaderRequests:
    """Reads requests from an informer's batches, and keeps track of the standbys.

    The age of a Lease is measured as in client-go: by the monotonic clock, from when its renewal
    was seen. By the wall clock, a leader whose clock is set forward would conclude that it is cut
    off and that all standbys are gone.
    """

    def __init__(
        self,
        replica: str,
        lock: str,
        leases: Callable[[], Mapping[str, AnyObject]],
        *,
        pause: Callable[[bool], None],
        hand_over: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``replica``: its name in ``ReplicaLease``; ``leases``: returns Leases by key.

        ``pause`` and ``hand_over`` carry out the requests. ``now`` is monotonic.
        """
        self._own = f"{NAMESPACE}/{lease_name(replica)}"
        self._lock = lock
        self._pause_key = f"{lock.partition('/')[0]}/{pause_name(lock)}"
        self._leases = leases
        self._pause = pause
        self._hand_over = hand_over
        self._now = now
        self._renewed: dict[str, float] = {}
        """When the renewal of a replica's Lease was seen, by the Lease's name."""

    def handle(self, batch: Batch) -> None:
        """Read the requests in a batch that has been applied."""
        for event in batch.events:
            if event.kind != "Lease":
                continue
            self._see(event)
            if event.key == self._pause_key:
                self._pause(event.new is not None)
            elif event.key == self._own and event.old is not None and event.new is not None:
                before = event.old.metadata.annotations.get(HAND_OVER, "")
                asked = event.new.metadata.annotations.get(HAND_OVER, "")
                if asked and asked != before:
                    self._hand_over(asked.partition(" ")[0])

    def _see(self, event: Event) -> None:
        namespace, _, name = event.key.partition("/")
        if namespace != NAMESPACE:
            return
        if not isinstance(event.new, Lease):
            self._renewed.pop(name, None)
        elif not isinstance(event.old, Lease):
            # The Lease is older than this process, and its replica may be dead.
            self._renewed[name] = self._now() - age_by_wall_clock(event.new)
        elif event.old.spec.renew_time != event.new.spec.renew_time:
            self._renewed[name] = self._now()

    def _age(self, lease: Lease) -> float:
        return self._now() - self._renewed.get(lease.metadata.name, self._now())

    def unheard(self, identity: str, since: float) -> float:
        """Return the seconds since this process last saw a renewal of its own Lease.

        The Lease is written through an API server and read by the informer. So if the renewals
        stop, reads or writes do not work. 0.0 before the first renewal. ``since``: the beginning of
        the term, by the monotonic clock. Earlier silence does not count; otherwise a single replica
        would give up the lock again and again.
        """
        lease = self._leases().get(self._own)
        if not isinstance(lease, Lease) or lease.spec.holder_identity != identity:
            return 0.0
        return min(self._age(lease), self._now() - since)

    def successor(self) -> StandbyReplica | None:
        """Return the replica to hand over to; None if no standby is known to be ready."""
        return next(iter(standbys(self._leases().values(), self._lock, self._age)), None)
