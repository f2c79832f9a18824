"""A model of candidates, a store and everything that may go wrong between them.

A `World` is a value; `actions(world)` lists all that may happen next, each with the world that it
leads to. Delays and pauses need no action of their own: nothing has to happen soon. Timers, answers
and reads may come as late as they like while `tick` lets time pass. What is limited is the number
of ticks and of faults.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.election.events import (
    Candidate,
    Effect,
    Event,
    Observed,
    Phase,
    ReadRecord,
    Refused,
    Release,
    Renew,
    Started,
    StartLeading,
    State,
    StopLeading,
    StopRequested,
    StreamBroken,
    TimerFired,
    TryAcquire,
    Unanswered,
    Written,
)
from podsched.election.record import NO_TERM, LeaderElectionRecord, Snapshot
from podsched.election.step import next_timer, step
from podsched.lib.ids import Revision, Term

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
    """A candidate's process: its state, its writes, and its read (asked for, or answered)."""

    state: State
    alive: bool = True
    leading: bool = False
    requests: tuple[Request, ...] = ()
    reading: bool | Snapshot = False


@dataclass(frozen=True, slots=True)
class World:
    """Everything. granted: all terms that the store ever granted, and to whom."""

    replicas: tuple[Replica, ...]
    store: Snapshot
    now: int = 0
    faults: int = 0
    granted: tuple[tuple[Term, str], ...] = ()
    started: tuple[tuple[Term, str], ...] = ()


def new_world(count: int, faults: int) -> World:
    """Candidates a, b, ... that have just started."""
    replicas = []
    world = World((), Snapshot(revision=Revision(1)), faults=faults)
    for i in range(count):
        candidate = Candidate(
            identity="abc"[i], settings=SETTINGS, address=f"{'abc'[i]}:1", liveness_ttl=2
        )
        replicas.append(Replica(State(candidate=candidate)))
    world = replace(world, replicas=tuple(replicas))
    for i in range(count):
        world = tell(world, i, Started())
    return world


def tell(world: World, i: int, event: Event) -> World:
    """Give one candidate an event and carry its effects out."""
    replica = world.replicas[i]
    state, effects = step(replica.state, event, world.now)
    replica = replace(replica, state=state)
    started = world.started
    for effect in effects:
        if isinstance(effect, StartLeading):
            started = (*started, (effect.term, state.identity))
        replica = _perform(replica, effect)
    replica = replace(replica, requests=_expected(replica))
    return replace(_put(world, i, replica), started=started)


def _expected(replica: Replica) -> tuple[Request, ...]:
    """Nobody waits for the answers to former attempts; such writes may still arrive."""
    current = replica.state.in_flight.attempt if replica.state.in_flight else 0
    return tuple(
        r if r.effect.attempt == current else replace(r, abandoned=True)
        for r in replica.requests
        if r.effect.attempt == current or r.answer is None
    )


def _perform(replica: Replica, effect: Effect) -> Replica:
    match effect:
        case ReadRecord():
            return replace(replica, reading=replica.reading or True)
        case TryAcquire() | Renew() | Release():
            return replace(replica, requests=(*replica.requests, Request(effect)))
        case StartLeading() | StopLeading():
            starts = isinstance(effect, StartLeading)
            if replica.leading is starts:
                raise Violation(f"{effect} of {replica.state.identity} twice in a row")
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
        yield from _requests(world, i, replica)
        if replica.alive:
            yield from _doings(world, i, replica)
        if faults and world.faults:
            spent = replace(world, faults=world.faults - 1)
            yield from _faults(spent, i, replica, suspicion)
    # No more than two writes of a candidate are on their way, one of them given up.
    if world.now < ticks and all(len(r.requests) < 2 for r in world.replicas):
        yield "tick", replace(world, now=world.now + 1)


def _requests(world: World, i: int, replica: Replica) -> Iterator[tuple[str, World]]:
    name = replica.state.identity
    for request in replica.requests:
        if request.answer is None:
            yield f"{name}: {type(request.effect).__name__} arrives", apply(world, i, request)
        elif replica.alive:
            rest = tuple(r for r in replica.requests if r is not request)
            delivered = _put(world, i, replace(replica, requests=rest))
            yield f"{name}: answer", tell(delivered, i, request.answer)


def _doings(world: World, i: int, replica: Replica) -> Iterator[tuple[str, World]]:
    name, state = replica.state.identity, replica.state
    if state.phase is Phase.STOPPED:
        return
    if next_timer(state) <= world.now and len(replica.requests) < 2:
        yield f"{name}: timer", tell(world, i, TimerFired())
    if isinstance(replica.reading, Snapshot):
        done = _put(world, i, replace(replica, reading=False))
        yield f"{name}: observes", tell(done, i, Observed(replica.reading))
    elif replica.reading:
        yield f"{name}: reads", _put(world, i, replace(replica, reading=world.store))
    elif state.snapshot is None or state.snapshot.revision < world.store.revision:
        # A watch is a reason to read; that the read begins at once is one of its possible delays.
        yield f"{name}: watch, reads", _put(world, i, replace(replica, reading=world.store))


