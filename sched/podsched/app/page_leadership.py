"""Read for the web page which replica leads, and the other replicas' states, from their Leases."""

from __future__ import annotations

from podsched.api.objects import Lease, seconds_of
from podsched.app.leader_requests import REASON, pause_name
from podsched.app.load import load_of
from podsched.app.replica_lease import (
    DEFAULT_LOCK,
    NAMESPACE,
    is_of_replica,
    lease_name,
    published,
    state_of,
    whole,
)
from podsched.ask.web.sources import Leadership, Replica, Source

#: Keys of the replicas' own Leases.
_REPLICAS = f"{NAMESPACE}/{lease_name('')}"


class LeasedLeadership:
    """Reads the leadership from Leases: the lock's, those of replicas, and the pause."""

    def __init__(self, source: Source, lock: str = "") -> None:
        """``lock``: "" for the only lock of the replicas, or DEFAULT_LOCK if there are several."""
        self._source = source
        self._lock = lock

    def __call__(self, now: float) -> Leadership:
        """Return the leader and the replicas at ``now``, a Unix time."""
        # By key first: most other Leases are heartbeats of nodes, thousands of them.
        names = (key for key in self._source.keys("Lease") if key.startswith(_REPLICAS))
        found_leases = (self._lease(key) for key in names)
        leases = [lease for lease in found_leases if lease is not None and is_of_replica(lease)]
        found = {published(lease).get("lock", "") for lease in leases} - {""}
        usual = DEFAULT_LOCK in found or not found
        lock = self._lock or (DEFAULT_LOCK if usual else min(found))
        record = self._lease(lock) or Lease()
        holder = record.spec.holder_identity
        pause = self._lease(f"{lock.partition('/')[0]}/{pause_name(lock)}")
        return Leadership(
            lock,
            holder,
            seconds_of(record.spec.acquire_time),
            record.spec.lease_transitions,
            _paused(pause),
            tuple(
                _replica(lease, holder, now)
                for lease in sorted(leases, key=lambda lease: lease.spec.holder_identity)
                if published(lease).get("lock") == lock
            ),
        )

    def _lease(self, key: str) -> Lease | None:
        found = self._source.get("Lease", key)
        return found if isinstance(found, Lease) else None


def _paused(pause: Lease | None) -> str:
    """Return who has paused the leader and why; "" if it is not paused."""
    if pause is None:
        return ""
    why = pause.metadata.annotations.get(REASON, "")
    return f"{pause.spec.holder_identity}: {why}" if why else pause.spec.holder_identity


def _replica(lease: Lease, holder: str, now: float) -> Replica:
    about = published(lease)
    state = state_of(lease, holder, now - seconds_of(lease.spec.renew_time))
    term = whole(about.get("term", "")) if state == "leading" else 0
    load = load_of(about.get("load", ""))
    page = about.get("page", "")
    if not page.startswith(("http://", "https://")):
        page = ""  # a link to it would run a script, if the browser did not refuse to
    return Replica(lease.spec.holder_identity, state, term, page, load)
