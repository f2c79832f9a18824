"""The step function rule by rule, and every phase against every event."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.events import (
    ConnectToLeader,
    Effect,
    Event,
    HandOverRequested,
    HistoryLost,
    LeaderConnectionBroken,
    NewLeader,
    Observed,
    Reachability,
    ReadRecord,
    Refused,
    Release,
    Renew,
    ScheduleTimer,
    StartLeading,
    StopLeading,
    StopReason,
    StopRequested,
    TermOver,
    TimerFired,
    TryAcquire,
    Unanswered,
    Written,
)
from podsched.term.election.lock_view import Candidate, LockView
from podsched.term.election.record import (
    LeaderElectionRecord,
    LockKeys,
    Snapshot,
    encode_lease,
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
from podsched.term.election.step import step

ME = Candidate(identity="me", settings=LeaderElectionSettings(), address="me:1", race_jitter=0.0)
OTHERS = LeaderElectionRecord(
    holder_identity="other",
    lease_duration_seconds=15,
    leader_transitions=3,
    address="other:1",
    liveness_ttl=2,
)


def seen(record: LeaderElectionRecord | None, revision: int, **fields: object) -> Snapshot:
    """The keys as they were when the record was the last thing written."""
    live = record.holder_identity if record else ""
    base = Snapshot(
        revision=Revision(revision),
        record=record,
        record_revision=Revision(revision if record else 0),
        term=Term(5 if live else 0),
        live_holder=live,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def run(state: State, *script: tuple[float, Event]) -> tuple[State, tuple[Effect, ...]]:
    """Several events one after another; the effects are those of the last."""
    effects: tuple[Effect, ...] = ()
    for now, event in script:
        state, effects = step(state, event, now)
    return state, effects


def only(effects: tuple[Effect, ...], sort: type) -> list[Effect]:
    return [e for e in effects if isinstance(e, sort)]


def fresh() -> Standby:
    return Standby(view=LockView(candidate=ME))


def standby() -> State:
    """Somebody else leads since time 100."""
    return run(fresh(), (100, TimerFired()), (100, Observed(seen(OTHERS, 9))))[0]


def acquiring() -> Acquiring:
    state, _ = run(fresh(), (100, TimerFired()), (100, Observed(seen(None, 1))))
    assert isinstance(state, Acquiring)
    return state


def leading() -> Leading:
    """In term 10 since 100.5, by a write sent at time 100."""
    state = acquiring()
    claim = LeaderElectionRecord(
        holder_identity="me", lease_duration_seconds=15, address="me:1", liveness_ttl=2
    )
    won, _ = run(state, (100.5, Written(state.view.attempt, Revision(10), claim)))
    assert isinstance(won, Leading)
    return won


def renewing() -> Leading:
    """As ``leading``, with the first renewal sent at time 102."""
    state, _ = run(leading(), (102, TimerFired()))
    assert isinstance(state, Leading)
    assert state.in_flight is not None
    return state


def withdrawing() -> State:
    return run(acquiring(), (101, StopRequested()))[0]


def releasing() -> State:
    return run(leading(), (101, StopRequested()))[0]


def handing_over() -> State:
    return run(leading(), (101, HandOverRequested("other")))[0]


def stopped() -> State:
    return run(fresh(), (100, TimerFired()), (100, StopRequested()))[0]


def mine(revision: int, **fields: object) -> Snapshot:
    return seen(leading().tenure.record, revision, **{"term": Term(10), **fields})


def test_a_free_lock_is_claimed() -> None:
    """No record: the claim expects none."""
    _, effects = run(fresh(), (0, TimerFired()), (0, Observed(seen(None, 1))))
    (claim,) = only(effects, TryAcquire)
    assert isinstance(claim, TryAcquire)
    assert claim.expected_revision == 0
    assert (claim.record.holder_identity, claim.record.leader_transitions) == ("me", 0)


def test_a_renewed_lease_is_not_taken_over() -> None:
    """The lease counts from when each new record was first seen here."""
    state, _ = run(standby(), (114, Observed(seen(OTHERS, 12))))
    _, effects = run(state, (128.9, TimerFired()))
    assert not only(effects, TryAcquire)


def test_a_candidate_that_is_to_be_alone_takes_the_lock_it_finds_once() -> None:
    """Without an election it does not wait for the lease of an earlier scheduler to expire."""
    alone = replace(ME, settings=LeaderElectionSettings(leader_elect=False))
    state: State = Standby(view=LockView(candidate=alone))
    state, effects = run(state, (0, TimerFired()), (0.1, Observed(seen(OTHERS, 9))))
    (claim,) = only(effects, TryAcquire)
    assert isinstance(claim, TryAcquire)
    assert claim.expected_revision == 9
    taken = Written(claim.attempt, Revision(10), claim.record)
    state, effects = run(state, (0.2, taken), (0.3, Observed(seen(OTHERS, 11))))
    assert only(effects, StopLeading)
    _, effects = run(state, (0.4, TimerFired()))
    assert not only(effects, TryAcquire)


def test_an_expired_lease_is_claimed_and_the_transition_counted() -> None:
    """15 s of local time after the record was first seen, however often it was read since."""
    state, _ = run(standby(), (114, Observed(seen(OTHERS, 12, record_revision=Revision(9)))))
    _, effects = run(state, (115, TimerFired()))
    (claim,) = only(effects, TryAcquire)
    assert isinstance(claim, TryAcquire)
    assert (claim.expected_revision, claim.record.leader_transitions) == (9, 4)


def test_a_claim_counts_no_more_transitions_than_a_lease_can_store() -> None:
    most = 2**31 - 1
    released = replace(OTHERS, holder_identity="", leader_transitions=most)
    state, _ = run(fresh(), (100, TimerFired()), (100, Observed(seen(released, 9))))
    assert isinstance(state, Acquiring)
    record = state.in_flight.write.record
    assert record.leader_transitions == most
    encode_lease(record, LockKeys("kube-system", "kube-scheduler"), None)


def test_a_released_lock_is_claimed_at_once() -> None:
    """client-go's release: an empty holder."""
    released = replace(OTHERS, holder_identity="", lease_duration_seconds=1)
    _, effects = run(standby(), (101, Observed(seen(released, 12))))
    assert only(effects, TryAcquire)


