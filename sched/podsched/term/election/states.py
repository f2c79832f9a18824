"""What a candidate knows, phase by phase: ``State`` is the union of the phases' states.

Each phase has exactly the fields that mean something in it; what all of them share is the
``LockView``. The transitions are drawn in ``podsched.term.election.step``. Times are seconds of one
monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsched.lib.ids import Revision
from podsched.term.election.events import Release, Renew, TryAcquire
from podsched.term.election.lock_view import LockView, Tenure
from podsched.term.election.record import NO_REVISION


@dataclass(frozen=True, slots=True)
class InFlight:
    """The one write on its way, and when it was sent."""

    write: TryAcquire | Renew | Release
    sent_at: float

    @property
    def attempt(self) -> int:
        """The number by which its answer is recognised."""
        return self.write.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """Watches the lock, ready to claim it.

    poll_at: when the record is read next, whatever the watch says.
    race_at: when a claim that is justified now is made; None if none is.
    claims_after: only snapshots newer than this may be claimed; a refused claim sets it.
    not_before: no claim before then; a write that failed sets it.
    """

    view: LockView
    poll_at: float = 0.0
    race_at: float | None = None
    claims_after: Revision = NO_REVISION
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquiring:
    """Awaits the answer to its claim, made on the snapshot of revision ``seen``.

    poll_at: as it was in ``Standby``, for the way back.
    """

    view: LockView
    in_flight: InFlight
    seen: Revision
    poll_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """Holds the lock, and renews it.

    renewed_at: when the last successful write of the record was *sent*.
    not_before: no regular renewal before then; a renewal that failed moves it.
    """

    view: LockView
    tenure: Tenure
    renewed_at: float
    not_before: float
    in_flight: InFlight | None = None

    @property
    def lease_over_at(self) -> float:
        """When this holder must have stopped leading: renewDeadline after the last renewal."""
        return self.renewed_at + self.view.settings.renew_deadline

    @property
    def renewal_due_at(self) -> float:
        """When the next regular renewal is to be sent."""
        return max(self.renewed_at + self.view.settings.retry_period, self.not_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawing:
    """Was asked to stop while its claim is on the way: a lock won now is given back.

    give_up_at: when it stops without having had an answer.
    """

    view: LockView
    in_flight: InFlight
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing:
    """Leads no more, and gives the lock back.

    in_flight: the last renewal or the release; None until it is known what to release.
    give_up_at: when a release that does not succeed is abandoned.
    successor: identity for which the lock is kept free for a moment, "" for none.
    stays: whether it stands by afterwards, instead of leaving the race.
    """

    view: LockView
    tenure: Tenure
    give_up_at: float
    successor: str = ""
    stays: bool = False
    in_flight: InFlight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Has left the race; no state follows."""

    view: LockView


#: kube-scheduler's leader election watchdog: seconds past the lease before /healthz fails.
HEALTH_TOLERANCE = 20.0

State = Standby | Acquiring | Leading | Withdrawing | Releasing | Stopped


def in_flight(state: State) -> InFlight | None:
    """Return the write on its way, if there is one."""
    match state:
        case Standby() | Stopped():
            return None
        case _:
            return state.in_flight


def leads(state: State, now: float) -> bool:
    """Return whether it may act as leader at this moment, also between two steps."""
    return isinstance(state, Leading) and now < state.lease_over_at


def is_stuck(state: State, now: float) -> bool:
    """Return whether it believes to lead although its lease ended over 20 s ago: its loop hangs.

    LeaderHealthzAdaptor of client-go.
    """
    if not isinstance(state, Leading):
        return False
    lease_end = state.renewed_at + state.view.settings.lease_duration
    return now > lease_end + HEALTH_TOLERANCE
