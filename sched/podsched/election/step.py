"""Who leads: the pure step function `(state, event, now) -> (state, effects)`.

The rules are client-go's (leaderelection.go of v1.36), made stricter where a term and a watch
allow it; what differs is said below.

                       claim justified                 Written
        +---------+ --------------------> +-----------+ ----------> +---------+
 -----> | STANDBY |                       | ACQUIRING |             | LEADING |
Started +---------+ <-------------------- +-----------+             +---------+
          |     ^      Refused, Unanswered,     |                     |  |
          |     |      or answered too late     | StopRequested       |  | StopRequested
          |     |                               v                     |  |
          |     |                          +-----------+ <------------|--+
          |     |                          | RELEASING |              |
          |     |                          +-----------+              |
          |     |                               | released, lost,     |
          |     |                               v or gave up          |
          |     |                          +---------+                |
          +-----|------------------------> | STOPPED |                |
 StopRequested  |                          +---------+                |
                +-----------------------------------------------------+
                       deposed, or renewDeadline exceeded: StopLeading

| phase     | event          | condition                        | next, effects                  |
| --------- | -------------- | -------------------------------- | ------------------------------ |
| STANDBY   | any            | poll due                         | ReadRecord                     |
| STANDBY   | any            | claim justified                  | ACQUIRING: TryAcquire          |
| STANDBY   | StreamBroken   | confirmed, to the present holder | a claim is justified           |
| STANDBY   | StopRequested  |                                  | STOPPED: Halt                  |
| ACQUIRING | Written        | in time, nobody took over since  | LEADING: StartLeading          |
| ACQUIRING | Written        | otherwise                        | STANDBY                        |
| ACQUIRING | Refused        |                                  | STANDBY: ReadRecord            |
| ACQUIRING | Unanswered     | (or no answer by renewDeadline)  | STANDBY: ReadRecord, back off  |
| ACQUIRING | StopRequested  |                                  | RELEASING                      |
| LEADING   | any            | renewDeadline exceeded           | STANDBY: StopLeading           |
| LEADING   | Observed       | record or term is not ours       | STANDBY: StopLeading           |
| LEADING   | Observed       | liveness key gone, record moved  | Renew                          |
| LEADING   | any            | renewal due                      | Renew                          |
| LEADING   | Refused        |                                  | ReadRecord                     |
| LEADING   | Unanswered     |                                  | ReadRecord, back off           |
| LEADING   | StopRequested  | releaseOnCancel                  | RELEASING: StopLeading, Release|
| LEADING   | StopRequested  | otherwise                        | STOPPED: StopLeading, Halt     |
| RELEASING | Written        | of an earlier write              | Release                        |
| RELEASING | Written        | of the release                   | STOPPED: Halt                  |
| RELEASING | Refused        |                                  | ReadRecord                     |
| RELEASING | Observed       | still ours, nothing in flight    | Release                        |
| RELEASING | Observed       | not ours any more                | STOPPED: Halt                  |
| RELEASING | Unanswered     | of a renewal                     | ReadRecord                     |
| RELEASING | Unanswered     | of anything else                 | STOPPED: Halt                  |
| RELEASING | any            | retryPeriod has passed           | STOPPED: Halt                  |
| STOPPED   | any            |                                  | nothing                        |

A claim is justified when the record is absent, empty or (left by a lost answer or an earlier life)
already ours; when leaseDuration has passed *here* since the record last changed; when the holder
promised a liveness key and the key is gone; or when the stream to the holder broke and nothing
listens there any more. The last two may be wrong about a living holder. That is safe because every
write of a leader carries its term, and an acquisition makes an earlier term worthless.

Invariants (checked by tests/election on every reachable state of a model):
 1. A term has one holder: StartLeading(term) comes from the one write that created the term.
 2. Terms grow: an acquisition's revision is larger than that of all before it.
 3. No write of an earlier term is accepted once a later term exists.
 4. leaderTransitions never shrinks.
 5. A candidate leads only while `now < sent_at(last successful write) + renewDeadline`. So while
    clocks run at about the same speed, and nobody is wrongly suspected, two never lead at once.
 6. StartLeading and StopLeading alternate; STOPPED is reached only after StopLeading.
 7. Every step that does not end in STOPPED sets a timer: no lost event leaves a candidate stuck.
 8. Left in peace, somebody leads.

Stricter than client-go: renewDeadline counts from when the last successful renewal was sent, where
client-go counts from a retryPeriod after its answer. Different: a deposed holder goes back to
racing; whether the process exits instead ("Leaderelection lost") is its owner's choice.

No clock, no chance, no I/O: `now` is monotonic seconds, `chance` a number in [0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podsched.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    Event,
    Halt,
    InFlight,
    NewLeader,
    Observed,
    Phase,
    ReadRecord,
    Refused,
    Release,
    Renew,
    ScheduleTimer,
    StartLeading,
    State,
    StopLeading,
    StopReason,
    StopRequested,
    StreamBroken,
    TimerFired,
    TryAcquire,
    Unanswered,
    WriteKind,
    Written,
)
from podsched.election.record import (
    NO_REVISION,
    NO_TERM,
    LeaderElectionRecord,
    Snapshot,
    whole_seconds,
)
from podsched.lib.ids import Revision, Term

#: A claim that may be made at any time.
_AT_ONCE = float("-inf")


@dataclass(slots=True)
class _Turn:
    """One call of `step`: when, how lucky, and the effects so far."""

    now: float
    chance: float
    effects: list[Effect] = field(default_factory=list)

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)


def step(
    state: State, event: Event, now: float, *, chance: float = 0.0
) -> tuple[State, tuple[Effect, ...]]:
    """Return the next state, and what to do, in this order.

    chance: in [0, 1); spreads polls over client-go's jitter and races over race_jitter.
    """
    turn = _Turn(now, chance)
    if state.phase is Phase.STOPPED:
        return state, ()
    if _is_outdated(state, event):
        if state.phase is not Phase.LEADING or state.leads(now):
            return state, ()
        event = TimerFired()  # no news, except that it is too late to go on leading
    if isinstance(event, Observed):
        state = _learn(state, event.snapshot, turn)
    state = _HANDLERS[state.phase](state, event, turn)
    if state.phase is Phase.STANDBY:
        state = _stand_by(state, turn)
    if state.phase is Phase.LEADING:
        state = _hold(state, turn)
    if state.phase is not Phase.STOPPED:
        turn.do(ScheduleTimer(next_timer(state)))
    return state, tuple(turn.effects)


def next_timer(state: State) -> float:
    """When a candidate that hears nothing must look again; never in STOPPED."""
    if state.phase is Phase.LEADING:
        return (
            state.lease_over_at if state.in_flight else min(_renew_at(state), state.lease_over_at)
        )
    if state.phase is Phase.RELEASING:
        return state.give_up_at
    if state.phase is Phase.ACQUIRING:
        return _answer_due(state)
    claim = state.race_at if state.race_at is not None else claimable_from(state)
    return state.poll_at if claim is None else min(state.poll_at, claim)


def claimable_from(state: State) -> float | None:
    """From when on the lock may be claimed as it was last seen; None: not as it was last seen."""
    snapshot = state.snapshot
    if snapshot is None or snapshot.revision <= state.claims_after:
        return None
    if snapshot.record is None or snapshot.holder in ("", state.identity):
        return _AT_ONCE
    if snapshot.holder_vanished or _is_suspected(state):
        return _AT_ONCE
    return state.observed_at + snapshot.record.lease_duration_seconds


def _is_suspected(state: State) -> bool:
    return state.suspected != NO_REVISION and state.suspected == _record_revision(state)


# -- what every phase does -------------------------------------------------------------------


def _is_outdated(state: State, event: Event) -> bool:
    """Answers to an abandoned write, and snapshots older than what is known."""
    if isinstance(event, Written | Refused | Unanswered):
        return state.in_flight is None or state.in_flight.attempt != event.attempt
    if isinstance(event, Observed) and state.snapshot is not None:
        return event.snapshot.revision < state.snapshot.revision
    return False


def _learn(state: State, snapshot: Snapshot, turn: _Turn) -> State:
    """Take in a newer snapshot; the time of a record counts from when it was first seen."""
    if state.snapshot is None or state.snapshot.record_revision != snapshot.record_revision:
        state = replace(state, observed_at=turn.now, suspected=NO_REVISION)
    if snapshot.record is not None:
        seen = max(state.transitions, snapshot.record.leader_transitions)
        state = replace(state, transitions=seen)
    return replace(state, snapshot=snapshot)


def _announce(state: State, turn: _Turn) -> State:
    """Report who leads, and hold the stream to another replica that does."""
    snapshot, leading = state.snapshot, state.phase is Phase.LEADING
    if snapshot is None:
        return state
    # A record that names this candidate while it does not lead is left over from a lost answer.
    holder = snapshot.holder if leading or snapshot.holder != state.identity else ""
    if holder and holder != state.announced:
        turn.do(NewLeader(holder))
    followed = None
    if holder and not leading and snapshot.record and snapshot.record.address:
        followed = (holder, snapshot.term)
        if followed != state.followed:
            turn.do(ConnectToLeader(holder, snapshot.record.address, snapshot.term))
    if followed is None and state.followed is not None:
        turn.do(DisconnectFromLeader())
    return replace(state, announced=holder, followed=followed)


def _send(state: State, kind: WriteKind, turn: _Turn) -> State:
    """Return the number the next write; its time counts from now, which is not after it is really sent."""
    assert state.snapshot is not None
    attempt = state.attempt + 1
    in_flight = InFlight(kind, attempt, turn.now, state.snapshot.revision)
    return replace(state, attempt=attempt, in_flight=in_flight)


def _stored(state: State, event: Written, term: Term, turn: _Turn) -> State:
    """Our write is the newest that is known of the lock, unless a later one was seen already."""
    assert state.in_flight is not None
    state = replace(state, term=term, renewed_at=state.in_flight.sent_at, in_flight=None)
    if state.snapshot is not None and state.snapshot.revision > event.revision:
        return replace(state, held=state.snapshot.record, held_revision=_record_revision(state))
    snapshot = Snapshot(
        revision=event.revision,
        record=event.record,
        record_revision=event.revision,
        term=term,
        live_holder=event.record.holder_identity if event.record.liveness_ttl else "",
    )
    state = _learn(state, snapshot, turn)
    return replace(state, held=event.record, held_revision=event.revision)


def _is_ours(state: State, snapshot: Snapshot) -> bool:
    return snapshot.holder == state.identity and snapshot.term == state.term


# -- STANDBY ---------------------------------------------------------------------------------


def _on_standby(state: State, event: Event, turn: _Turn) -> State:
    if isinstance(event, StopRequested):
        return _halt(state, turn)
    if isinstance(event, StreamBroken) and event.confirmed and state.snapshot is not None:
        snapshot = state.snapshot
        if (event.identity, event.term) == (snapshot.holder, snapshot.term):
            return replace(state, suspected=snapshot.record_revision)
    return state


def _stand_by(state: State, turn: _Turn) -> State:
    """Follow the leader, poll, and claim the lock when that is justified."""
    state = _announce(state, turn)
    if turn.now >= state.poll_at:
        state = _poll(state, turn)
    start = claimable_from(state)
    if start is None or start > turn.now:
        return replace(state, race_at=None)
    if state.race_at is None:
        state = replace(state, race_at=_race_start(state, turn))
    assert state.race_at is not None
    return _acquire(state, turn) if turn.now >= state.race_at else state


def _poll(state: State, turn: _Turn) -> State:
    turn.do(ReadRecord())
    return replace(state, poll_at=turn.now + _retry_wait(state, turn))


def _retry_wait(state: State, turn: _Turn) -> float:
    """client-go's JitterUntil(retryPeriod, JitterFactor)."""
    settings = state.candidate.settings
    return settings.retry_period * (1 + settings.jitter_factor * turn.chance)