def test_a_vanished_holder_is_challenged_and_one_without_a_promise_is_not() -> None:
    """A record written by others than podsched promises no liveness key."""
    _, effects = run(standby(), (101, Observed(seen(OTHERS, 9, live_holder=""))))
    assert only(effects, TryAcquire)
    foreign = replace(OTHERS, liveness_ttl=0)
    _, effects = run(standby(), (101, Observed(seen(foreign, 12, live_holder=""))))
    assert not only(effects, TryAcquire)


@pytest.mark.parametrize(
    ("broken", "challenged"),
    [
        (LeaderConnectionBroken("other", Term(5), confirmed=True), True),
        (LeaderConnectionBroken("other", Term(5), confirmed=False), False),
        (LeaderConnectionBroken("other", Term(4), confirmed=True), False),
        (LeaderConnectionBroken("third", Term(5), confirmed=True), False),
    ],
)
def test_only_a_confirmed_break_of_the_present_leaders_connection_is_a_challenge(
    broken: LeaderConnectionBroken, challenged: bool
) -> None:
    """Another identity or term is a former leader, which is no longer followed."""
    _, effects = run(standby(), (101, broken))
    assert bool(only(effects, TryAcquire)) is challenged


def test_a_renewal_after_the_break_clears_the_suspicion() -> None:
    """The claim was refused because the holder wrote: it lives."""
    state, _ = run(standby(), (101, LeaderConnectionBroken("other", Term(5), confirmed=True)))
    state, _ = run(state, (101, Refused(state.view.attempt)))
    state, effects = run(state, (101, Observed(seen(OTHERS, 12))))
    assert isinstance(state, Standby)
    assert not only(effects, TryAcquire)


def test_a_refused_claim_is_not_repeated_on_the_same_snapshot() -> None:
    """It reads again instead, and does not spin."""
    state = acquiring()
    state, effects = run(state, (100, Refused(state.view.attempt)))
    assert only(effects, ReadRecord)
    _, effects = run(state, (105, TimerFired()))
    assert not only(effects, TryAcquire)


def test_an_unanswered_claim_backs_off_by_the_jittered_retry_period() -> None:
    """retryPeriod * (1 + 1.2 * chance), as client-go waits."""
    state = acquiring()
    state, _ = step(state, Unanswered(state.view.attempt), 100, chance=0.5)
    assert not only(run(state, (103.1, TimerFired()))[1], TryAcquire)
    assert only(run(state, (103.2, TimerFired()))[1], TryAcquire)


