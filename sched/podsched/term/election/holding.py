"""The rules of a candidate that holds the lock (``Leading``) or gives it back.

``Releasing`` gives the lock back; ``Withdrawing`` does so if its last claim succeeds.
"""

from __future__ import annotations

from dataclasses import replace

from podsched.lib.ids import Term
from podsched.term.election.events import (
    Event,
    HandOverRequested,
    Observed,
    ReadRecord,
    Refused,
    Release,
    Renew,
    StopLeading,
    StopReason,
    StopRequested,
    TermOver,
    Unanswered,
    Written,
)
from podsched.term.election.lock_view import learned_own_write, tenure_in
from podsched.term.election.racing import HAND_OVER_GRACE
from podsched.term.election.record import NO_REVISION, NO_TERM, whole_seconds
from podsched.term.election.silence import deposed, gave_up, must_give_back
from podsched.term.election.states import (
    Leading,
    Releasing,
    Standby,
    State,
    Stopped,
    Transition,
    Withdrawing,
)

# -- LEADING ---------------------------------------------------------------------------------


def on_leading(state: Leading, event: Event, transition: Transition) -> State:
    """Handle an event; ``hold`` then checks whether the lease is over or a renewal is due."""
    match event:
        case Written():
            return _on_renewed(state, event, transition)
        case Refused() | Unanswered():
            # The record may be from an own write whose answer was lost, so read it.
            transition.emit(ReadRecord())
            retry_at = transition.now + state.view.candidate.heartbeat_interval
            return replace(state, in_flight=None, not_before=retry_at)
        case Observed():
            return _on_observed(state, transition)
        case StopRequested():
            return _on_stop_requested(state, event, transition)
        case HandOverRequested():
            return _on_hand_over_requested(state, event, transition)
        case TermOver(term) if term == state.tenure.term:
            return _stop_leading(state, StopReason.DEPOSED, transition)
    return state


def hold(state: Leading, transition: Transition) -> Leading | Standby | Releasing:
    """End a step in LEADING: stop if the lease or the term is over, renew if that is due.

    Give the lock back if another holder is preferred, or if no API server can be reached.
    """
    if transition.now >= state.lease_over_at:
        return _stop_leading(state, StopReason.RENEW_DEADLINE, transition)
    if state.view.end_of_term:
        transition.emit(StopLeading(StopReason.HANDED_OVER))
        return _give_back(state, "", transition, stays=True)
    if must_give_back(state, transition.now):
        transition.emit(StopLeading(StopReason.CUT_OFF))
        return _give_back(gave_up(state, transition.now), "", transition, stays=True)
    if state.in_flight is None and transition.now >= state.renewal_due_at:
        return _renew(state, transition)
    return state


def _on_renewed(state: Leading, event: Written, transition: Transition) -> Leading | Standby:
    assert state.in_flight is not None  # otherwise the answer would be outdated
    # Not the time of the answer: the lease may have been stored any time since it was sent.
    renewed_at = state.in_flight.sent_at
    view = learned_own_write(state.view, event, state.tenure.term, transition.now)
    state = replace(state, view=view, renewed_at=renewed_at, in_flight=None)
    tenure = tenure_in(view, state.tenure.term)
    if tenure is None:
        return _stop_leading(state, StopReason.DEPOSED, transition)
    return replace(state, tenure=tenure)


def _on_observed(state: Leading, transition: Transition) -> Leading | Standby:
    tenure = tenure_in(state.view, state.tenure.term)
    if tenure is None:
        return _stop_leading(state, StopReason.DEPOSED, transition)
    snapshot, now = state.view.snapshot, transition.now
    moved = tenure.record_revision != state.tenure.record_revision
    overdue = now >= state.renewed_at + state.view.candidate.heartbeat_interval
    # Standbys race as soon as the liveness key is gone; a faster renewal makes their claims fail.
    vanished = snapshot is not None and snapshot.holder_vanished and now >= state.not_before
    state = replace(state, tenure=tenure)
    if state.in_flight is None and ((moved and overdue) or vanished):
        return _renew(state, transition)
    return state


def _on_stop_requested(
    state: Leading, event: StopRequested, transition: Transition
) -> Releasing | Stopped:
    if transition.now >= state.lease_over_at:
        transition.emit(StopLeading(StopReason.RENEW_DEADLINE))
        return transition.halt(state.view)
    transition.emit(StopLeading(StopReason.RELEASED))
    if not state.view.settings.release_on_cancel:
        return transition.halt(state.view)
    return _give_back(state, event.successor, transition, stays=False)


def _on_hand_over_requested(
    state: Leading, event: HandOverRequested, transition: Transition
) -> Leading | Releasing:
    if event.successor == state.view.identity or transition.now >= state.lease_over_at:
        return state
    transition.emit(StopLeading(StopReason.HANDED_OVER))
    return _give_back(state, event.successor, transition, stays=True)


