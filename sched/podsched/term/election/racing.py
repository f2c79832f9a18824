"""The rules of a candidate that races for the lock: ``Standby`` and ``Acquiring``."""

from __future__ import annotations

from dataclasses import replace

from podsched.lib.ids import Term
from podsched.term.election.events import (
    Event,
    LeaderConnectionBroken,
    Observed,
    ReadRecord,
    Refused,
    StartLeading,
    StopRequested,
    TryAcquire,
    Unanswered,
    Written,
)
from podsched.term.election.lock_view import LockView, learned_own_write, tenure_in
from podsched.term.election.record import (
    MOST_TRANSITIONS,
    NO_REVISION,
    NO_TERM,
    LeaderElectionRecord,
    whole_seconds,
)
from podsched.term.election.silence import answered, look
from podsched.term.election.states import (
    Acquiring,
    Leading,
    Standby,
    State,
    Transition,
    Withdrawing,
)

#: Seconds for which only the successor may claim a lock that was handed over.
HAND_OVER_GRACE = 0.5
#: The lock may be claimed at once.
_AT_ONCE = float("-inf")


def claimable_from(state: Standby) -> float | None:
    """Return when the lock, as last seen, may be claimed; None: never, unless the lock changes."""
    view, snapshot = state.view, state.view.snapshot
    if snapshot is None or snapshot.revision <= state.claims_after or view.cut_off:
        return None
    if view.candidate.coordinated:
        appointed = snapshot.holder == view.identity and not view.end_of_term
        return _AT_ONCE if appointed else None
    if snapshot.record is None or snapshot.holder == view.identity:
        return _AT_ONCE
    if not snapshot.holder:
        # The lock was released; a successor that it names goes first.
        reserved = snapshot.record.preferred_holder not in ("", view.identity)
        return view.observed_at + HAND_OVER_GRACE if reserved else _AT_ONCE
    if snapshot.holder_vanished or _is_suspected(view) or _is_alone(view):
        return _AT_ONCE
    return view.observed_at + snapshot.record.lease_duration_seconds


def _is_suspected(view: LockView) -> bool:
    return view.suspected != NO_REVISION and view.suspected == view.record_revision


def _is_alone(view: LockView) -> bool:
    """Return whether it is the only candidate by configuration, and so claims a held lock.

    Only until it has led: if another candidate exists, the two would take the lock in turns.
    """
    return not view.settings.leader_elect and not view.has_led


# -- STANDBY ---------------------------------------------------------------------------------


def on_standby(state: Standby, event: Event, transition: Transition) -> State:
    """Handle an event; ``stand_by`` then decides whether to poll or to claim."""
    if isinstance(event, StopRequested):
        return transition.halt(state.view)
    if isinstance(event, Observed):
        return answered(state, event, transition.now)
    snapshot = state.view.snapshot
    if snapshot is None or not isinstance(event, LeaderConnectionBroken) or not event.confirmed:
        return state
    if (event.identity, event.term) != (snapshot.holder, snapshot.term):
        return state  # it is about an earlier leader
    return replace(state, view=replace(state.view, suspected=snapshot.record_revision))


def stand_by(state: Standby, transition: Transition) -> Standby | Acquiring:
    """End a step in STANDBY: follow the leader, poll, and claim the lock if that is justified."""
    now = transition.now
    state = replace(state, view=transition.announce(state.view, leading=False))
    if now >= state.poll_at:
        transition.emit(ReadRecord())
        state = replace(state, poll_at=now + _retry_wait(state.view, transition))
    state = look(state, transition)
    start = claimable_from(state)
    if start is None or start > now:
        return replace(state, race_at=None)
    race_at = _race_start(state, transition) if state.race_at is None else state.race_at
    if now < race_at:
        return replace(state, race_at=race_at)
    return _acquire(state, transition)


def _retry_wait(view: LockView, transition: Transition) -> float:
    """Return the seconds of client-go's JitterUntil(retryPeriod, JitterFactor)."""
    settings = view.settings
    return settings.retry_period * (1 + settings.jitter_factor * transition.chance)


def _race_start(state: Standby, transition: Transition) -> float:
    """Return when to claim: at once after a broken connection, to make the failover short."""
    view = state.view
    record = view.snapshot.record if view.snapshot else None
    named = record is not None and record.preferred_holder == view.identity
    hurried = named or _is_suspected(view) or _is_alone(view)
    jitter = 0.0 if hurried else view.candidate.race_jitter * transition.chance
    return max(transition.now + jitter, state.not_before)


def _acquire(state: Standby, transition: Transition) -> Acquiring:
    view = state.view
    assert view.snapshot is not None  # no claim is justified before the first snapshot
    write = TryAcquire(view.attempt + 1, view.record_revision, _claim(view))
    # If the claim is refused, only a newer snapshot may justify the next (``claims_after``).
    seen = view.snapshot.revision
    view, in_flight = transition.send(view, write)
    return Acquiring(view=view, in_flight=in_flight, seen=seen, poll_at=state.poll_at)


def _claim(view: LockView) -> LeaderElectionRecord:
    """Return the record that makes this candidate the holder."""
    old = (view.snapshot and view.snapshot.record) or LeaderElectionRecord()
    candidate = view.candidate
    renamed = old.holder_identity != view.identity
    transitions = view.transitions + 1 if renamed else view.transitions
    return LeaderElectionRecord(
        holder_identity=view.identity,
        lease_duration_seconds=whole_seconds(view.settings.lease_duration),
        leader_transitions=min(transitions, MOST_TRANSITIONS),
        strategy=old.strategy if candidate.coordinated else "",
        address=candidate.address,
        liveness_ttl=candidate.liveness_ttl,
        election_timeout=candidate.election_timeout,
    )


# -- ACQUIRING -------------------------------------------------------------------------------


def answer_due(state: Acquiring) -> float:
    """Return when an answer is too late, because the granted lease has ended."""
    return state.in_flight.sent_at + state.view.settings.renew_deadline


def on_acquiring(state: Acquiring, event: Event, transition: Transition) -> State:
    """Handle an event while the claim is pending."""
    now, view = transition.now, state.view
    if isinstance(event, Written):
        return _on_acquired(state, event, transition)
    if isinstance(event, StopRequested):
        give_up_at = now + view.settings.retry_period
        return Withdrawing(view=view, in_flight=state.in_flight, give_up_at=give_up_at)
    if isinstance(event, Refused):
        transition.emit(ReadRecord())
        # Another candidate wrote after this snapshot, so it must not be claimed again.
        doubted = view.snapshot.term if view.snapshot and _is_suspected(view) else NO_TERM
        return Standby(view=view, poll_at=state.poll_at, claims_after=state.seen, doubted=doubted)
    if isinstance(event, Unanswered) or now >= answer_due(state):
        transition.emit(ReadRecord())
        not_before = now + _retry_wait(view, transition)
        return Standby(view=view, poll_at=state.poll_at, not_before=not_before)
    return state


def _on_acquired(state: Acquiring, event: Written, transition: Transition) -> Standby | Leading:
    now, term = transition.now, Term(event.revision)
    view = learned_own_write(state.view, event, term, now)
    tenure = tenure_in(view, term)
    # Acquired, but another candidate has the lock by now, or the answer came after renewDeadline.
    if tenure is None or now >= answer_due(state):
        return Standby(view=view, poll_at=state.poll_at)
    transition.emit(StartLeading(term))
    view = replace(transition.announce(view, leading=True), has_led=True)
    return Leading(view=view, tenure=tenure, renewed_at=state.in_flight.sent_at, not_before=now)