def test_an_acquisition_answered_too_late_does_not_start_leading() -> None:
    """The process was paused: its lease is over before it began."""
    state = acquiring()
    record = LeaderElectionRecord(holder_identity="me")
    state, effects = run(state, (110, Written(state.view.attempt, Revision(10), record)))
    assert not only(effects, StartLeading)
    assert not leads(state, 110)


def test_an_acquisition_that_was_overtaken_does_not_start_leading() -> None:
    """The news of the successor came before the answer."""
    state = acquiring()
    state, _ = run(state, (100, Observed(seen(OTHERS, 20, term=Term(20)))))
    record = LeaderElectionRecord(holder_identity="me")
    state, effects = run(state, (101, Written(state.view.attempt, Revision(10), record)))
    assert not only(effects, StartLeading)
    assert only(effects, ConnectToLeader)


def test_winning_starts_leading_in_the_term_of_the_write() -> None:
    """And the first renewal is due a retryPeriod after the claim was sent."""
    state = acquiring()
    record = LeaderElectionRecord(holder_identity="me")
    _, effects = run(state, (100.5, Written(state.view.attempt, Revision(10), record)))
    assert effects == (StartLeading(Term(10)), NewLeader("me"), ScheduleTimer(102.0))


def test_the_lease_counts_from_when_the_renewal_was_sent() -> None:
    """Sent at 102, answered at 111.9, over at 112."""
    state = renewing()
    written = Written(state.view.attempt, Revision(11), state.tenure.record)
    late, effects = run(state, (109.9, written), (111.9, TimerFired()))
    assert leads(late, 111.9)
    assert not leads(late, 112)
    _, effects = run(late, (112, TimerFired()))
    assert effects[0] == StopLeading(StopReason.RENEW_DEADLINE)


def test_a_holder_that_comes_back_late_stops_whatever_it_hears_first() -> None:
    """Also the answer to a renewal that was sent before the pause."""
    state = renewing()
    news: list[Event] = [
        Written(state.view.attempt, Revision(11), state.tenure.record),
        TimerFired(),
        Observed(mine(11)),
        StopRequested(),
        Unanswered(state.view.attempt),
    ]
    for event in news:
        assert not leads(state, 130)
        _, effects = run(state, (130, event))
        assert effects[0] == StopLeading(StopReason.RENEW_DEADLINE), event


@pytest.mark.parametrize(
    "snapshot",
    [
        seen(OTHERS, 20, term=Term(20)),
        seen(None, 20),
        mine(20, term=Term(20)),
        mine(20, term=Term(0)),
    ],
    ids=["another holder", "no record", "another term", "no term"],
)
def test_a_holder_whose_record_or_term_is_not_its_own_stops_at_once(snapshot: Snapshot) -> None:
    """The store would refuse its writes from then on anyway."""
    state, effects = run(leading(), (101, Observed(snapshot)))
    assert effects[0] == StopLeading(StopReason.DEPOSED)
    assert not isinstance(state, Leading)


def test_a_holder_whose_write_was_refused_stops_at_once_and_reads_who_leads() -> None:
    """It does not wait until its next renewal, which would be refused as well."""
    state, effects = run(leading(), (100.6, TermOver(Term(10))))
    assert effects[0] == StopLeading(StopReason.DEPOSED)
    assert ReadRecord() in effects
    state, effects = run(state, (100.7, Observed(seen(OTHERS, 20, term=Term(20)))))
    assert not leads(state, 100.7)
    assert not only(effects, TryAcquire)


def test_a_write_of_an_earlier_term_that_is_refused_late_ends_no_later_one() -> None:
    state, effects = run(leading(), (101, TermOver(Term(5))))
    assert leads(state, 101)
    assert not only(effects, StopLeading)


def test_a_lost_answer_to_a_renewal_is_healed_by_reading() -> None:
    """The record moved by our own hand: renew again from where it is."""
    renewal = renewing()
    state, effects = run(renewal, (104, Unanswered(renewal.view.attempt)))
    assert only(effects, ReadRecord)
    _, effects = run(state, (104, Observed(mine(11))))
    (again,) = only(effects, Renew)
    assert isinstance(again, Renew)
    assert (again.expected_revision, again.term) == (11, 10)


