"""What a candidate knows of the lock, whatever phase it is in, and how it learns.

Values only. Times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.events import Written
from podsched.term.election.record import NO_REVISION, LeaderElectionRecord, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What does not change while a candidate runs.

    address: "host:port" where it accepts its peers, "" for none.
    liveness_ttl: seconds; 0 when it keeps no liveness key.
    race_jitter: seconds; standbys that see a holder vanish start within this of each other.
    coordinated: it never races: the record says whom the API server has appointed.
    """

    identity: str
    settings: LeaderElectionSettings
    address: str = ""
    liveness_ttl: int = 2
    race_jitter: float = 0.02
    coordinated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """What a candidate knows of the lock in every phase.

    snapshot: the newest one seen; observed_at: when its *record* was first seen here.
    suspected: revision of the record at whose holder nothing listens any more; a renewal clears it.
    announced: identity of the leader as last reported, "" while there is none.
    followed: (identity, term) of the leader to which a connection is held, or None.
    transitions: the most leaderTransitions ever seen, -1 for none.
    attempt: number of the last write; answers to others are ignored.
    has_led: whether it has led since it started.
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

    @property
    def identity(self) -> str:
        """The candidate's own identity."""
        return self.candidate.identity

    @property
    def settings(self) -> LeaderElectionSettings:
        """The candidate's settings."""
        return self.candidate.settings

    @property
    def end_of_term(self) -> bool:
        """Whether another one than the holder is preferred, who therefore does not renew."""
        record = self.snapshot.record if self.snapshot else None
        preferred = record.preferred_holder if record is not None else ""
        return self.candidate.coordinated and preferred not in ("", self.identity)

    @property
    def record_revision(self) -> Revision:
        """Revision of the record as last seen, 0 if there is none."""
        return self.snapshot.record_revision if self.snapshot else NO_REVISION


@dataclass(frozen=True, slots=True)
class Tenure:
    """The lock as this candidate holds it: its term, and the record at the revision it has now."""

    term: Term
    record: LeaderElectionRecord
    record_revision: Revision


def learned(view: LockView, snapshot: Snapshot, now: float) -> LockView:
    """Take in a newer snapshot; the time of a record counts from when it was first seen."""
    if view.snapshot is None or view.snapshot.record_revision != snapshot.record_revision:
        view = replace(view, observed_at=now, suspected=NO_REVISION)
    if snapshot.record is not None:
        most = max(view.transitions, snapshot.record.leader_transitions)
        view = replace(view, transitions=most)
    return replace(view, snapshot=snapshot)


def learned_own_write(view: LockView, event: Written, term: Term, now: float) -> LockView:
    """Take in a write of this candidate, unless something later has been seen already."""
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
    """Return the lock as this candidate holds it in this term; None if it does not."""
    snapshot = view.snapshot
    if snapshot is None or snapshot.record is None:
        return None
    if (snapshot.holder, snapshot.term) != (view.identity, term):
        return None
    return Tenure(term, snapshot.record, snapshot.record_revision)
