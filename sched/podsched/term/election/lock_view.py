"""A candidate's view of the lock, in every phase, and how it is updated.

Values only. Times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.events import Written
from podsched.term.election.record import NO_REVISION, NO_TERM, LeaderElectionRecord, Snapshot

#: Renewals per election timeout.
HEARTBEATS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The constants of a candidate.

    address: "host:port" for connections of peers, "" for none.
    liveness_ttl: seconds; 0: it keeps no liveness key.
    race_jitter: seconds over which the claims of standbys are spread after a holder has vanished.
    coordinated: it does not race; the API server appoints the holder in the record.
    election_timeout: seconds of silence after which standbys take over (``silence``); 0: only when
        the lease or the liveness key has ended, or the connection broke.
    """

    identity: str
    settings: LeaderElectionSettings
    address: str = ""
    liveness_ttl: int = 2
    race_jitter: float = 0.02
    coordinated: bool = False
    election_timeout: float = 0.0

    @property
    def heartbeat_interval(self) -> float:
        retry_period = self.settings.retry_period
        if not self.election_timeout:
            return retry_period
        return min(self.election_timeout / HEARTBEATS, retry_period)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """A candidate's view of the lock.

    snapshot: the newest snapshot; observed_at: when its *record* was first seen here.
    suspected: revision of the record whose holder refuses connections; cleared by a renewal.
    announced: identity of the last seen and reported leader, "" for none.
    followed: (identity, term) of the leader to which a connection is held, or None.
    transitions: the highest leaderTransitions seen, -1 for none.
    attempt: number of the last write; answers to earlier writes are ignored.
    has_led: whether the candidate has led since it started.
    wary_until: before this time it does not suspect a silent holder; wary_for: the length in
        seconds of the last such period, 0 for none (``silence``).
    cut_off: whether it reaches no API server, so that it could not do a leader's work.
    raft_term: etcd's highest Raft term seen; elected_at: when a read showed that it had grown.
    """

    candidate: Candidate
    snapshot: Snapshot | None = None
    observed_at: float = 0.0
    suspected: Revision = NO_REVISION
    announced: str = ""
    followed: tuple[str, Term] | None = None
    transitions: int = -1
    attempt: int = 0
    has_led: bool = False
    wary_until: float = 0.0
    wary_for: float = 0.0
    cut_off: bool = False
    raft_term: int = 0
    elected_at: float = 0.0

    @property
    def identity(self) -> str:
        return self.candidate.identity

    @property
    def settings(self) -> LeaderElectionSettings:
        return self.candidate.settings

    @property
    def term(self) -> Term:
        """The term of the last seen leader, 0 for none."""
        return self.snapshot.term if self.snapshot else NO_TERM

    @property
    def end_of_term(self) -> bool:
        """Whether the API server prefers another holder, so that this one must not renew."""
        record = self.snapshot.record if self.snapshot else None
        preferred = record.preferred_holder if record is not None else ""
        return self.candidate.coordinated and preferred not in ("", self.identity)

    @property
    def record_revision(self) -> Revision:
        """Revision of the last seen record, 0 if there is none."""
        return self.snapshot.record_revision if self.snapshot else NO_REVISION


@dataclass(frozen=True, slots=True)
class Tenure:
    """The lock while this candidate holds it: the term, and the current record and revision."""

    term: Term
    record: LeaderElectionRecord
    record_revision: Revision


def learned(view: LockView, snapshot: Snapshot, now: float) -> LockView:
    """Return the view with a newer snapshot; a record's age counts from when it was first seen."""
    if view.snapshot is None or view.snapshot.record_revision != snapshot.record_revision:
        # A living candidate has written the record, so its age begins anew. It counts from now and
        # not from its renewTime, as in client-go, since the clocks of machines differ.
        view = replace(view, observed_at=now, suspected=NO_REVISION)
    if snapshot.record is not None:
        # The highest ever seen, because a record may have been deleted or damaged (invariant 4).
        most = max(view.transitions, snapshot.record.leader_transitions)
        view = replace(view, transitions=most)
    if snapshot.raft_term > view.raft_term:
        elected_at = now if view.raft_term else view.elected_at
        view = replace(view, raft_term=snapshot.raft_term, elected_at=elected_at)
    return replace(view, snapshot=snapshot)


def learned_own_write(view: LockView, event: Written, term: Term, now: float) -> LockView:
    """Return the view after an own write, unless a later revision was seen already."""
    if view.snapshot is not None and view.snapshot.revision > event.revision:
        return view
    snapshot = Snapshot(
        revision=event.revision,
        record=event.record,
        record_revision=event.revision,
        term=term,
        live_holder=event.record.holder_identity if event.record.liveness_ttl else "",
    )
    return learned(view, snapshot, now)


def tenure_in(view: LockView, term: Term) -> Tenure | None:
    """Return the lock if this candidate holds it in this term, else None."""
    snapshot = view.snapshot
    if snapshot is None or snapshot.record is None:
        return None
    if (snapshot.holder, snapshot.term) != (view.identity, term):
        return None
    return Tenure(term, snapshot.record, snapshot.record_revision)