def test_a_living_holder_whose_liveness_key_went_renews_at_once() -> None:
    """It moves the record, so that the challengers' claims are refused."""
    gone = mine(11, record_revision=Revision(10), live_holder="")
    _, effects = run(leading(), (100.9, Observed(gone)))
    assert only(effects, Renew)


def test_news_older_than_what_is_known_is_ignored() -> None:
    """A read that began before the acquisition says nothing about it."""
    state = leading()
    assert run(state, (101, Observed(seen(OTHERS, 9)))) == (state, ())


def test_a_release_empties_the_record_and_keeps_the_count() -> None:
    """holderIdentity "", leaseDurationSeconds 1, as client-go writes it; first it stops leading."""
    _, effects = run(leading(), (101, StopRequested()))
    assert effects[0] == StopLeading(StopReason.RELEASED)
    (release,) = only(effects, Release)
    assert isinstance(release, Release)
    assert release.record.holder_identity == ""
    assert release.record.lease_duration_seconds == 1
    assert release.record.leader_transitions == 0
    assert (release.expected_revision, release.term) == (10, 10)


def test_a_release_waits_for_the_renewal_in_flight() -> None:
    """Its answer tells which revision to release."""
    renewal = renewing()
    written = Written(renewal.view.attempt, Revision(11), renewal.tenure.record)
    _, effects = run(renewal, (102, StopRequested()), (102, written))
    (release,) = only(effects, Release)
    assert isinstance(release, Release)
    assert (release.expected_revision, release.term) == (11, 10)


def test_a_release_that_fails_is_given_up_after_a_retry_period() -> None:
    """A stopping process does not hang on a store that is away."""
    state, effects = run(releasing(), (103, TimerFired()))
    assert isinstance(state, Stopped)
    assert effects == ()


def test_who_led_in_a_history_that_is_lost_stops_and_reads_the_lock_anew() -> None:
    state, effects = run(renewing(), (103, HistoryLost()))
    assert effects[0] == StopLeading(StopReason.DEPOSED)
    assert only(effects, ReadRecord)
    earlier = Observed(seen(OTHERS, 4, live_holder=""))
    state, effects = run(state, (103.1, earlier))
    assert not only(effects, TryAcquire), "informers list again first"
    _, effects = run(state, (105, TimerFired()))
    (claim,) = only(effects, TryAcquire)
    assert isinstance(claim, TryAcquire)
    assert claim.expected_revision == 4


def _every_event(state: State) -> list[Event]:
    attempt = state.view.attempt
    record = replace(OTHERS, holder_identity="me")
    snapshots = [
        seen(None, 30),
        seen(OTHERS, 30),
        seen(OTHERS, 30, live_holder=""),
        seen(replace(OTHERS, holder_identity=""), 30),
        mine(30),
        mine(30, live_holder=""),
        seen(OTHERS, 2),
    ]
    return [
        TimerFired(),
        *map(Observed, snapshots),
        *(Written(n, Revision(31), record) for n in (attempt, attempt - 1)),
        *(Refused(n) for n in (attempt, attempt - 1)),
        *(Unanswered(n) for n in (attempt, attempt - 1)),
        TimerFired(),
        LeaderConnectionBroken("other", Term(5), confirmed=True),
        LeaderConnectionBroken("other", Term(5), confirmed=False),
        StopRequested(),
        HandOverRequested("other"),
        TermOver(Term(10)),
        TermOver(Term(5)),
        HistoryLost(),
        Reachability(False),
        Reachability(True),
    ]


ALLOWED = {
    Standby: {Standby, Acquiring, Stopped},
    Acquiring: {Acquiring, Standby, Leading, Withdrawing},
    Leading: {Leading, Standby, Acquiring, Releasing, Stopped},
    Withdrawing: {Withdrawing, Releasing, Stopped},
    Releasing: {Releasing, Standby, Acquiring, Stopped},
    Stopped: {Stopped},
}
STARTS = [
    fresh,
    standby,
    acquiring,
    leading,
    renewing,
    withdrawing,
    releasing,
    handing_over,
    stopped,
]


