"""A leader that is silent for an election timeout is replaced, and wrong suspicions are few."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election import silence
from podsched.term.election.events import (
    Effect,
    Event,
    HistoryLost,
    Observed,
    Reachability,
    ReadRecord,
    Refused,
    Release,
    Renew,
    ScheduleTimer,
    StopLeading,
    StopReason,
    TermOver,
    TimerFired,
    TryAcquire,
    Written,
)
from podsched.term.election.lock_view import Candidate, LockView
from podsched.term.election.record import LeaderElectionRecord, Snapshot
from podsched.term.election.states import Leading, Standby, State
from podsched.term.election.step import step

TIMEOUT = 0.4
ME = Candidate(
    identity="me",
    settings=LeaderElectionSettings(),
    race_jitter=0.0,
    election_timeout=TIMEOUT,
)
OTHERS = LeaderElectionRecord(
    holder_identity="other",
    lease_duration_seconds=15,
    leader_transitions=3,
    liveness_ttl=2,
    election_timeout=TIMEOUT,
)


FREE = Snapshot(revision=Revision(1))
FREE_AGAIN = Snapshot(revision=Revision(11))


def seen(revision: int, record: LeaderElectionRecord = OTHERS, term: int = 5) -> Snapshot:
    return Snapshot(
        revision=Revision(revision),
        record=record,
        record_revision=Revision(revision),
        term=Term(term),
        live_holder=record.holder_identity,
    )


def run(state: State, *script: tuple[float, Event]) -> tuple[State, tuple[Effect, ...]]:
    """Several events one after another; the effects are those of the last."""
    effects: tuple[Effect, ...] = ()
    for now, event in script:
        state, effects = step(state, event, now)
    return state, effects


def standby(record: LeaderElectionRecord = OTHERS, candidate: Candidate = ME) -> State:
    """A standby that saw the other's renewal at time 100 and polls at 101.5."""
    start = Standby(view=LockView(candidate=candidate), poll_at=101.5)
    return run(start, (100, Observed(seen(9, record))))[0]


def claims(effects: tuple[Effect, ...]) -> bool:
    return any(isinstance(effect, TryAcquire) for effect in effects)


def timer(effects: tuple[Effect, ...]) -> float:
    return next(effect.at for effect in effects if isinstance(effect, ScheduleTimer))


def probing() -> State:
    state, effects = run(standby(), (100.4, TimerFired()))
    assert ReadRecord() in effects
    return state


def leading(at: float = 100.0) -> Leading:
    state, effects = run(Standby(view=LockView(candidate=ME)), (at, Observed(FREE)))
    (claim,) = (effect for effect in effects if isinstance(effect, TryAcquire))
    state, _ = run(state, (at, Written(claim.attempt, Revision(10), claim.record)))
    assert isinstance(state, Leading)
    return state


def wary(state: State) -> float:
    return state.view.wary_for


def test_a_leader_renews_its_lock_four_times_in_an_election_timeout() -> None:
    state, effects = run(leading(), (100.1, TimerFired()))
    (renewal,) = (effect for effect in effects if isinstance(effect, Renew))
    assert renewal.record.election_timeout == TIMEOUT
    assert isinstance(state, Leading)


def test_a_standby_reads_the_lock_when_the_leader_was_silent_for_the_election_timeout() -> None:
    state, effects = run(standby(), (100.3, TimerFired()))
    assert ReadRecord() not in effects
    assert timer(effects) == 100.4
    assert ReadRecord() in run(state, (100.4, TimerFired()))[1]


def test_it_claims_the_lock_if_the_answer_comes_at_once_and_the_record_is_unchanged() -> None:
    assert claims(run(probing(), (100.41, Observed(seen(9), asked_at=100.4)))[1])


def test_it_claims_nothing_if_the_leader_has_renewed_the_record_meanwhile() -> None:
    state, effects = run(probing(), (100.41, Observed(seen(11), asked_at=100.4)))
    assert not claims(effects)
    assert timer(effects) == pytest.approx(100.81)
    assert not wary(state)


def test_it_counts_the_silence_anew_if_the_answer_is_late() -> None:
    state, effects = run(probing(), (100.55, Observed(seen(9), asked_at=100.4)))
    assert not claims(effects)
    state, effects = run(state, (100.94, TimerFired()))
    assert ReadRecord() not in effects
    assert ReadRecord() in run(state, (100.95, TimerFired()))[1]


def test_it_counts_the_silence_anew_if_etcd_has_elected_a_leader() -> None:
    """etcd stored no renewals before, so the silence says nothing about the holder."""
    before, after = (replace(seen(9), raft_term=term) for term in (2, 3))
    state = run(standby(), (100.1, Observed(before)), (100.4, TimerFired()))[0]
    state, effects = run(state, (100.41, Observed(after, asked_at=100.4)))
    assert not claims(effects)
    assert timer(effects) == pytest.approx(100.81)
    answer = Observed(after, asked_at=100.81)
    assert claims(run(state, (100.81, TimerFired()), (100.82, answer))[1])


