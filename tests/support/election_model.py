"""A model of candidates, a store and everything that may go wrong between them.

A `World` is a value; `actions(world)` lists all that may happen next, each with the world that it
leads to. Delays and pauses need no action of their own: nothing has to happen soon. Timers, answers
and reads may come as late as they like while `tick` lets time pass. What is limited is the number
of ticks and of faults. A write or its answer may be lost, delayed beyond its sender's patience or
come twice; a candidate may die, start again under its identity, be asked to stop or to hand over,
be cut off from the store for as long as it takes, and be taken for dead while it lives.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.events import (
    NEVER,
    Effect,
    Event,
    HandOverRequested,
    LeaderConnectionBroken,
    Observed,
    Reachability,
    ReadRecord,
    Refused,
    Release,
    Renew,
    StartLeading,
    StopLeading,
    StopRequested,
    TermOver,
    TimerFired,
    TryAcquire,
    Unanswered,
    Written,
)
from podsched.term.election.lock_view import Candidate, LockView, Tenure
from podsched.term.election.record import NO_REVISION, NO_TERM, LeaderElectionRecord, Snapshot
from podsched.term.election.silence import CALM
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
from podsched.term.election.step import next_timer, step

SETTINGS = LeaderElectionSettings(
    lease_duration=3, renew_deadline=2, retry_period=1, jitter_factor=1.0
)


class Violation(AssertionError):
    """An invariant of the election does not hold."""


@dataclass(frozen=True, slots=True)
class Request:
    """A write on its way to the store; answered: its outcome, on its way back."""

    effect: TryAcquire | Renew | Release
    answer: Event | None = None
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Replica:
    """A candidate's process: its state, its writes, and its read (asked for, or answered).

    asked_at: when the read was sent. reachable: whether anything passes between it and the store.
    """

    state: State
    alive: bool = True
    reachable: bool = True
    leading: bool = False
    asked_to_stop: bool = False
    requests: tuple[Request, ...] = ()
    reading: bool | Snapshot = False
    asked_at: float = NEVER


@dataclass(frozen=True, slots=True)
class World:
    """Everything. granted: all terms that the store ever granted, and to whom."""

    replicas: tuple[Replica, ...]
    store: Snapshot
    now: int = 0
    faults: int = 0
    granted: tuple[tuple[Term, str], ...] = ()
    started: tuple[tuple[Term, str], ...] = ()


def new_world(count: int, faults: int, election_timeout: float = 0.0) -> World:
    """Candidates a, b, ... that have just started."""
    replicas = []
    world = World((), Snapshot(revision=Revision(1)), faults=faults)
    for i in range(count):
        candidate = Candidate(
            identity="abc"[i],
            settings=SETTINGS,
            address=f"{'abc'[i]}:1",
            liveness_ttl=2,
            election_timeout=election_timeout,
        )
        replicas.append(Replica(Standby(view=LockView(candidate=candidate))))
    world = replace(world, replicas=tuple(replicas))
    for i in range(count):
        world = tell(world, i, TimerFired())
    return world


def tell(world: World, i: int, event: Event) -> World:
    """Give one candidate an event and carry its effects out."""
    replica = world.replicas[i]
    state, effects = step(replica.state, event, world.now)
    asked = replica.asked_to_stop or isinstance(event, StopRequested)
    replica = replace(replica, state=state, asked_to_stop=asked)
    started = world.started
    for effect in effects:
        if isinstance(effect, StartLeading):
            started = (*started, (effect.term, state.view.identity))
        replica = _perform(replica, effect, world.now)
    replica = replace(replica, requests=_expected(replica))
    return replace(_put(world, i, replica), started=started)


def _expected(replica: Replica) -> tuple[Request, ...]:
    """No replica waits for the answers to former attempts; such writes may still arrive."""
    awaited = in_flight(replica.state)
    current = awaited.write.attempt if awaited else 0
    return tuple(
        r if r.effect.attempt == current else replace(r, abandoned=True)
        for r in replica.requests
        if r.effect.attempt == current or r.answer is None
    )


def _perform(replica: Replica, effect: Effect, now: int) -> Replica:
    match effect:
        case ReadRecord():
            return replica if replica.reading else replace(replica, reading=True, asked_at=now)
        case TryAcquire() | Renew() | Release():
            return replace(replica, requests=(*replica.requests, Request(effect)))
        case StartLeading() | StopLeading():
            starts = isinstance(effect, StartLeading)
            if replica.leading is starts:
                raise Violation(f"{effect} of {replica.state.view.identity} twice in a row")
            return replace(replica, leading=starts)
    return replica


def _put(world: World, i: int, replica: Replica) -> World:
    replicas = list(world.replicas)
    replicas[i] = replica
    return replace(world, replicas=tuple(replicas))


# -- the store -------------------------------------------------------------------------------


def apply(world: World, i: int, request: Request) -> World:
    """The store executes a write; the answer waits to be delivered."""
    effect, old = request.effect, world.store
    attempt = effect.attempt
    held = isinstance(effect, TryAcquire) or old.term == effect.term
    if old.record_revision != effect.expected_revision or not held:
        return _answer(world, i, request, Refused(attempt))
    revision = Revision(old.revision + 1)
    term, live, granted = old.term, effect.record.holder_identity, world.granted
    if isinstance(effect, TryAcquire):
        term = Term(revision)
        granted = (*granted, (term, effect.record.holder_identity))
    if isinstance(effect, Release):
        term = NO_TERM
    before = old.record.leader_transitions if old.record else -1
    if effect.record.leader_transitions < before:
        raise Violation("leaderTransitions shrank")
    store = Snapshot(
        revision=revision,
        record=effect.record,
        record_revision=revision,
        term=term,
        live_holder=live,
    )
    world = replace(world, store=store, granted=granted)
    return _answer(world, i, request, Written(attempt, revision, effect.record))


def _answer(world: World, i: int, request: Request, event: Event) -> World:
    replica = world.replicas[i]
    rest = tuple(r for r in replica.requests if r is not request)
    if not request.abandoned and replica.alive:
        rest = (*rest, replace(request, answer=event))
    return _put(world, i, replace(replica, requests=rest))


# -- what may happen -------------------------------------------------------------------------


def actions(
    world: World, *, ticks: int, suspicion: bool = True, faults: bool = True
) -> Iterator[tuple[str, World]]:
    """All that may happen next. suspicion: living holders may be taken for dead."""
    for i, replica in enumerate(world.replicas):
        if not replica.reachable:
            name = replica.state.view.identity
            yield f"{name}: is reachable again", _put(world, i, replace(replica, reachable=True))
        else:
            yield from _requests(world, i, replica)
        if replica.alive and replica.state.view.cut_off and not isinstance(replica.state, Stopped):
            name = replica.state.view.identity
            yield f"{name}: reaches an API server again", tell(world, i, Reachability(True))
        if replica.alive:
            yield from _doings(world, i, replica)
        if faults and world.faults:
            spent = replace(world, faults=world.faults - 1)
            yield from _faults(spent, i, replica, suspicion)
    # No more than two writes of a candidate are on their way, one of them given up.
    if world.now < ticks and all(len(r.requests) < 2 for r in world.replicas):
        yield "tick", replace(world, now=world.now + 1)


def _requests(world: World, i: int, replica: Replica) -> Iterator[tuple[str, World]]:
    name = replica.state.view.identity
    for request in replica.requests:
        if request.answer is None:
            yield f"{name}: {type(request.effect).__name__} arrives", apply(world, i, request)
        elif replica.alive:
            rest = tuple(r for r in replica.requests if r is not request)
            delivered = _put(world, i, replace(replica, requests=rest))
            yield f"{name}: answer", tell(delivered, i, request.answer)


def _doings(world: World, i: int, replica: Replica) -> Iterator[tuple[str, World]]:
    name, state = replica.state.view.identity, replica.state
    if isinstance(state, Stopped):
        return
    if isinstance(state, Leading) and state.tenure.term != world.store.term:
        # It need not write: then it is told nothing. An API server may answer when etcd does not.
        yield f"{name}: a write is refused", tell(world, i, TermOver(state.tenure.term))
    if next_timer(state) <= world.now and len(replica.requests) < 2:
        yield f"{name}: timer", tell(world, i, TimerFired())
    if not replica.reachable:
        # Those who wait for an answer are told that none will come; that costs no further fault.
        for request in replica.requests:
            if not request.abandoned:
                yield from _losses(world, i, replica, request)
    elif isinstance(replica.reading, Snapshot):
        done = _put(world, i, replace(replica, reading=False))
        yield f"{name}: observes", tell(done, i, Observed(replica.reading, replica.asked_at))
    elif replica.reading:
        yield f"{name}: reads", _put(world, i, replace(replica, reading=world.store))
    elif state.view.snapshot is None or state.view.snapshot.revision < world.store.revision:
        # A watch is a reason to read; that the read begins at once is one of its possible delays.
        read = replace(replica, reading=world.store, asked_at=world.now)
        yield f"{name}: watch, reads", _put(world, i, read)


def _faults(world: World, i: int, replica: Replica, suspicion: bool) -> Iterator[tuple[str, World]]:
    name, state = replica.state.view.identity, replica.state
    holds = world.store.live_holder == name
    if holds and (suspicion or not replica.alive):
        store = replace(world.store, revision=Revision(world.store.revision + 1), live_holder="")
        yield f"{name}: liveness key expires", replace(world, store=store)
    if not replica.alive:
        yield f"{name}: starts again", _started_again(world, i, replica)
        return
    if isinstance(state, Stopped):
        return
    if replica.reachable:
        yield f"{name}: is cut off", _put(world, i, replace(replica, reachable=False))
        for request in replica.requests:
            if not request.abandoned:
                yield from _losses(world, i, replica, request)
                yield from _repetitions(world, i, replica, request)
    if not state.view.cut_off and state.view.candidate.election_timeout:
        yield f"{name}: reaches no API server", tell(world, i, Reachability(False))
    yield f"{name}: dies", _put(world, i, replace(replica, alive=False, reading=False))
    yield f"{name}: is asked to stop", tell(world, i, StopRequested())
    if isinstance(state, Leading):
        other = world.replicas[(i + 1) % len(world.replicas)].state.view.identity
        yield f"{name}: is to hand over", tell(world, i, HandOverRequested(other))
        yield f"{name}: stops for another", tell(world, i, StopRequested(other))
    if state.view.followed and suspicion:
        broken = LeaderConnectionBroken(*state.view.followed, confirmed=True)
        yield f"{name}: connection breaks", tell(world, i, broken)


def _losses(
    world: World, i: int, replica: Replica, request: Request
) -> Iterator[tuple[str, World]]:
    rest = tuple(r for r in replica.requests if r is not request)
    unanswered = Unanswered(request.effect.attempt)
    lost = _put(world, i, replace(replica, requests=rest))
    yield f"{replica.state.view.identity}: write or answer lost", tell(lost, i, unanswered)
    if request.answer is None:
        late = _put(world, i, replace(replica, requests=(*rest, replace(request, abandoned=True))))
        yield f"{replica.state.view.identity}: write delayed", tell(late, i, unanswered)


def _repetitions(
    world: World, i: int, replica: Replica, request: Request
) -> Iterator[tuple[str, World]]:
    """The network repeats a write, which may arrive much later once more, or an answer."""
    name = replica.state.view.identity
    if request.answer is None:
        again = replace(request, abandoned=True)
        yield (
            f"{name}: write twice",
            _put(world, i, replace(replica, requests=(*replica.requests, again))),
        )
        return
    rest = tuple(r for r in replica.requests if r is not request)
    told = tell(_put(world, i, replace(replica, requests=rest)), i, request.answer)
    if not isinstance(told.replicas[i].state, Stopped):
        yield f"{name}: answer twice", tell(told, i, request.answer)


def _started_again(world: World, i: int, replica: Replica) -> World:
    """A new process under the identity of the dead one; writes of that one may still arrive."""
    late = tuple(replace(r, abandoned=True) for r in replica.requests if r.answer is None)
    view = LockView(candidate=replica.state.view.candidate)
    return tell(_put(world, i, Replica(Standby(view=view), requests=late)), i, TimerFired())


# -- what must hold --------------------------------------------------------------------------


def check(world: World, *, exclusive: bool) -> None:
    """The invariants. exclusive: no leader was wrongly suspected, so leases exclude each other."""
    terms = [term for term, _ in world.granted]
    if terms != sorted(set(terms)):
        raise Violation(f"terms do not grow: {terms}")
    owners = dict(world.granted)
    if any(owners.get(term) != identity for term, identity in world.started):
        raise Violation(f"led without being granted the term: {world.started}")
    if len({term for term, _ in world.started}) != len(world.started):
        raise Violation(f"a term began twice: {world.started}")
    if world.store.term != NO_TERM:
        # The store accepts a fenced write of exactly this term.
        if world.store.term != terms[-1]:
            raise Violation("writes of an earlier term are accepted")
        if world.store.holder != owners[world.store.term]:
            raise Violation("the record and the term name different holders")
    leaders = [r for r in world.replicas if r.alive and leads(r.state, world.now)]
    if exclusive and len(leaders) > 1:
        raise Violation("two lead at once")
    for replica in world.replicas:
        state = replica.state
        if replica.leading is not isinstance(state, Leading):
            raise Violation("StartLeading or StopLeading was forgotten")
        if replica.asked_to_stop and isinstance(state, Standby | Acquiring | Leading):
            raise Violation("a candidate that was asked to stop goes on")
        if not isinstance(state, Stopped):
            next_timer(state)  # raises nothing: there is one in every other phase


def fingerprint(world: World) -> tuple[Hashable, ...]:
    """Equal for worlds that differ only in when they began and in how their revisions count.

    With it the worlds are finite even without a limit of ticks: times count from now and do not
    matter once they are long past, revisions and terms are ranks, transitions count from the
    store's, and the history (granted, started) has been checked when it was made.
    """
    numbers = {0}
    for value in _revisions(world):
        numbers.add(value)
    ranks = {number: rank for rank, number in enumerate(sorted(numbers))}
    print_ = _Print(world, ranks)
    return (
        world.faults,
        print_.snapshot(world.store),
        tuple(print_.replica(r) for r in world.replicas),
    )


def _revisions(world: World) -> Iterator[int]:
    snapshots = [world.store]
    for replica in world.replicas:
        state = replica.state
        yield _bar(state)
        if isinstance(state, Leading | Releasing):
            yield from (state.tenure.term, state.tenure.record_revision)
        if isinstance(state, Acquiring):
            yield state.seen
        if isinstance(state, Standby):
            yield state.doubted
        if state.view.followed:
            yield state.view.followed[1]
        snapshots += [s for s in (state.view.snapshot, replica.reading) if isinstance(s, Snapshot)]
        for request in replica.requests:
            yield request.effect.expected_revision
            if not isinstance(request.effect, TryAcquire):
                yield request.effect.term
            if isinstance(request.answer, Written):
                yield request.answer.revision
    for snapshot in snapshots:
        yield from (snapshot.revision, snapshot.record_revision, snapshot.term)


def _bar(state: State) -> int:
    """claims_after as far as it still matters: snapshots only get newer."""
    known = state.view.snapshot.revision if state.view.snapshot else 0
    bar = state.claims_after if isinstance(state, Standby) else NO_REVISION
    return bar if bar >= known else 0


class _Print:
    """Fingerprints of the parts of a world."""

    def __init__(self, world: World, ranks: dict[int, int]) -> None:
        self._now = world.now
        self._ranks = ranks
        record = world.store.record
        self._transitions = record.leader_transitions if record else 0

    def snapshot(self, s: Snapshot | bool | None) -> Hashable:
        if not isinstance(s, Snapshot):
            return s
        ranks = self._ranks
        record = self.record(s.record)
        return (ranks[s.revision], record, ranks[s.record_revision], ranks[s.term], s.live_holder)

    def record(self, record: LeaderElectionRecord | None) -> Hashable:
        return record and (
            record.holder_identity,
            record.leader_transitions - self._transitions,
            record.preferred_holder,
        )

    def since(self, time: float) -> float:
        return max(time - self._now, -SETTINGS.lease_duration - 1)

    def until(self, time: float) -> float:
        return max(time - self._now, 0)

    def request(self, request: Request, attempt: int) -> Hashable:
        effect, answer = request.effect, request.answer
        return (
            type(effect),
            self._ranks[effect.expected_revision],
            0 if isinstance(effect, TryAcquire) else self._ranks[effect.term],
            attempt == effect.attempt,
            self.record(effect.record),
            type(answer),
            self._ranks[answer.revision] if isinstance(answer, Written) else 0,
            request.abandoned,
        )

    def replica(self, r: Replica) -> Hashable:
        s, view = r.state, r.state.view
        requests = frozenset(self.request(q, view.attempt) for q in r.requests)
        if not r.alive or isinstance(s, Stopped):
            return (view.identity, r.alive, r.reachable, requests)
        return (
            view.identity,
            r.reachable,
            r.leading,
            requests,
            self.snapshot(r.reading),
            bool(r.reading and view.candidate.election_timeout) and self.since(r.asked_at),
            self.view(view),
            type(s),
            self.phase(s),
        )

    def view(self, view: LockView) -> Hashable:
        snapshot = view.snapshot
        return (
            self.snapshot(snapshot),
            view.transitions - self._transitions,
            view.announced,
            view.followed and (view.followed[0], self._ranks[view.followed[1]]),
            view.suspected != 0 and snapshot and view.suspected == snapshot.record_revision,
            view.wary_for and max(view.wary_until - self._now, -CALM - 1),
            view.wary_for,
            view.cut_off,
        )

    def phase(self, s: State) -> Hashable:
        match s:
            case Standby():
                observed = self.since(s.view.observed_at)
                race = s.race_at is not None and self.until(s.race_at)
                times = (self.until(s.not_before), self.until(s.poll_at), race)
                return (observed, self._ranks[_bar(s)], times, self.silence(s))
            case Acquiring():
                observed = self.since(s.view.observed_at)
                return (observed, self.flight(s), self._ranks[s.seen], self.until(s.poll_at))
            case Leading():
                times = (self.since(s.renewed_at), self.until(s.not_before))
                return (self.tenure(s.tenure), self.flight(s), times)
            case Releasing():
                until = self.until(s.give_up_at)
                return (self.tenure(s.tenure), self.flight(s), until, s.successor, s.stays)
            case Withdrawing():
                return (self.flight(s), self.until(s.give_up_at))
        raise AssertionError(s)

    def silence(self, s: Standby) -> Hashable:
        if not s.view.candidate.election_timeout:
            return None
        probed = None if s.probed_at is None else self.since(s.probed_at)
        return (probed, self.since(s.late_at), self._ranks[s.doubted])

    def flight(self, s: State) -> Hashable:
        sent = in_flight(s)
        return sent and (
            type(sent.write),
            s.view.attempt - sent.write.attempt,
            self.since(sent.sent_at),
        )

    def tenure(self, tenure: Tenure) -> Hashable:
        ranks = self._ranks
        return (ranks[tenure.term], ranks[tenure.record_revision], self.record(tenure.record))


def leads_in_the_end(world: World, *, within: int) -> bool:
    """Left in peace for so many ticks, somebody leads, and by the store's word."""
    for _ in range(within):
        world = settle(world)
        for replica in world.replicas:
            state = replica.state
            if not replica.alive or not isinstance(state, Leading) or not leads(state, world.now):
                continue
            if state.tenure.term == world.store.term != NO_TERM:
                return True
        world = replace(world, now=world.now + 1)
    return False


def settle(world: World) -> World:
    """Everything that can happen without faults and without time passing happens."""
    for _ in range(200):
        following = next(actions(world, ticks=0, faults=False), None)
        if following is None:
            return world
        world = following[1]
    raise Violation("the candidates never come to rest")


def a_replica_could_lead(world: World) -> bool:
    """There is a candidate left that runs and was not asked to stop."""
    return any(
        r.alive and not isinstance(r.state, Withdrawing | Releasing | Stopped)
        for r in world.replicas
    )
