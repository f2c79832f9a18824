"""The context of one call of the step function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podsched.term.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    NewLeader,
    Release,
    Renew,
    TryAcquire,
)
from podsched.term.election.lock_view import LockView
from podsched.term.election.states import InFlight, Stopped


@dataclass(slots=True)
class Transition:
    """The current time, a random number in [0, 1), and the effects so far."""

    now: float
    chance: float
    effects: list[Effect] = field(default_factory=list)

    def emit(self, effect: Effect) -> None:
        """Append an effect."""
        self.effects.append(effect)

    def send(
        self, view: LockView, write: TryAcquire | Renew | Release
    ) -> tuple[LockView, InFlight]:
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
        """Stop the candidate for good."""
        if view.followed is not None:
            self.emit(DisconnectFromLeader())
        return Stopped(view=replace(view, followed=None))