def test_an_election_of_an_etcd_that_was_restored_from_a_backup_is_noticed_too() -> None:
    """Its Raft terms begin at a low number again."""
    before, restored, after = (replace(seen(9), raft_term=term) for term in (50, 2, 3))
    state = run(standby(), (100.1, Observed(before)), (100.2, HistoryLost()))[0]
    state = run(state, (100.3, Observed(restored)), (102.2, TimerFired()))[0]
    state, effects = run(state, (102.21, Observed(after, asked_at=102.2)))
    assert not claims(effects)
    assert timer(effects) == pytest.approx(102.61)


def test_it_counts_the_silence_anew_if_no_answer_comes() -> None:
    state, effects = run(probing(), (100.5, TimerFired()))
    assert not claims(effects)
    assert timer(effects) == pytest.approx(100.9)
    assert claims(run(state, (100.9, TimerFired()), (100.91, Observed(seen(9), asked_at=100.9)))[1])


def test_it_counts_the_silence_anew_if_its_own_timer_is_late() -> None:
    """Its machine is busy, so the leader may be busy as well."""
    _, effects = run(standby(), (100.55, TimerFired()))
    assert ReadRecord() not in effects
    assert timer(effects) == pytest.approx(100.95)


def test_the_answer_to_a_read_that_began_before_the_probe_proves_nothing() -> None:
    assert not claims(run(probing(), (100.41, Observed(seen(9), asked_at=100.35)))[1])


@pytest.mark.parametrize(
    ("record", "candidate"),
    [
        (replace(OTHERS, election_timeout=0.0), ME),
        (OTHERS, replace(ME, election_timeout=0.0)),
    ],
    ids=["the leader promised no renewals", "the standby has no election timeout"],
)
def test_silence_does_not_count_without_a_promise_or_an_election_timeout(
    record: LeaderElectionRecord, candidate: Candidate
) -> None:
    _, effects = run(standby(record, candidate), (101.0, TimerFired()))
    assert ReadRecord() not in effects
    assert timer(effects) == 101.5


def test_a_leader_deposed_right_after_a_renewal_suspects_no_leader_for_a_while() -> None:
    state, effects = run(leading(), (100.6, Observed(seen(12, term=12))))
    assert any(isinstance(effect, StopLeading) for effect in effects)
    assert wary(state) == silence.FIRST_WARY
    _, effects = run(state, (101.0, TimerFired()))
    assert timer(effects) <= 100.6 + silence.FIRST_WARY


def test_it_is_wary_for_twice_as_long_after_the_next_wrong_suspicion() -> None:
    again = leading(at=110.0)
    again = replace(again, view=replace(again.view, wary_for=5.0, wary_until=105.6))
    state, _ = run(again, (110.5, TermOver(Term(10))))
    assert wary(state) == 10.0
    calm = replace(again, view=replace(again.view, wary_until=110.0 - silence.CALM - 1))
    assert wary(run(calm, (110.5, TermOver(Term(10))))[0]) == silence.FIRST_WARY


def test_a_leader_that_was_paused_for_long_was_deposed_rightly() -> None:
    state, _ = run(leading(), (103.0, Observed(seen(12, term=12))))
    assert isinstance(state, Standby)
    assert not wary(state)


@pytest.mark.parametrize(("term", "wrong"), [(5, True), (12, False)])
def test_a_refused_claim_was_wrong_if_the_same_leader_still_leads(term: int, wrong: bool) -> None:
    state, effects = run(probing(), (100.41, Observed(seen(9), asked_at=100.4)))
    (claim,) = (effect for effect in effects if isinstance(effect, TryAcquire))
    state, _ = run(state, (100.42, Refused(claim.attempt)), (100.43, Observed(seen(12, term=term))))
    assert bool(wary(state)) is wrong


# -- takeovers over minutes ------------------------------------------------------------------

#: Seconds that a read, a claim, and a watch take.
QUICK = 0.01


