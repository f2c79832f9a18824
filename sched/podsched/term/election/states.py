"""The states of a candidate, one class per phase, and the context of a step between them.

Each phase has only the fields that it needs; all share the ``LockView``. The transitions are drawn
in ``podsched.term.election.step``. Times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podsched.lib.ids import Revision, Term
from podsched.term.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    NewLeader,
    Write,
)
from podsched.term.election.lock_view import LockView, Tenure
from podsched.term.election.record import NO_REVISION, NO_TERM


@dataclass(frozen=True, slots=True)
class InFlight:
    """The pending write, and when it was sent."""

    write: Write
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """Watches the lock, ready to claim it.

    poll_at: when the record is read next, even without a watch event.
    race_at: when a justified claim is made; None if no claim is justified.
    claims_after: only newer snapshots may be claimed; set by a refused claim.
    not_before: no claim before this time; set by a failed write.
    probed_at: when a read was sent whose answer shows whether a silent holder lives, or None.
    late_at: when this candidate or the store was last found slow (``silence``).
    doubted: the term of the holder from which it wanted to take over early, when that was refused.
    """

    view: LockView
    poll_at: float = 0.0
    race_at: float | None = None
    claims_after: Revision = NO_REVISION
    not_before: float = 0.0
    probed_at: float | None = None
    late_at: float = 0.0
    doubted: Term = NO_TERM


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquiring:
    """Waits for the answer to its claim, which is based on the snapshot of revision ``seen``.

    poll_at: kept from ``Standby``, for the way back.
    """

    view: LockView
    in_flight: InFlight
    seen: Revision
    poll_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """Holds the lock, and renews it.

    renewed_at: when the last successful write of the record was *sent*.
    not_before: no regular renewal before this time; set by a failed renewal.
    """

    view: LockView
    tenure: Tenure
    renewed_at: float
    not_before: float
    in_flight: InFlight | None = None

    @property
    def lease_over_at(self) -> float:
        """The time by which this holder must stop leading: renewDeadline after the last renewal."""
        return self.renewed_at + self.view.settings.renew_deadline

    @property
    def renewal_due_at(self) -> float:
        """The time of the next regular renewal."""
        return max(self.renewed_at + self.view.candidate.heartbeat_interval, self.not_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawing:
    """Stops while its claim is pending; if the claim succeeds, the lock is given back.

    give_up_at: when it stops without an answer.
    """

    view: LockView
    in_flight: InFlight
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing:
    """Has stopped leading, and gives the lock back.

    in_flight: the pending renewal or release, if any.
    give_up_at: when an unsuccessful release is abandoned.
    successor: the candidate that may claim the lock first, "" for none.
    stays: whether it stands by afterwards instead of stopping.
    """

    view: LockView
    tenure: Tenure
    give_up_at: float
    successor: str = ""
    stays: bool = False
    in_flight: InFlight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Has stopped, and never races again."""

    view: LockView


#: kube-scheduler's leader election watchdog: seconds past the lease before /healthz fails.
HEALTH_TOLERANCE = 20.0

State = Standby | Acquiring | Leading | Withdrawing | Releasing | Stopped


def in_flight(state: State) -> InFlight | None:
    """Return the pending write, if there is one."""
    match state:
        case Standby() | Stopped():
            return None
        case _:
            return state.in_flight


def leads(state: State, now: float) -> bool:
    """Return whether the candidate may act as leader now, also between two steps."""
    return isinstance(state, Leading) and now < state.lease_over_at


def is_stuck(state: State, now: float) -> bool:
    """Return whether the state is still LEADING over 20 s after the lease ended: its loop hangs.

    LeaderHealthzAdaptor of client-go.
    """
    if not isinstance(state, Leading):
        return False
    lease_end = state.renewed_at + state.view.settings.lease_duration
    return now > lease_end + HEALTH_TOLERANCE


def has_released(state: State) -> bool:
    """Return whether the candidate has stopped and, as last seen, does not hold the lock."""
    view = state.view
    if not isinstance(state, Stopped) or view.snapshot is None:
        return False
    return view.snapshot.holder != view.identity


@dataclass(slots=True)
class Transition:
    """The context of one step: the time, a random number in [0, 1), and the effects so far."""

    now: float
    chance: float
    effects: list[Effect] = field(default_factory=list)

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def send(self, view: LockView, write: Write) -> tuple[LockView, InFlight]:
        """Send a write. Its time counts from now, which is not later than it is really sent."""
        self.emit(write)
        return replace(view, attempt=write.attempt), InFlight(write, self.now)

    def announce(self, view: LockView, *, leading: bool) -> LockView:
        """Report a new leader, and connect to it if it is another replica."""
        snapshot = view.snapshot
        if snapshot is None:
            return view
        # If the record names this candidate but it does not lead, the answer to a claim was lost.
        holder = snapshot.holder if leading or snapshot.holder != view.identity else ""
        if holder and holder != view.announced:
            self.emit(NewLeader(holder))
        followed = None
        if holder and not leading and snapshot.record and snapshot.record.address:
            followed = (holder, snapshot.term)
            if followed != view.followed:
                self.emit(ConnectToLeader(holder, snapshot.record.address, snapshot.term))
        if followed is None and view.followed is not None:
            self.emit(DisconnectFromLeader())
        return replace(view, announced=holder, followed=followed)

    def halt(self, view: LockView) -> Stopped:
        if view.followed is not None:
            self.emit(DisconnectFromLeader())
        return Stopped(view=replace(view, followed=None))