def _race_start(state: State, turn: _Turn) -> float:
    """Return a broken stream is challenged without delay; it is what makes a failover unnoticeable."""
    jitter = 0.0 if _is_suspected(state) else state.candidate.race_jitter * turn.chance
    return max(turn.now + jitter, state.not_before)


def _acquire(state: State, turn: _Turn) -> State:
    assert state.snapshot is not None
    state = replace(_send(state, WriteKind.ACQUIRE, turn), phase=Phase.ACQUIRING, race_at=None)
    turn.do(TryAcquire(state.attempt, _record_revision(state), _claim(state)))
    return state


def _record_revision(state: State) -> Revision:
    return state.snapshot.record_revision if state.snapshot else NO_REVISION


def _claim(state: State) -> LeaderElectionRecord:
    """Return the record that makes this candidate the holder."""
    old = (state.snapshot and state.snapshot.record) or LeaderElectionRecord()
    candidate = state.candidate
    renamed = old.holder_identity != state.identity
    return LeaderElectionRecord(
        holder_identity=state.identity,
        lease_duration_seconds=whole_seconds(candidate.settings.lease_duration),
        leader_transitions=state.transitions + 1 if renamed else state.transitions,
        strategy=old.strategy,
        preferred_holder=old.preferred_holder,
        address=candidate.address,
        liveness_ttl=candidate.liveness_ttl,
    )


