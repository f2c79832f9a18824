"""The election record, its keys in etcd, and its form as a Kubernetes Lease.

Three keys (``podsched.api.etcd_keys``) belong to a lock "namespace/name":

    record     a Lease object, so that clients can look at it
    term       the fence: put by every acquisition, never by a renewal, deleted by a release; its
               mod revision is the term
    liveness   attached to the holder's etcd lease, so it expires soon after the holder has died

The record names the holder. Whether a *write* is the holder's is decided only by the term.
This module has the values and their encoding; it reads no clock and no store.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.etcd_keys import lease_key, liveness_key, term_key
from podsched.lib.ids import Revision, Term
from podsched.v1 import objects_pb2 as v1

#: The key does not exist.
NO_REVISION = Revision(0)
#: There is no leader.
NO_TERM = Term(0)
#: The largest number that a Lease can store. Everyone who may write the Lease can set it to this,
#: and candidates must be able to claim it nevertheless.
MOST_TRANSITIONS = 2**31 - 1

#: The holder's address for connections of its peers, "host:port".
ADDRESS_ANNOTATION = "podsched.io/leader-address"
#: The holder keeps the liveness key on an etcd lease of this many seconds.
LIVENESS_ANNOTATION = "podsched.io/liveness-ttl-seconds"
#: The term, for people. It is known only after the acquisition, so renewals write it.
TERM_ANNOTATION = "podsched.io/term"
#: The holder renews the record several times in so many seconds.
ELECTION_TIMEOUT_ANNOTATION = "podsched.io/election-timeout-seconds"


@dataclass(frozen=True, slots=True)
class LockKeys:
    """The keys of the lock "namespace/name"."""

    namespace: str
    name: str

    @property
    def lock(self) -> str:
        """The "namespace/name", as a Fence names it."""
        return f"{self.namespace}/{self.name}"

    @property
    def record(self) -> str:
        """Key of the Lease object."""
        return lease_key(self.lock)

    @property
    def term(self) -> str:
        """Key whose mod revision is the term."""
        return term_key(self.lock)

    @property
    def liveness(self) -> str:
        """Key that lives as long as its holder."""
        return liveness_key(self.lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionRecord:
    """client-go's LeaderElectionRecord, and podsched's additions in annotations.

    lease_duration_seconds: time after the last renewal in which no other candidate may claim.
    acquire_time, renew_time: wall time for people; no decision depends on it.
    leader_transitions: the number of changes of the holder, at most MOST_TRANSITIONS; a release
        keeps it.
    address: "host:port" for connections of peers, "" for none.
    liveness_ttl: seconds; 0: the holder keeps no liveness key.
    election_timeout: seconds without a renewal after which the holder may be suspected; 0: never.
    """

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    leader_transitions: int = 0
    strategy: str = ""
    preferred_holder: str = ""
    address: str = ""
    liveness_ttl: int = 0
    election_timeout: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The lock's three keys at one revision of the store.

    record_revision: mod revision of the record, 0 if there is none.
    term: mod revision of the term key, 0 without a leader.
    live_holder: identity in the liveness key, "" if the key is gone.
    raft_term: of etcd when it was read, 0 if unknown.
    """

    revision: Revision
    record: LeaderElectionRecord | None = None
    record_revision: Revision = NO_REVISION
    term: Term = NO_TERM
    live_holder: str = ""
    raft_term: int = 0

    @property
    def holder(self) -> str:
        """Identity of the holder, "" if the lock is free."""
        return self.record.holder_identity if self.record else ""

    @property
    def holder_vanished(self) -> bool:
        """Whether the holder's liveness key is gone although it promised to keep it."""
        promised = self.record is not None and self.record.liveness_ttl > 0
        return promised and self.holder != "" and self.live_holder != self.holder


def whole_seconds(duration: float) -> int:
    """Return a duration in whole seconds for the record, rounded up."""
    # Rounded up, so that no standby claims before the holder has given up.
    return max(1, math.ceil(duration))


def decode_lease(lease: v1.Lease) -> LeaderElectionRecord:
    """Return the record in a Lease; fields that are not set get their empty value."""
    spec, annotations = lease.spec, lease.metadata.annotations
    ttl = annotations.get(LIVENESS_ANNOTATION, "")
    return LeaderElectionRecord(
        holder_identity=spec.holder_identity,
        lease_duration_seconds=spec.lease_duration_seconds,
        acquire_time=_datetime(spec, "acquire_time"),
        renew_time=_datetime(spec, "renew_time"),
        leader_transitions=spec.lease_transitions,
        strategy=spec.strategy,
        preferred_holder=spec.preferred_holder,
        address=annotations.get(ADDRESS_ANNOTATION, ""),
        liveness_ttl=int(ttl) if ttl.isascii() and ttl.isdigit() else 0,
        election_timeout=_seconds(annotations.get(ELECTION_TIMEOUT_ANNOTATION, "")),
    )


def decode_term(lease: v1.Lease) -> Term:
    """Return the term of the renewal that wrote a Lease, 0 for other writes."""
    text = lease.metadata.annotations.get(TERM_ANNOTATION, "")
    return Term(int(text)) if text.isascii() and text.isdigit() else NO_TERM


def encode_lease(
    record: LeaderElectionRecord, keys: LockKeys, base: v1.Lease | None, *, term: Term = NO_TERM
) -> v1.Lease:
    """Return the Lease to store. base: the Lease that it replaces, whose other metadata is kept.

    term: 0 if it is not known yet; then there is no term annotation.
    """
    lease = v1.Lease()
    if base is not None:
        lease.metadata.CopyFrom(base.metadata)
    else:
        # A new Lease gets a uid here, because it does not pass through the API server.
        lease.metadata.uid = str(uuid.uuid4())
        _set_time(lease.metadata.creation_timestamp, record.renew_time)
    lease.metadata.name, lease.metadata.namespace = keys.name, keys.namespace
    lease.metadata.resource_version = ""  # readers set it to the key's mod revision
    _annotate(lease, ADDRESS_ANNOTATION, record.address)
    _annotate(lease, LIVENESS_ANNOTATION, str(record.liveness_ttl or ""))
    _annotate(lease, TERM_ANNOTATION, str(term or ""))
    timeout = record.election_timeout
    _annotate(lease, ELECTION_TIMEOUT_ANNOTATION, f"{timeout:g}" if timeout else "")
    spec = lease.spec
    spec.holder_identity = record.holder_identity
    spec.lease_duration_seconds = record.lease_duration_seconds
    spec.lease_transitions = record.leader_transitions
    _set_time(spec.acquire_time, record.acquire_time)
    _set_time(spec.renew_time, record.renew_time)
    if record.strategy:
        spec.strategy = record.strategy
    if record.preferred_holder:
        spec.preferred_holder = record.preferred_holder
    return lease


def _annotate(lease: v1.Lease, name: str, value: str) -> None:
    if value:
        lease.metadata.annotations[name] = value
    else:
        lease.metadata.annotations.pop(name, None)


def _seconds(text: str) -> float:
    """Return a positive number of seconds, 0 for anything else."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < math.inf else 0.0


def _datetime(spec: v1.LeaseSpec, field: str) -> datetime | None:
    if not spec.HasField(field):
        return None
    stamp: Timestamp = getattr(spec, field)
    return stamp.ToDatetime(tzinfo=UTC)


def _set_time(stamp: Timestamp, time: datetime | None) -> None:
    if time is not None:
        stamp.FromDatetime(time)
