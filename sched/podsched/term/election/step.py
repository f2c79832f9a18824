"""Who leads: the pure step function ``(state, event, now) -> (state, effects)``.

The rules are client-go's (leaderelection.go of v1.36), made stricter where a term and a watch
allow it; what differs is said below. ``racing`` has those of STANDBY and ACQUIRING, ``holding`` the
others; ``states`` says what is known in each phase.

         +----- deposed, or renewDeadline exceeded: StopLeading ------+
         v                                                            |
    +---------+  claim justified   +-----------+     Written     +---------+
--> | STANDBY | -----------------> | ACQUIRING | --------------> | LEADING |
    +---------+ <----------------- +-----------+                 +---------+
         |      Refused, Unanswered,     |                            |
         |      or answered too late     | StopRequested              | StopRequested
         |                               v                            v
         |                        +-------------+    Written    +-----------+
         |                        | WITHDRAWING | ------------> | RELEASING |
         |                        +-------------+               +-----------+
         |                               | Refused,                   |
         |                               | Unanswered,                | released, lost,
         | StopRequested                 | or gave up                 | or gave up
         v                               v                            v
    +----------------------------------------------------------------------+
    |                                STOPPED                               |
    +----------------------------------------------------------------------+

| phase       | event        | condition                        | next, effects                   |
| ----------- | ------------ | -------------------------------- | ------------------------------- |
| STANDBY     | any          | poll due                         | ReadRecord                      |
| STANDBY     | any          | claim justified                  | ACQUIRING: TryAcquire           |
| STANDBY     | connection broken | confirmed, to present holder | a claim is justified           |
| STANDBY     | StopRequested |                                 | STOPPED: Halt                   |
| ACQUIRING   | Written      | in time, nobody took over since  | LEADING: StartLeading           |
| ACQUIRING   | Written      | otherwise                        | STANDBY                         |
| ACQUIRING   | Refused      |                                  | STANDBY: ReadRecord             |
| ACQUIRING   | Unanswered   | (or no answer by renewDeadline)  | STANDBY: ReadRecord, back off   |
| ACQUIRING   | StopRequested |                                 | WITHDRAWING                     |
| LEADING     | any          | renewDeadline exceeded           | STANDBY: StopLeading            |
| LEADING     | Observed     | record or term is not ours       | STANDBY: StopLeading            |
| LEADING     | TermOver     | of the present term              | STANDBY: StopLeading            |
| LEADING     | Observed     | liveness key gone, record moved  | Renew                           |
| LEADING     | any          | coordinated, another is preferred | STANDBY: StopLeading           |
| LEADING     | any          | renewal due                      | Renew                           |
| LEADING     | Refused      |                                  | ReadRecord, back off            |
| LEADING     | Unanswered   |                                  | ReadRecord, back off            |
| LEADING     | StopRequested | releaseOnCancel                 | RELEASING: StopLeading, Release |
| LEADING     | StopRequested | otherwise                       | STOPPED: StopLeading, Halt      |
| LEADING     | HandOverRequested | to another                  | RELEASING: StopLeading, Release |
| WITHDRAWING | Written      | nobody took over since           | RELEASING: Release              |
| WITHDRAWING | Written      | otherwise                        | STOPPED: Halt                   |
| WITHDRAWING | Refused, Unanswered |                           | STOPPED: Halt                   |
| RELEASING   | Written      | of a renewal                     | Release                         |
| RELEASING   | Written      | of the release                   | STOPPED: Halt                   |
| RELEASING   | Refused      |                                  | ReadRecord                      |
| RELEASING   | Observed     | still ours, nothing in flight    | Release                         |
| RELEASING   | Observed     | not ours any more                | STOPPED: Halt                   |
| RELEASING   | Unanswered   | of a renewal                     | ReadRecord                      |
| RELEASING   | Unanswered   | of the release                   | STOPPED: Halt                   |
| both        | any          | retryPeriod has passed           | STOPPED: Halt                   |
| RELEASING   | any of these | the lock was handed over         | STANDBY instead of STOPPED      |
| STANDBY, ACQUIRING | HistoryLost |                            | STANDBY: ReadRecord, back off   |
| LEADING     | HistoryLost  |                                  | STANDBY: StopLeading, ReadRecord |
| others      | HistoryLost  |                                  | STOPPED: Halt                   |
| STOPPED     | any          |                                  | nothing                         |

A claim is justified when the record is absent, empty or (left by a lost answer or an earlier life)
already ours; when leaseDuration has passed *here* since the record last changed; when the holder
promised a liveness key and the key is gone; when the connection to the holder broke and nothing
listens there any more; or, until it has led for the first time, when this candidate is configured
to be the only one (leaderElect: false). The last three may be wrong about a living holder. That is
safe because every write of a leader carries its term, and an acquisition makes an earlier term
worthless.

A *coordinated* candidate (Kubernetes' coordinated leader election) has one rule instead of these:
its claim is justified when the record names it as holder, which the API server has written, and
prefers no other. A holder stops leading as soon as the record prefers another one, and lets its
lease run out; the API server then appoints that one.

When the store was restored from a backup (HistoryLost), what was seen of the lock is forgotten, or
snapshots of the restored store would be taken for old ones. Nobody claims it for a retryPeriod, in
which informers list again.

While an empty record names a successor, the others leave it to him for half a second.

Invariants (checked by tests/term/election on every reachable state of a model):
 1. A term has one holder: StartLeading(term) comes from the one write that created the term.
 2. Terms grow: an acquisition's revision is larger than that of all before it.
 3. No write of an earlier term is accepted once a later term exists.
 4. leaderTransitions never shrinks.
 5. A candidate leads only while ``now < sent_at(last successful write) + renewDeadline``. So while
    clocks run at about the same speed, and nobody is wrongly suspected, two never lead at once.
 6. StartLeading and StopLeading alternate; STOPPED is reached only after StopLeading.
 7. Every step that does not end in STOPPED sets a timer: no lost event leaves a candidate stuck.
 8. A candidate that is asked to stop never races or leads again.
 9. Left in peace, somebody leads.

Stricter than client-go: renewDeadline counts from when the last successful renewal was sent, where
client-go counts from a retryPeriod after its answer. Different: a deposed holder goes back to
racing; whether the process exits instead ("Leaderelection lost") is its owner's choice.

No clock, no chance, no I/O: ``now`` is monotonic seconds, ``chance`` a number in [0, 1).
"""

