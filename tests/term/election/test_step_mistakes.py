"""The model finds mistakes: each is planted, and the exploration meets what it breaks.

The same explorations without a mistake find nothing, and print how many states they have seen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from podsched.term.election import holding, step
from podsched.term.election.events import Event, Refused, TimerFired, Unanswered, Written
from podsched.term.election.states import Leading, Standby, State, Transition, in_flight
from support.election_model import (
    Violation,
    World,
    actions,
    check,
    fingerprint,
    new_world,
    settle,
    tell,
)
from support.fence_model import Informer, Rules, explore_fenced, fenced

LIMIT = 6_000


def leader_and_standby(faults: int, election_timeout: float = 0.0) -> World:
    settled = settle(new_world(2, faults=0, election_timeout=election_timeout))
    return replace(settled, faults=faults)


@pytest.mark.parametrize("election_timeout", [0.0, 1.0], ids=["leases", "early"])
def test_a_node_never_gets_two_pods_however_late_a_binding_arrives(
    capsys: pytest.CaptureFixture[str], election_timeout: float
) -> None:
    """A takeover at any moment, with bindings of both leaders on their way."""
    world = fenced(leader_and_standby(1, election_timeout))
    states, complete = explore_fenced(world, Rules(), ticks=int(world.world.now), limit=LIMIT)
    with capsys.disabled():
        print(f"\nfence: {states} states{', which are all' if complete else ''}", end=" ")
    assert states >= 1000


@pytest.mark.parametrize(
    "rules",
    [Rules(compare_term=False), Rules(catch_up=False)],
    ids=["the term is not compared", "a leader does not wait for its informer"],
)
def test_a_mistake_in_the_fence_is_found(rules: Rules) -> None:
    world = fenced(leader_and_standby(faults=1))
    with pytest.raises(Violation, match="more pods than it has room for"):
        explore_fenced(world, rules, ticks=int(world.world.now), limit=LIMIT)


def two_lead_at_once(world: World, limit: int) -> int:
    """Explore delays alone; raise Violation where two lead. Return the number of states."""
    seen, todo = {fingerprint(world)}, deque([world])
    while todo and len(seen) < limit:
        for _, following in actions(todo.popleft(), ticks=100, suspicion=False, faults=False):
            mark = fingerprint(following)
            if mark not in seen:
                seen.add(mark)
                todo.append(following)
                check(following, exclusive=True)
    return len(seen)


def explore_all(world: World, limit: int) -> None:
    """Explore everything that may happen; raise Violation where an invariant does not hold."""
    seen, todo = {fingerprint(world)}, deque([world])
    while todo and len(seen) < limit:
        for _, following in actions(todo.popleft(), ticks=100):
            mark = fingerprint(following)
            if mark not in seen:
                seen.add(mark)
                todo.append(following)
                check(following, exclusive=False)


def renewing() -> World:
    """The leader's renewal is on its way."""
    world = leader_and_standby(faults=0)
    leader = next(n for n, r in enumerate(world.replicas) if isinstance(r.state, Leading))
    return tell(replace(world, now=world.now + 1), leader, TimerFired())


def test_a_lease_that_counts_from_the_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal whose answer is late: the others count from when it was written."""
    right = holding._on_renewed

    def wrong(state: Leading, event: Written, transition: Transition) -> Leading | Standby:
        after = right(state, event, transition)
        return replace(after, renewed_at=transition.now) if isinstance(after, Leading) else after

    monkeypatch.setattr(holding, "_on_renewed", wrong)
    with pytest.raises(Violation, match="two lead at once"):
        two_lead_at_once(renewing(), 20_000)


def test_an_answer_that_is_taken_for_that_to_another_write_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The network repeats an answer while the next write is on its way."""
    right = step._is_outdated

    def wrong(state: State, event: Event) -> bool:
        if isinstance(event, Written | Refused | Unanswered):
            return in_flight(state) is None
        return right(state, event)

    monkeypatch.setattr(step, "_is_outdated", wrong)
    world = replace(settle(new_world(1, faults=0)), faults=1)
    with pytest.raises(Violation, match="led without being granted the term"):
        explore_all(world, LIMIT)


def test_early_takeovers_without_the_fence_are_found() -> None:
    """A leader that is only slow is suspected while its binding is on its way."""
    world = leader_and_standby(0, election_timeout=1.0)
    leader, other = sorted((0, 1), key=lambda n: not isinstance(world.replicas[n].state, Leading))
    silent = tell(replace(world, now=world.now + 1), other, TimerFired())
    start, state = fenced(silent), silent.replicas[leader].state
    assert isinstance(state, Leading)
    informers = list(start.informers)
    informers[leader] = Informer(int(silent.store.revision), decided_in=state.tenure.term)
    start = replace(start, informers=tuple(informers), on_their_way=(state.tenure.term,))
    with pytest.raises(Violation, match="more pods than it has room for"):
        explore_fenced(start, Rules(compare_term=False), ticks=int(silent.now), limit=LIMIT)
    states, _ = explore_fenced(start, Rules(), ticks=int(silent.now), limit=LIMIT)
    assert states >= LIMIT