# -- ACQUIRING -------------------------------------------------------------------------------


def _on_acquiring(state: State, event: Event, turn: _Turn) -> State:
    assert state.in_flight is not None
    if isinstance(event, Written):
        return _on_acquired(state, event, turn)
    if isinstance(event, Refused):
        turn.do(ReadRecord())
        # Whoever wrote first wrote after this snapshot; it must not be claimed again.
        return _back_to_standby(state, claims_after=state.in_flight.seen)
    if isinstance(event, Unanswered) or turn.now >= _answer_due(state):
        turn.do(ReadRecord())
        return _back_to_standby(state, not_before=turn.now + _retry_wait(state, turn))
    if isinstance(event, StopRequested):
        return _releasing(state, turn)
    return state


def _answer_due(state: State) -> float:
    """Return an acquisition answered later than this is worth nothing: its lease is over."""
    assert state.in_flight is not None
    return state.in_flight.sent_at + state.candidate.settings.renew_deadline


def _on_acquired(state: State, event: Written, turn: _Turn) -> State:
    in_time = turn.now < _answer_due(state)
    state = _stored(state, event, Term(event.revision), turn)
    assert state.snapshot is not None
    if not in_time or not _is_ours(state, state.snapshot):
        return _back_to_standby(state)
    state = replace(state, phase=Phase.LEADING, not_before=turn.now)
    turn.do(StartLeading(state.term))
    return _announce(state, turn)