def _faults(world: World, i: int, replica: Replica, suspicion: bool) -> Iterator[tuple[str, World]]:
    name, state = replica.state.identity, replica.state
    holds = world.store.live_holder == name
    if holds and (suspicion or not replica.alive):
        store = replace(world.store, revision=Revision(world.store.revision + 1), live_holder="")
        yield f"{name}: liveness key expires", replace(world, store=store)
    if not replica.alive or state.phase is Phase.STOPPED:
        return
    for request in replica.requests:
        if not request.abandoned:
            yield from _losses(world, i, replica, request)
    yield f"{name}: dies", _put(world, i, replace(replica, alive=False, reading=False))
    yield f"{name}: is asked to stop", tell(world, i, StopRequested())
    if state.followed and suspicion:
        broken = StreamBroken(*state.followed, confirmed=True)
        yield f"{name}: stream breaks", tell(world, i, broken)


def _losses(
    world: World, i: int, replica: Replica, request: Request
) -> Iterator[tuple[str, World]]:
    rest = tuple(r for r in replica.requests if r is not request)
    unanswered = Unanswered(request.effect.attempt)
    lost = _put(world, i, replace(replica, requests=rest))
    yield f"{replica.state.identity}: write or answer lost", tell(lost, i, unanswered)
    if request.answer is None:
        late = _put(world, i, replace(replica, requests=(*rest, replace(request, abandoned=True))))
        yield f"{replica.state.identity}: write delayed", tell(late, i, unanswered)


# -- what must hold --------------------------------------------------------------------------


def check(world: World, *, exclusive: bool) -> None:
    """The invariants. exclusive: nobody was wrongly suspected, so leases exclude each other."""
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
    leaders = [r for r in world.replicas if r.alive and r.state.leads(world.now)]
    if exclusive and len(leaders) > 1:
        raise Violation("two lead at once")
    for replica in world.replicas:
        state = replica.state
        if replica.leading is not (state.phase is Phase.LEADING):
            raise Violation("StartLeading or StopLeading was forgotten")
        if state.phase is not Phase.STOPPED:
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
        yield from (_bar(state), state.term, state.held_revision)
        if state.followed:
            yield state.followed[1]
        if state.in_flight:
            yield state.in_flight.seen
        snapshots += [s for s in (state.snapshot, replica.reading) if isinstance(s, Snapshot)]
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
    known = state.snapshot.revision if state.snapshot else 0
    return state.claims_after if state.claims_after >= known else 0


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
        return record and (record.holder_identity, record.leader_transitions - self._transitions)

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
        s = r.state
        requests = frozenset(self.request(q, s.attempt) for q in r.requests)
        if not r.alive or s.phase is Phase.STOPPED:
            return (s.identity, requests)
        flight = s.in_flight and (
            s.in_flight.kind,
            s.attempt - s.in_flight.attempt,
            self.since(s.in_flight.sent_at),
            self._ranks[s.in_flight.seen],
        )
        waiting = s.phase in (Phase.STANDBY, Phase.ACQUIRING)
        return (
            s.identity,
            s.phase,
            r.leading,
            requests,
            self.snapshot(r.reading),
            self.snapshot(s.snapshot),
            flight,
            s.transitions - self._transitions,
            s.announced,
            s.followed and (s.followed[0], self._ranks[s.followed[1]]),
            s.suspected != 0 and s.snapshot and s.suspected == s.snapshot.record_revision,
            self._ranks[_bar(s)],
            self.until(s.not_before),
            self.since(s.observed_at) if waiting else 0,
            self.until(s.poll_at) if waiting else 0,
            s.race_at is not None and self.until(s.race_at),
            waiting or (self._ranks[s.term], self._ranks[s.held_revision], self.record(s.held)),
            waiting or self.since(s.renewed_at),
            s.phase is Phase.RELEASING and self.until(s.give_up_at),
        )


def leads_in_the_end(world: World, *, within: int) -> bool:
    """Left in peace for so many ticks, somebody leads, and by the store's word."""
    for _ in range(within):
        world = settle(world)
        for replica in world.replicas:
            leads = replica.alive and replica.state.leads(world.now)
            if leads and replica.state.term == world.store.term != NO_TERM:
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


def somebody_could_lead(world: World) -> bool:
    """There is a candidate left that runs and was not asked to stop."""
    return any(
        r.alive and r.state.phase not in (Phase.STOPPED, Phase.RELEASING) for r in world.replicas
    )
