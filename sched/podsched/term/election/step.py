"""Decide who leads: the pure step function ``(state, event, now) -> (state, effects)``.

The rules are client-go's (leaderelection.go of v1.36), with the differences listed below.
``racing`` has the rules of STANDBY and ACQUIRING, ``holding`` the others, ``silence`` those by
which a silent leader is suspected; ``states`` has the fields of each phase.

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
| STANDBY     | any          | the holder is silent             | ReadRecord (a probe)            |
| STANDBY     | Observed     | answers the probe, in time, unchanged | a claim is justified       |
| STANDBY     | Observed     | etcd has elected a leader        | the silence counts anew         |
| STANDBY     | StopRequested |                                 | STOPPED                         |
| ACQUIRING   | Written      | in time, no other holder since   | LEADING: StartLeading           |
| ACQUIRING   | Written      | otherwise                        | STANDBY                         |
| ACQUIRING   | Refused      |                                  | STANDBY: ReadRecord             |
| ACQUIRING   | Unanswered   | (or no answer by renewDeadline)  | STANDBY: ReadRecord, back off   |
| ACQUIRING   | StopRequested |                                 | WITHDRAWING                     |
| LEADING     | any          | renewDeadline exceeded           | STANDBY: StopLeading            |
| LEADING     | Observed     | record or term is not ours       | STANDBY: StopLeading            |
| LEADING     | TermOver     | of the present term              | STANDBY: StopLeading            |
| LEADING     | Observed     | liveness key gone, record moved  | Renew                           |
| LEADING     | any          | coordinated, another is preferred | RELEASING: StopLeading, Release |
| LEADING     | any          | renewal due                      | Renew                           |
| LEADING     | Refused      |                                  | ReadRecord, back off            |
| LEADING     | Unanswered   |                                  | ReadRecord, back off            |
| LEADING     | StopRequested | releaseOnCancel                 | RELEASING: StopLeading, Release |
| LEADING     | StopRequested | otherwise                       | STOPPED: StopLeading            |
| LEADING     | HandOverRequested | to another                  | RELEASING: StopLeading, Release |
| LEADING     | any          | no API server reached, not wary  | RELEASING: StopLeading, Release |
| WITHDRAWING | Written      | no other holder since            | RELEASING: Release              |
| WITHDRAWING | Written      | otherwise                        | STOPPED                         |
| WITHDRAWING | Refused, Unanswered |                           | STOPPED                         |
| RELEASING   | Written      | of a renewal                     | Release                         |
| RELEASING   | Written      | of the release                   | STOPPED                         |
| RELEASING   | Refused      |                                  | ReadRecord                      |
| RELEASING   | Observed     | still ours, nothing in flight    | Release                         |
| RELEASING   | Observed     | not ours any more                | STOPPED                         |
| RELEASING   | Unanswered   | of a renewal                     | ReadRecord                      |
| RELEASING   | Unanswered   | of the release                   | STOPPED                         |
| both        | any          | retryPeriod has passed           | STOPPED                         |
| RELEASING   | any of these | handed over, or no API server reached | STANDBY instead of STOPPED |
| STANDBY, ACQUIRING | HistoryLost |                            | STANDBY: ReadRecord, back off   |
| LEADING     | HistoryLost  |                                  | STANDBY: StopLeading, ReadRecord |
| others      | HistoryLost  |                                  | STOPPED                         |
| STOPPED     | any          |                                  | nothing                         |

A claim is justified in these cases:

* the record is absent, empty, or already ours (after a lost answer or a restart);
* leaseDuration has passed *here* since the record last changed;
* the holder promised a liveness key and the key is gone;
* the connection to the holder broke and its address refuses connections;
* the holder has not renewed the record for an election timeout, and neither this candidate nor the
  store is slow (``silence``);
* this candidate is the only one by configuration (leaderElect: false) and has not led yet.

A candidate that reaches no API server claims nothing.

In the last four cases the holder may still be alive. That is safe, because every write of a leader
carries its term, and an acquisition invalidates earlier terms.

A *coordinated* candidate (Kubernetes' coordinated leader election) has one rule instead: its claim
is justified if the API server has written its name as holder into the record, and prefers no other
candidate. If the record prefers another candidate, the holder gives the lock back, and the API
server appoints the other one. (client-go does so only after a renewDeadline, in which it leads.)

If the store was restored from a backup (HistoryLost), the seen lock is forgotten, because revisions
are lower now. No candidate claims the lock for a retryPeriod, in which informers list again.

While an empty record names a successor, other candidates wait half a second before they claim.

Invariants (checked by tests/term/election on every reachable state of a model):
 1. A term has one holder: StartLeading(term) comes from the one write that created the term.
 2. Terms grow: an acquisition's revision is larger than that of all before it.
 3. No write of an earlier term is accepted once a later term exists.
 4. leaderTransitions never shrinks.
 5. A candidate leads only while ``now < sent_at(last successful write) + renewDeadline``. So if
    clocks run at about the same speed, and no living holder is suspected, two never lead at once.
 6. StartLeading and StopLeading alternate; STOPPED is reached only after StopLeading.
 7. Every step that does not end in STOPPED sets a timer, so a lost event never blocks a candidate.
 8. A candidate that is asked to stop never races or leads again.
 9. If no more faults occur, one candidate leads eventually.

Stricter than client-go: renewDeadline counts from when the last successful renewal was sent; in
client-go it counts from a retryPeriod after the answer. Different: a deposed holder goes back to
racing; its owner may exit instead ("Leaderelection lost").

No clock, randomness or I/O: ``now`` is monotonic seconds, ``chance`` a number in [0, 1).
"""

