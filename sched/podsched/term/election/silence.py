"""Take over from a leader that has been silent for an election timeout, before its lease ends.

The words are those of Raft: a leader renews its record with a *heartbeat interval*, and a standby
that has seen no renewal for an *election timeout* stands for election. The record has the holder's
election timeout, so only a holder that promised such renewals is suspected.

    renewals stop -- election timeout --> the standby reads the lock (a probe)
        the record is newer          the holder lives
        unchanged, answered at once  suspected: claim
        answered late, or never      etcd or this candidate is slow: count the silence anew
        etcd has elected a leader    it stored no renewals meanwhile: count the silence anew

If the suspicion is wrong, only the fence keeps the takeover safe. Two rules keep that rare:

* A candidate that notices its own delay (a timer or an answer that comes later than a heartbeat)
  counts the silence anew: the machine or the store is busy, so the holder may be as well.
* A candidate that learns of a wrong suspicion is *wary*: it suspects no holder for 5 s, and twice
  as long after each further one. There are two ways to learn of one: it was deposed as the holder
  although its last renewal is not older than two election timeouts; or its claim was refused
  because the holder had renewed the record. So the number of wrong takeovers is bounded: each one
  makes another candidate wary.

A candidate with an election timeout also considers whether it reaches an API server: as the holder
it gives the lock back if it reaches none, and as a standby it does not claim the lock. This may be
only a short disturbance, so the former holder becomes wary. A wary holder keeps the lock even if it
reaches no API server, so the lock does not move from one candidate to the next again and again.

Pure functions; times are seconds of one monotonic clock of this process.
"""

from __future__ import annotations

from dataclasses import replace

from podsched.term.election.events import Observed, ReadRecord
from podsched.term.election.lock_view import LockView
from podsched.term.election.record import NO_TERM
from podsched.term.election.states import Leading, Standby, Transition

#: Seconds for which a candidate is wary after its first wrong suspicion, and at most.
FIRST_WARY, LONGEST_WARY = 5.0, 80.0
#: Seconds after being wary without another wrong suspicion until the next counts as the first.
CALM = 60.0


def suspect_at(state: Standby) -> float | None:
    """Return when the holder is probed if it stays silent, None if it is never."""
    view, snapshot = state.view, state.view.snapshot
    if snapshot is None or snapshot.revision <= state.claims_after:
        return None
    if view.candidate.coordinated or view.cut_off:  # no suspicion would justify a claim
        return None
    timeout = snapshot.record.election_timeout if snapshot.record else 0.0
    if snapshot.holder in ("", view.identity) or not (timeout and view.candidate.election_timeout):
        return None
    silent_since = max(view.observed_at, view.elected_at, state.late_at)
    return max(silent_since + timeout, view.wary_until, state.not_before)


def next_look(state: Standby) -> float | None:
    """Return when ``look`` must be called next; None: not before another event."""
    if state.probed_at is not None:
        return state.probed_at + _tolerance(state)
    return suspect_at(state)


def look(state: Standby, transition: Transition) -> Standby:
    """End a step in STANDBY: send the probe when it is due, give up one that is not answered."""
    now, due = transition.now, suspect_at(state)
    if due is None:
        return replace(state, probed_at=None)
    if state.probed_at is not None:
        overdue = now >= state.probed_at + _tolerance(state)
        return replace(state, probed_at=None, late_at=now) if overdue else state
    if now < due or state.view.suspected == state.view.record_revision:
        return state
    transition.emit(ReadRecord())
    return replace(state, probed_at=now)


def note_delay(state: Standby, due: float, now: float) -> Standby:
    """Count the silence anew if this step, which was due at a time, comes late."""
    return replace(state, late_at=now) if now > due + _tolerance(state) else state


def answered(state: Standby, event: Observed, now: float) -> Standby:
    """Suspect the holder, or not, after a read; ``view`` has its snapshot already."""
    state = _judge_refusal(state, now)
    if state.probed_at is None:
        return state
    if max(state.view.observed_at, state.view.elected_at) > state.probed_at:
        return replace(state, probed_at=None)  # the record, or etcd's leader, is newer
    if event.asked_at < state.probed_at:
        return state  # the read began before the probe
    if now > event.asked_at + _tolerance(state):
        return replace(state, probed_at=None, late_at=now)
    view = replace(state.view, suspected=state.view.record_revision)
    return replace(state, probed_at=None, view=view)


def deposed(state: Leading, now: float) -> LockView:
    """Return the view of a holder that was deposed; wary if it had renewed the record in time."""
    timeout = state.view.candidate.election_timeout
    return _wary(state.view, now) if now <= state.renewed_at + 2 * timeout else state.view


def reach(view: LockView, *, api_servers: bool) -> LockView:
    """Note whether the candidate reaches API servers; ignored by the only candidate."""
    candidate = view.candidate
    races = candidate.election_timeout and candidate.settings.leader_elect
    return replace(view, cut_off=bool(races) and not api_servers)


def must_give_back(state: Leading, now: float) -> bool:
    """Return whether a holder must give the lock back, because it is cut off and not wary."""
    return state.view.cut_off and now >= state.view.wary_until


def gave_up(state: Leading, now: float) -> Leading:
    """Return a holder that gives the lock back because it is cut off."""
    return replace(state, view=_wary(state.view, now))


def _judge_refusal(state: Standby, now: float) -> Standby:
    snapshot = state.view.snapshot
    if state.doubted == NO_TERM or snapshot is None or snapshot.revision <= state.claims_after:
        return state
    view = _wary(state.view, now) if snapshot.term == state.doubted else state.view
    return replace(state, view=view, doubted=NO_TERM)


def _wary(view: LockView, now: float) -> LockView:
    again = view.wary_for > 0 and now <= view.wary_until + CALM
    wary_for = min(2 * view.wary_for, LONGEST_WARY) if again else FIRST_WARY
    return replace(view, wary_for=wary_for, wary_until=now + wary_for)


def _tolerance(state: Standby) -> float:
    """Return the seconds of delay above which this candidate or the store is slow."""
    return state.view.candidate.heartbeat_interval