def _give_back(state: Leading, successor: str, transition: Transition, *, stays: bool) -> Releasing:
    """Release now, or once the pending renewal has been answered."""
    # A pending renewal may still be stored; then the release would expect an outdated revision.
    releasing = Releasing(
        view=state.view,
        tenure=state.tenure,
        give_up_at=transition.now + state.view.settings.retry_period,
        successor=successor,
        stays=stays,
        in_flight=state.in_flight,
    )
    return releasing if state.in_flight is not None else _release(releasing, transition)


def _renew(state: Leading, transition: Transition) -> Leading:
    """Renew the last written record without reading it first (client-go's fast path)."""
    view, tenure = state.view, state.tenure
    if transition.now >= state.lease_over_at:
        return state
    record = replace(
        tenure.record,
        lease_duration_seconds=whole_seconds(view.settings.lease_duration),
        address=view.candidate.address,
        liveness_ttl=view.candidate.liveness_ttl,
        election_timeout=view.candidate.election_timeout,
    )
    write = Renew(view.attempt + 1, tenure.record_revision, tenure.term, record)
    view, in_flight = transition.send(view, write)
    return replace(state, view=view, in_flight=in_flight)


def _stop_leading(state: Leading, reason: StopReason, transition: Transition) -> Standby:
    """Go back to racing; StopLeading is the first effect, before any that takes time."""
    transition.effects.insert(0, StopLeading(reason))
    view = deposed(state, transition.now) if reason is StopReason.DEPOSED else state.view
    return Standby(view=view, poll_at=transition.now, not_before=state.not_before)


def begin_anew(state: State, transition: Transition) -> Standby | Stopped:
    """Forget the seen lock, and race again after a retryPeriod, or stop if that was requested."""
    # Of a restored etcd the Raft terms are lower, too.
    view = replace(state.view, snapshot=None, suspected=NO_REVISION, raft_term=0)
    if isinstance(state, Withdrawing | Stopped) or (
        isinstance(state, Releasing) and not state.stays
    ):
        return transition.halt(view)
    if isinstance(state, Leading):
        transition.emit(StopLeading(StopReason.DEPOSED))
    not_before = transition.now + view.settings.retry_period
    return Standby(view=view, poll_at=transition.now, not_before=not_before)


# -- WITHDRAWING, RELEASING ------------------------------------------------------------------


def on_withdrawing(state: Withdrawing, event: Event, transition: Transition) -> State:
    """Wait for the answer to the last claim, and give the lock back if the claim succeeded."""
    if transition.now >= state.give_up_at or isinstance(event, Refused | Unanswered):
        # The claim may have been applied. Then the liveness key expires, which standbys notice.
        return transition.halt(state.view)
    if isinstance(event, Written):
        term = Term(event.revision)
        view = learned_own_write(state.view, event, term, transition.now)
        tenure = tenure_in(view, term)
        if tenure is None:
            return transition.halt(view)
        won = Releasing(view=view, tenure=tenure, give_up_at=state.give_up_at)
        return _release(won, transition)
    return state


def on_releasing(state: Releasing, event: Event, transition: Transition) -> State:
    """Release the lock once its record and revision are known, or give up."""
    # During a handover the process may be asked to stop; then it must not stand by.
    if isinstance(event, StopRequested):
        state = replace(state, stays=False)
    if transition.now >= state.give_up_at:
        return _leave(state, transition)
    releases = state.in_flight is not None and isinstance(state.in_flight.write, Release)
    match event:
        case Written() if not releases:
            view = learned_own_write(state.view, event, state.tenure.term, transition.now)
            return _release_again(replace(state, view=view, in_flight=None), transition)
        case Observed():
            return _release_again(state, transition)
        case Written() if releases:
            view = learned_own_write(state.view, event, NO_TERM, transition.now)
            return _leave(replace(state, view=view), transition)
        case Unanswered() if releases:
            return _leave(state, transition)
        case Refused() | Unanswered():
            transition.emit(ReadRecord())
            return replace(state, in_flight=None)
    return state


def _release_again(state: Releasing, transition: Transition) -> Releasing | Standby | Stopped:
    """Release the lock if this candidate holds it, unless a write is pending."""
    tenure = tenure_in(state.view, state.tenure.term)
    if tenure is None:
        return _leave(state, transition)
    if state.in_flight is not None:
        return state
    return _release(replace(state, tenure=tenure), transition)


def _release(state: Releasing, transition: Transition) -> Releasing:
    """Release as client-go does: no holder, a lease of one second, the same leaderTransitions.

    spec.preferredHolder has the successor, as in Kubernetes' coordinated leader election.
    """
    tenure = state.tenure
    record = replace(
        tenure.record,
        holder_identity="",
        lease_duration_seconds=1,
        preferred_holder=state.successor,
        address="",
        liveness_ttl=0,
        election_timeout=0.0,
    )
    write = Release(state.view.attempt + 1, tenure.record_revision, tenure.term, record)
    view, in_flight = transition.send(state.view, write)
    return replace(state, view=view, in_flight=in_flight)


def _leave(state: Releasing, transition: Transition) -> Standby | Stopped:
    """End a release, successful or not: stop, or stand by and let the successor claim first."""
    if not state.stays:
        return transition.halt(state.view)
    not_before = transition.now + HAND_OVER_GRACE
    return Standby(view=state.view, poll_at=transition.now, not_before=not_before)
