"""What the election's step function is told (events), what it asks for (effects), what it knows.

Plain values. `step` has the rules, `elector` carries the effects out and reports the events.
Times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from podsched.config.leader_election import LeaderElectionSettings
from podsched.election.record import NO_REVISION, NO_TERM, LeaderElectionRecord, Snapshot
from podsched.lib.ids import Revision, Term


class Phase(Enum):
    """Where a candidate is; the transitions are drawn in `podsched.election.step`."""

    STANDBY = "standby"
    ACQUIRING = "acquiring"
    LEADING = "leading"
    RELEASING = "releasing"
    STOPPED = "stopped"


class StopReason(Enum):
    """Why a holder stopped leading."""

    RELEASED = "released"
    """Its owner asked it to stop."""
    RENEW_DEADLINE = "renewDeadline exceeded"
    """No renewal sent within the last renewDeadline has succeeded."""
    DEPOSED = "deposed"
    """The record or the term belongs to somebody else."""
    ABANDONED = "abandoned"
    """The elector itself was cancelled or failed; the record was not released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What does not change while a candidate runs.

    address: "host:port" of its beacon, "" for none.
    liveness_ttl: seconds; 0 when it keeps no liveness key.
    race_jitter: seconds; standbys that see a holder vanish start within this of each other.
    """

    identity: str
    settings: LeaderElectionSettings
    address: str = ""
    liveness_ttl: int = 2
    race_jitter: float = 0.02


class WriteKind(Enum):
    """What the one write in flight does."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class InFlight:
    """A write sent at sent_at, on the strength of the snapshot of revision `seen`."""

    kind: WriteKind
    attempt: int
    sent_at: float
    seen: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that a candidate knows.

    snapshot: the newest one seen; observed_at: when its *record* was first seen here.
    suspected: record revision at whose holder a stream broke for good; a renewal clears it.
    claims_after: only snapshots newer than this may be claimed; a refused claim moves it.
    not_before: no claim, and no regular renewal, before then; moved by writes that failed.
    poll_at: when the record is read next, whatever the watch says.
    race_at: when a claim now justified is made; None if none is.
    announced: identity of the leader as last reported, "" while there is none.
    transitions: the most leaderTransitions ever seen, -1 for none.
    followed: (identity, term) whose stream is held, or None.
    attempt: number of the last write; answers to others are ignored.
    term, held: the term while holding, and the record as written by it at held_revision.
    renewed_at: when the last successful write of the record was *sent*.
    give_up_at: when a release that does not succeed is abandoned.
    """

    candidate: Candidate
    phase: Phase = Phase.STANDBY
    snapshot: Snapshot | None = None
    observed_at: float = 0.0
    suspected: Revision = NO_REVISION
    claims_after: Revision = NO_REVISION
    not_before: float = 0.0
    poll_at: float = 0.0
    race_at: float | None = None
    announced: str = ""
    transitions: int = -1
    followed: tuple[str, Term] | None = None
    attempt: int = 0
    in_flight: InFlight | None = None
    term: Term = NO_TERM
    held: LeaderElectionRecord | None = None
    held_revision: Revision = NO_REVISION
    renewed_at: float = 0.0
    give_up_at: float = 0.0

    @property
    def identity(self) -> str:
        """The candidate's own."""
        return self.candidate.identity

    @property
    def lease_over_at(self) -> float:
        """When this holder must have stopped leading: renewDeadline after the last renewal."""
        return self.renewed_at + self.candidate.settings.renew_deadline

    def leads(self, now: float) -> bool:
        """Whether it may act as leader at this moment, also between two steps."""
        return self.phase is Phase.LEADING and now < self.lease_over_at


# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The candidate enters the race."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The lock's keys were read."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Written:
    """The write succeeded: its record is stored at this revision."""

    attempt: int
    revision: Revision
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Refused:
    """A compare of the write failed: nothing was written."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The write failed or its answer was lost: it may have been applied, or be so later."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the last ScheduleTimer has come (an early one does no harm)."""


@dataclass(frozen=True, slots=True)
class StreamBroken:
    """The stream to this leader broke; confirmed: and nothing listens at its address any more."""

    identity: str
    term: Term
    confirmed: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The owner wants to leave the race."""


Event = (
    Started | Observed | Written | Refused | Unanswered | TimerFired | StreamBroken | StopRequested
)


# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the lock's keys; a failed read needs no event, the timer comes anyway."""


@dataclass(frozen=True, slots=True)
class TryAcquire:
    """Put record, term key and liveness key, if the record is still at expected_revision."""

    attempt: int
    expected_revision: Revision
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Renew:
    """Put record and liveness key, if record and term key are still at these revisions."""

    attempt: int
    expected_revision: Revision
    term: Term
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Release:
    """Put the emptied record, delete the other keys, if record and term key are unchanged."""

    attempt: int
    expected_revision: Revision
    term: Term
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class StartLeading:
    """Leadership is won; every write from now on carries this term."""

    term: Term


@dataclass(frozen=True, slots=True)
class StopLeading:
    """Leadership is over; comes before any other effect of the same step."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class NewLeader:
    """Somebody (maybe this candidate) is leader now."""

    identity: str


@dataclass(frozen=True, slots=True)
class ScheduleTimer:
    """Report TimerFired at this time; replaces the timer set before."""

    at: float


@dataclass(frozen=True, slots=True)
class ConnectToLeader:
    """Hold a stream to this leader and report when it breaks; replaces the stream held before."""

    identity: str
    address: str
    term: Term


@dataclass(frozen=True, slots=True)
class DisconnectFromLeader:
    """Let go of the stream."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The candidate has left the race; no effect follows."""


Effect = (
    ReadRecord
    | TryAcquire
    | Renew
    | Release
    | StartLeading
    | StopLeading
    | NewLeader
    | ScheduleTimer
    | ConnectToLeader
    | DisconnectFromLeader
    | Halt
)