class Simulation:
    """Three candidates and a store in virtual time; all renewals take as long to be written."""

    def __init__(self, renewal_takes: float) -> None:
        self.takeovers = 0
        self._renewal_takes = renewal_takes
        self._store = FREE
        self._states: list[State] = []
        self._timers = [0.0] * 3
        self._numbers = itertools.count()
        self._agenda: list[tuple[float, int, int, Event | ReadRecord | TryAcquire | Renew]] = []
        for who in range(3):
            candidate = replace(ME, identity=f"candidate-{who}")
            self._states.append(Standby(view=LockView(candidate=candidate)))
            self._at(0.0, who, TimerFired())

    def run(self, seconds: float) -> int:
        """Return how often a candidate acquired the lock."""
        while self._agenda[0][0] <= seconds:
            now, _, who, what = heapq.heappop(self._agenda)
            match what:
                case ReadRecord():
                    self._step(now, who, Observed(self._store, asked_at=now - QUICK))
                case TryAcquire() | Renew():
                    self._step(now, who, self._write(now, what))
                case TimerFired() if now != self._timers[who]:
                    pass  # a later ScheduleTimer has replaced it
                case _:
                    self._step(now, who, what)
        return self.takeovers

    def _at(self, time: float, who: int, what: Event | ReadRecord | TryAcquire | Renew) -> None:
        heapq.heappush(self._agenda, (time, next(self._numbers), who, what))

    def _write(self, now: float, write: TryAcquire | Renew) -> Event:
        store, acquires = self._store, isinstance(write, TryAcquire)
        held = isinstance(write, TryAcquire) or write.term == store.term
        if store.record_revision != write.expected_revision or not held:
            return Refused(write.attempt)
        self.takeovers += acquires
        revision = store.revision + 1
        self._store = seen(revision, write.record, revision if acquires else store.term)
        for who in range(3):
            self._at(now + QUICK, who, Observed(self._store))
        return Written(write.attempt, Revision(revision), write.record)

    def _step(self, now: float, who: int, event: Event) -> None:
        self._states[who], effects = step(self._states[who], event, now)
        for effect in effects:
            if isinstance(effect, ScheduleTimer):
                self._timers[who] = max(effect.at, now)
                self._at(self._timers[who], who, TimerFired())
            elif isinstance(effect, ReadRecord | TryAcquire):
                self._at(now + QUICK, who, effect)
            elif isinstance(effect, Renew):
                self._at(now + self._renewal_takes, who, effect)


def test_a_leader_whose_renewals_are_in_time_is_never_replaced() -> None:
    assert Simulation(renewal_takes=TIMEOUT / 2).run(300) == 1


def test_leaders_whose_renewals_are_always_late_are_replaced_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With no damping there are hundreds of takeovers in ten minutes."""
    assert Simulation(renewal_takes=1.5 * TIMEOUT).run(600) < 60
    monkeypatch.setattr(silence, "FIRST_WARY", 0.0)
    monkeypatch.setattr(silence, "LONGEST_WARY", 0.0)
    assert Simulation(renewal_takes=1.5 * TIMEOUT).run(600) > 300


CUT_OFF, REACHES = Reachability(api_servers=False), Reachability(api_servers=True)


def test_a_leader_that_reaches_no_api_server_gives_the_lock_back() -> None:
    state, effects = run(leading(), (100.05, CUT_OFF))
    assert effects[0] == StopLeading(StopReason.CUT_OFF)
    (release,) = (effect for effect in effects if isinstance(effect, Release))
    released = Written(release.attempt, Revision(11), release.record)
    state, effects = run(state, (100.06, released), (101, TimerFired()))
    assert isinstance(state, Standby), "it stands by, and claims nothing while it is cut off"
    assert claims(run(state, (102, REACHES))[1])


def test_without_an_election_timeout_a_leader_that_reaches_no_api_server_goes_on() -> None:
    patient = leading()
    view = replace(patient.view, candidate=replace(ME, election_timeout=0.0))
    assert isinstance(run(replace(patient, view=view), (100.05, CUT_OFF))[0], Leading)


def test_a_standby_that_reaches_no_api_server_claims_nothing_until_it_does() -> None:
    state, effects = run(standby(), (100.2, CUT_OFF), (100.3, Observed(FREE_AGAIN)))
    assert not claims(effects)
    assert claims(run(state, (100.4, REACHES))[1])


def test_a_standby_without_an_api_server_waits_for_its_next_poll_beside_a_silent_leader() -> None:
    """It may not claim the lock. A timer in the past would fire again and again."""
    _, effects = run(
        standby(),
        (100.1, CUT_OFF),
        (100.4, TimerFired()),
        (100.41, Observed(seen(9), asked_at=100.4)),
    )
    assert timer(effects) == 101.5


def test_a_leader_that_has_given_the_lock_back_keeps_it_the_next_time_for_a_while() -> None:
    """Otherwise the lock would go around while every candidate loses its API servers by turns."""
    state, _ = run(leading(), (100.05, CUT_OFF))
    again = leading(101.0)
    again = replace(again, view=replace(again.view, wary_until=state.view.wary_until))
    state, _ = run(again, (101.05, CUT_OFF))
    assert isinstance(state, Leading)