from __future__ import annotations

from dataclasses import replace

from podsched.term.election.events import (
    Effect,
    Event,
    HistoryLost,
    Observed,
    Refused,
    ScheduleTimer,
    TimerFired,
    Unanswered,
    Written,
)
from podsched.term.election.holding import (
    begin_anew,
    hold,
    on_leading,
    on_releasing,
    on_withdrawing,
)
from podsched.term.election.lock_view import learned
from podsched.term.election.racing import (
    answer_due,
    claimable_from,
    on_acquiring,
    on_standby,
    stand_by,
)
from podsched.term.election.states import (
    Acquiring,
    Leading,
    Releasing,
    Standby,
    State,
    Stopped,
    Withdrawing,
    in_flight,
    leads,
)
from podsched.term.election.transition import Transition


def step(
    state: State, event: Event, now: float, *, chance: float = 0.0
) -> tuple[State, tuple[Effect, ...]]:
    """Return the next state, and what to do, in this order.

    chance: in [0, 1); spreads polls over client-go's jitter and races over race_jitter.
    """
    if isinstance(state, Stopped):
        return state, ()
    if _is_outdated(state, event):
        if not isinstance(state, Leading) or leads(state, now):
            return state, ()
        event = TimerFired()  # no news, except that it is too late to go on leading
    transition = Transition(now, chance)
    if isinstance(event, Observed):
        state = replace(state, view=learned(state.view, event.snapshot, now))
    if isinstance(event, HistoryLost):
        state = begin_anew(state, transition)
    else:
        state = _on_event(state, event, transition)
    if isinstance(state, Leading):
        state = hold(state, transition)
    if isinstance(state, Standby):
        state = stand_by(state, transition)
    if not isinstance(state, Stopped):
        transition.emit(ScheduleTimer(next_timer(state)))
    return state, tuple(transition.effects)


def next_timer(state: State) -> float:
    """Return when a candidate that hears nothing must look again; never in STOPPED."""
    match state:
        case Standby():
            claim = state.race_at if state.race_at is not None else claimable_from(state)
            return state.poll_at if claim is None else min(state.poll_at, claim)
        case Acquiring():
            return answer_due(state)
        case Leading():
            due = state.lease_over_at if state.in_flight else state.renewal_due_at
            return min(due, state.lease_over_at)
        case Withdrawing() | Releasing():
            return state.give_up_at
        case Stopped():
            raise ValueError("a candidate that has left the race sets no timer")


def _is_outdated(state: State, event: Event) -> bool:
    """Whether it answers an abandoned write, or is a snapshot older than what is known."""
    if isinstance(event, Written | Refused | Unanswered):
        awaited = in_flight(state)
        return awaited is None or awaited.attempt != event.attempt
    if isinstance(event, Observed) and state.view.snapshot is not None:
        return event.snapshot.revision < state.view.snapshot.revision
    return False


def _on_event(state: State, event: Event, transition: Transition) -> State:
    match state:
        case Standby():
            return on_standby(state, event, transition)
        case Acquiring():
            return on_acquiring(state, event, transition)
        case Leading():
            return on_leading(state, event, transition)
        case Withdrawing():
            return on_withdrawing(state, event, transition)
        case Releasing():
            return on_releasing(state, event, transition)
        case Stopped():
            return state