@pytest.mark.parametrize("start", STARTS)
def test_every_phase_answers_every_event_within_the_table(start: Callable[[], State]) -> None:
    """Two events in a row at every interesting time, from every phase."""
    begin = start()
    for now in (101.0, 102.0, 110.0, 200.0):
        for first in _every_event(begin):
            middle, _ = step(begin, first, now)
            for second, late in itertools.product(_every_event(middle), (0.0, 12.0)):
                end, effects = step(middle, second, now + late)
                _check(middle, end, effects, now + late)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("now", [101.0, 110.0, 200.0])
def test_a_request_to_stop_is_never_lost(start: Callable[[], State], now: float) -> None:
    """Also when it is the first thing that a process hears after a long pause."""
    state, _ = run(start(), (now, StopRequested()))
    assert isinstance(state, Withdrawing | Releasing | Stopped)
    state, _ = run(state, (now + 30, TimerFired()))
    assert isinstance(state, Stopped)


def test_a_lock_that_is_handed_over_names_the_successor_and_its_holder_stands_by() -> None:
    state, effects = run(leading(), (101, HandOverRequested("other")))
    (release,) = only(effects, Release)
    assert isinstance(release, Release)
    assert (release.record.holder_identity, release.record.preferred_holder) == ("", "other")
    assert effects[0] == StopLeading(StopReason.HANDED_OVER)
    written = Written(release.attempt, Revision(11), release.record)
    state, effects = run(state, (101.1, written))
    assert isinstance(state, Standby)
    assert not only(effects, TryAcquire)


def test_a_leader_does_not_hand_over_to_itself() -> None:
    state, effects = run(leading(), (101, HandOverRequested("me")))
    assert isinstance(state, Leading)
    assert not only(effects, Release)


def test_the_successor_claims_at_once_and_the_others_only_when_it_does_not() -> None:
    free = replace(OTHERS, holder_identity="", preferred_holder="me")
    candidate = replace(ME, race_jitter=0.02)
    begin = Standby(view=LockView(candidate=candidate))
    state, _ = step(begin, TimerFired(), 100)
    _, effects = step(state, Observed(seen(free, 12)), 101, chance=0.9)
    (claim,) = only(effects, TryAcquire)
    assert isinstance(claim, TryAcquire)
    assert claim.record.preferred_holder == ""
    other = Observed(seen(replace(free, preferred_holder="other"), 12))
    state, effects = run(standby(), (101, other), (101.4, TimerFired()))
    assert not only(effects, TryAcquire)
    _, effects = run(state, (101.6, TimerFired()))
    assert only(effects, TryAcquire)


def test_a_lock_won_after_the_request_to_stop_is_given_back() -> None:
    """Its answer says what there is to release."""
    claim = LeaderElectionRecord(holder_identity="me", leader_transitions=4)
    state = withdrawing()
    state, effects = run(state, (101.5, Written(state.view.attempt, Revision(10), claim)))
    (release,) = only(effects, Release)
    assert isinstance(release, Release)
    assert (release.expected_revision, release.term) == (10, 10)
    assert (release.record.holder_identity, release.record.leader_transitions) == ("", 4)
    assert not only(effects, StartLeading)


def test_a_lock_won_and_lost_after_the_request_to_stop_is_not_released() -> None:
    """Somebody else holds it by the time that the answer comes."""
    claim = LeaderElectionRecord(holder_identity="me")
    state = withdrawing()
    written = Written(state.view.attempt, Revision(10), claim)
    state, effects = run(state, (101, Observed(seen(OTHERS, 20, term=Term(20)))), (101, written))
    assert isinstance(state, Stopped)
    assert not only(effects, Release)


def _check(before: State, after: State, effects: tuple[Effect, ...], now: float) -> None:
    assert type(after) in ALLOWED[type(before)]
    led, leading_now = isinstance(before, Leading), isinstance(after, Leading)
    stops, starts = only(effects, StopLeading), only(effects, StartLeading)
    assert len(stops) == (led and not leading_now)
    assert len(starts) == (leading_now and not led)
    assert not stops or effects[0] is stops[0]
    assert not leading_now or leads(after, now)
    writes = only(effects, TryAcquire) + only(effects, Renew) + only(effects, Release)
    assert len(writes) <= 1
    assert not writes or in_flight(after) is not None
    changed = (after, effects) != (before, ())
    ended = isinstance(after, Stopped)
    assert len(only(effects, ScheduleTimer)) == (changed and not ended)
    assert not isinstance(before, Stopped) or ended
