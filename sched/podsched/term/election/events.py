"""Events that the election's step function takes, and the effects that it asks for.

Plain values. ``step`` has the rules, ``elector`` carries the effects out and reports the events.
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
    """Its owner asked it to stop."""
    RENEW_DEADLINE = "renewDeadline exceeded"
    """No renewal sent within the last renewDeadline has succeeded."""
    DEPOSED = "deposed"
    """The record or the term belongs to somebody else."""
    HANDED_OVER = "handed over"
    """Its owner asked it to leave the lock to another candidate."""
    ABANDONED = "abandoned"
    """The elector itself was cancelled or failed; the record was not released."""


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
class LeaderConnectionBroken:
    """The connection to this leader broke; confirmed: nothing listens at its address any more."""

    identity: str
    term: Term
    confirmed: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The owner wants to leave the race. successor: who is to lead next, "" for anybody."""

    successor: str = ""


@dataclass(frozen=True, slots=True)
class HandOverRequested:
    """The owner wants this candidate, "" for any other, to lead next; a holder then stands by."""

    successor: str


@dataclass(frozen=True, slots=True)
class TermOver:
    """A write that carried this term was refused: the store has a later term, or none."""

    term: Term


@dataclass(frozen=True, slots=True)
class HistoryLost:
    """The store was restored from a backup: revisions and terms that were seen mean nothing."""


Event = (
    Started
    | Observed
    | Written
    | Refused
    | Unanswered
    | TimerFired
    | LeaderConnectionBroken
    | StopRequested
    | HandOverRequested
    | TermOver
    | HistoryLost
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
    """Hold a connection to this leader and report when it breaks; replaces the one held before."""

    identity: str
    address: str
    term: Term


@dataclass(frozen=True, slots=True)
class DisconnectFromLeader:
    """Close the connection to the leader."""


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