def _back_to_standby(
    state: State, *, claims_after: Revision | None = None, not_before: float | None = None
) -> State:
    return replace(
        state,
        phase=Phase.STANDBY,
        in_flight=None,
        race_at=None,
        claims_after=state.claims_after if claims_after is None else claims_after,
        not_before=state.not_before if not_before is None else not_before,
        term=NO_TERM,
        held=None,
    )


# -- LEADING ---------------------------------------------------------------------------------


def _on_leading(state: State, event: Event, turn: _Turn) -> State:
    if isinstance(event, Written):
        return _stored(state, event, state.term, turn)
    if isinstance(event, Refused | Unanswered):
        # Ours may be the write that the compare met, its answer lost: the record will tell.
        turn.do(ReadRecord())
        retry = turn.now + state.candidate.settings.retry_period
        return replace(state, in_flight=None, not_before=retry)
    if isinstance(event, Observed):
        return _on_observed_leading(state, event.snapshot, turn)
    if isinstance(event, StopRequested) and turn.now < state.lease_over_at:
        turn.do(StopLeading(StopReason.RELEASED))
        if state.candidate.settings.release_on_cancel:
            return _releasing(state, turn)
        return _halt(state, turn)
    if isinstance(event, StopRequested):
        turn.do(StopLeading(StopReason.RENEW_DEADLINE))
        return _halt(state, turn)
    return state


def _on_observed_leading(state: State, snapshot: Snapshot, turn: _Turn) -> State:
    if not _is_ours(state, snapshot):
        return _stop_leading(state, StopReason.DEPOSED, turn)
    moved = snapshot.record_revision != state.held_revision
    # Standbys race as soon as the liveness key is gone, and lose to a renewal that is faster.
    died_down = snapshot.holder_vanished and turn.now >= state.not_before
    state = replace(state, held=snapshot.record, held_revision=snapshot.record_revision)
    overdue = turn.now >= state.renewed_at + state.candidate.settings.retry_period
    if state.in_flight is None and ((moved and overdue) or died_down):
        return _renew(state, turn)
    return state


