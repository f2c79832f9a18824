"""The events and effects of leader election, as plain values.

``step`` takes events and returns effects; ``elector`` performs the effects and reports the events.
Times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from podsched.lib.ids import Revision, Term
from podsched.term.election.record import LeaderElectionRecord, Snapshot


class StopReason(Enum):
    """Why a holder stopped leading."""

    RELEASED = "released"
    """Its owner requested a stop."""
    RENEW_DEADLINE = "renewDeadline exceeded"
    """No renewal sent within the last renewDeadline succeeded."""
    DEPOSED = "deposed"
    """The record or the term belongs to another candidate."""
    HANDED_OVER = "handed over"
    """Its owner requested a handover to another candidate."""
    CUT_OFF = "no API server can be reached"
    """It could not do the leader's work, so it gave the lock back."""
    ABANDONED = "abandoned"
    """The elector was cancelled or failed; the record was not released."""


#: Before any time.
NEVER = float("-inf")

# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observed:
    """The lock was read.

    asked_at: when the read was sent; NEVER if a watch showed it.
    """

    snapshot: Snapshot
    asked_at: float = NEVER


@dataclass(frozen=True, slots=True)
class Written:
    """The write succeeded: the record is stored at this revision."""

    attempt: int
    revision: Revision
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Refused:
    """A comparison of the write failed: nothing was written."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The write failed or its answer was lost: it may have been applied, or may be later."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the last ScheduleTimer has come, or the candidate starts; early is harmless."""


@dataclass(frozen=True, slots=True)
class LeaderConnectionBroken:
    """The connection to this leader broke. confirmed: its address refuses connections now."""

    identity: str
    term: Term
    confirmed: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The owner stops the candidate. successor: the next leader, "" for any."""

    successor: str = ""


@dataclass(frozen=True, slots=True)
class HandOverRequested:
    """The owner hands the lock over to another candidate ("" for any) and stands by."""

    successor: str


@dataclass(frozen=True, slots=True)
class TermOver:
    """A write with this term was refused: the store has a later term, or none."""

    term: Term


@dataclass(frozen=True, slots=True)
class HistoryLost:
    """The store was restored from a backup, so revisions and terms seen before are invalid."""


@dataclass(frozen=True, slots=True)
class Reachability:
    """Whether this candidate reaches any API server; it does until the first of these events."""

    api_servers: bool


Event = (
    Observed
    | Written
    | Refused
    | Unanswered
    | TimerFired
    | LeaderConnectionBroken
    | StopRequested
    | HandOverRequested
    | TermOver
    | HistoryLost
    | Reachability
)


# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the lock. A failed read needs no event, because the timer fires anyway."""


@dataclass(frozen=True, slots=True)
class TryAcquire:
    """Put record, term key and liveness key, if the record has the expected revision."""

    attempt: int
    expected_revision: Revision
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Renew:
    """Put record and liveness key, if record and term key have these revisions."""

    attempt: int
    expected_revision: Revision
    term: Term
    record: LeaderElectionRecord


@dataclass(frozen=True, slots=True)
class Release:
    """Empty the record and delete the other keys, if record and term key have these revisions."""

    attempt: int
    expected_revision: Revision
    term: Term
    record: LeaderElectionRecord


Write = TryAcquire | Renew | Release


@dataclass(frozen=True, slots=True)
class StartLeading:
    """The candidate leads; every write from now on carries this term."""

    term: Term


@dataclass(frozen=True, slots=True)
class StopLeading:
    """The candidate stops leading; comes before any other effect of the same step."""

    reason: StopReason


@dataclass(frozen=True, slots=True)
class NewLeader:
    """The leader is now this candidate or another one."""

    identity: str


@dataclass(frozen=True, slots=True)
class ScheduleTimer:
    """Report TimerFired at this time; replaces the previous timer."""

    at: float


@dataclass(frozen=True, slots=True)
class ConnectToLeader:
    """Hold a connection to this leader, and report if it breaks; replaces the previous one."""

    identity: str
    address: str
    term: Term


@dataclass(frozen=True, slots=True)
class DisconnectFromLeader:
    """Close the connection to the leader."""


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
)
