"""One call of the step function while it is under way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podsched.term.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    Halt,
    NewLeader,
    Release,
    Renew,
    TryAcquire,
)
from podsched.term.election.lock_view import LockView
from podsched.term.election.states import InFlight, Stopped


@dataclass(slots=True)
class Transition:
    """The time, a random number in [0, 1), and the effects so far."""

    now: float
    chance: float
    effects: list[Effect] = field(default_factory=list)

    def emit(self, effect: Effect) -> None:
        """Add an effect after those so far."""
        self.effects.append(effect)

    def send(
        self, view: LockView, write: TryAcquire | Renew | Release
    ) -> tuple[LockView, InFlight]:
        """Send a write; its time counts from now, which is not after it is really sent."""
        self.emit(write)
        return replace(view, attempt=write.attempt), InFlight(write, self.now)

    def announce(self, view: LockView, *, leading: bool) -> LockView:
        """Report who leads, and hold a connection to another replica that does."""
        snapshot = view.snapshot
        if snapshot is None:
            return view
        # A record that names this candidate while it does not lead is left over from a lost answer.
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
        """Leave the race."""
        if view.followed is not None:
            self.emit(DisconnectFromLeader())
        self.emit(Halt())
        return Stopped(view=replace(view, followed=None))