def _hold(state: State, turn: _Turn) -> State:
    """Return the last act of every step while leading: is the lease over, is a renewal due?"""
    if turn.now >= state.lease_over_at:
        return _stand_by(_stop_leading(state, StopReason.RENEW_DEADLINE, turn), turn)
    if state.in_flight is None and turn.now >= _renew_at(state):
        return _renew(state, turn)
    return state


def _renew_at(state: State) -> float:
    return max(state.renewed_at + state.candidate.settings.retry_period, state.not_before)


def _renew(state: State, turn: _Turn) -> State:
    """client-go's fast path: from the record as this holder wrote it, without reading first."""
    candidate, held = state.candidate, state.held
    assert held is not None
    if turn.now >= state.lease_over_at:
        return state
    state = _send(state, WriteKind.RENEW, turn)
    record = replace(
        held,
        lease_duration_seconds=whole_seconds(candidate.settings.lease_duration),
        address=candidate.address,
        liveness_ttl=candidate.liveness_ttl,
    )
    turn.do(Renew(state.attempt, state.held_revision, state.term, record))
    return state


def _stop_leading(state: State, reason: StopReason, turn: _Turn) -> State:
    """Back to racing; StopLeading goes first, before anything that takes time."""
    turn.effects.insert(0, StopLeading(reason))
    return replace(_back_to_standby(state), poll_at=turn.now)


# -- RELEASING, STOPPED ----------------------------------------------------------------------


def _releasing(state: State, turn: _Turn) -> State:
    """Give the lock back, after the answer to the write in flight if there is one."""
    give_up_at = turn.now + state.candidate.settings.retry_period
    state = replace(state, phase=Phase.RELEASING, give_up_at=give_up_at)
    return state if state.in_flight else _release(state, turn)


def _release(state: State, turn: _Turn) -> State:
    """client-go's release: nobody holds the lock, for one second, and the count goes on."""
    state = _send(state, WriteKind.RELEASE, turn)
    record = replace(
        state.held or LeaderElectionRecord(leader_transitions=state.transitions),
        holder_identity="",
        lease_duration_seconds=1,
        address="",
        liveness_ttl=0,
    )
    turn.do(Release(state.attempt, state.held_revision, state.term, record))
    return state


def _on_releasing(state: State, event: Event, turn: _Turn) -> State:
    if turn.now >= state.give_up_at:
        return _halt(state, turn)
    kind = state.in_flight.kind if state.in_flight else None
    if isinstance(event, Written):
        if kind is WriteKind.RELEASE:
            return _halt(state, turn)
        term = state.term if kind is WriteKind.RENEW else Term(event.revision)
        return _release(_stored(state, event, term, turn), turn)
    if isinstance(event, Refused) or (isinstance(event, Unanswered) and kind is WriteKind.RENEW):
        if kind is WriteKind.ACQUIRE:
            return _halt(state, turn)
        turn.do(ReadRecord())
        return replace(state, in_flight=None)
    if isinstance(event, Unanswered):
        # Applied or not, the liveness key goes with the process, and standbys see that.
        return _halt(state, turn)
    if isinstance(event, Observed) and kind is not WriteKind.ACQUIRE:
        return _on_observed_releasing(state, event.snapshot, turn)
    return state


def _on_observed_releasing(state: State, snapshot: Snapshot, turn: _Turn) -> State:
    if not _is_ours(state, snapshot):
        return _halt(state, turn)
    if state.in_flight is not None:
        return state
    held = replace(state, held=snapshot.record, held_revision=snapshot.record_revision)
    return _release(held, turn)


def _halt(state: State, turn: _Turn) -> State:
    if state.followed is not None:
        turn.do(DisconnectFromLeader())
    turn.do(Halt())
    return replace(state, phase=Phase.STOPPED, in_flight=None, followed=None, term=NO_TERM)


def _on_stopped(state: State, event: Event, turn: _Turn) -> State:
    return state


_HANDLERS = {
    Phase.STANDBY: _on_standby,
    Phase.ACQUIRING: _on_acquiring,
    Phase.LEADING: _on_leading,
    Phase.RELEASING: _on_releasing,
    Phase.STOPPED: _on_stopped,
}