from __future__ import annotations

from dataclasses import replace

from podsched.term.election.events import (
    Effect,
    Event,
    HistoryLost,
    Observed,
    Reachability,
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
from podsched.term.election.lock_view import LockView, learned
from podsched.term.election.racing import (
    answer_due,
    claimable_from,
    on_acquiring,
    on_standby,
    stand_by,
)
from podsched.term.election.silence import next_look, note_delay, reach
from podsched.term.election.states import (
    Acquiring,
    Leading,
    Releasing,
    Standby,
    State,
    Stopped,
    Transition,
    Withdrawing,
    in_flight,
    leads,
)


def step(
    state: State, event: Event, now: float, *, chance: float = 0.0
) -> tuple[State, tuple[Effect, ...]]:
    """Return the next state, and the effects in order.

    chance: in [0, 1); spreads polls over client-go's jitter, and claims over race_jitter.
    """
    if isinstance(state, Stopped):
        return state, ()
    if _is_outdated(state, event):
        # A leader whose lease has ended stops leading even at an outdated event.
        if not isinstance(state, Leading) or leads(state, now):
            return state, ()
        event = TimerFired()  # the lease is over
    if isinstance(state, Standby):
        state = note_delay(state, next_timer(state), now)
    transition = Transition(now, chance)
    # First, so that all rules below see the newest record.
    state = replace(state, view=_learned(state.view, event, now))
    if isinstance(event, HistoryLost):
        state = begin_anew(state, transition)
    else:
        state = _on_event(state, event, transition)
    # ``hold`` may lead to STANDBY, so ``stand_by`` comes after it.
    if isinstance(state, Leading):
        state = hold(state, transition)
    if isinstance(state, Standby):
        state = stand_by(state, transition)
    if not isinstance(state, Stopped):
        transition.emit(ScheduleTimer(next_timer(state)))
    return state, tuple(transition.effects)


def next_timer(state: State) -> float:
    """Return when the next step must happen even without an event; not in STOPPED."""
    match state:
        case Standby():
            claim = state.race_at if state.race_at is not None else claimable_from(state)
            times = (state.poll_at, claim, next_look(state))
            return min(time for time in times if time is not None)
        case Acquiring():
            return answer_due(state)
        case Leading():
            # While a renewal is pending, no other is sent.
            due = state.lease_over_at if state.in_flight else state.renewal_due_at
            return min(due, state.lease_over_at)
        case Withdrawing() | Releasing():
            return state.give_up_at
        case Stopped():
            raise ValueError("a stopped candidate sets no timer")


def _learned(view: LockView, event: Event, now: float) -> LockView:
    match event:
        case Observed(snapshot):
            return learned(view, snapshot, now)
        case Reachability(api_servers):
            return reach(view, api_servers=api_servers)
    return view


def _is_outdated(state: State, event: Event) -> bool:
    """Whether an event answers an earlier write, or has a snapshot older than the known one."""
    if isinstance(event, Written | Refused | Unanswered):
        awaited = in_flight(state)
        return awaited is None or awaited.write.attempt != event.attempt
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
