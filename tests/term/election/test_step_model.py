"""The step function against all that can happen in a model of candidates and a store."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.election_model import (
    World,
    a_replica_could_lead,
    actions,
    check,
    fingerprint,
    leads_in_the_end,
    new_world,
    settle,
)
from support.examples import examples, share

#: Ticks within which a replica leads again: a lease, and the waits between two tries.
PEACE = 12
FOREVER = 1_000_000


def explore(world: World, *, suspicion: bool, limit: int, peace: bool) -> tuple[int, bool]:
    """Visit the worlds that can follow, breadth first; their number, and whether that was all."""
    seen = {fingerprint(world)}
    todo = deque([world])
    while todo and len(seen) < limit:
        for _, following in actions(todo.popleft(), ticks=FOREVER, suspicion=suspicion):
            mark = fingerprint(following)
            if mark not in seen:
                seen.add(mark)
                todo.append(following)
                check(following, exclusive=not suspicion)
                if peace and a_replica_could_lead(following):
                    assert leads_in_the_end(following, within=PEACE), "no replica leads in the end"
    return len(seen), not todo


def test_one_candidate_keeps_the_invariants_in_every_reachable_state() -> None:
    """Delays, pauses and late answers without limit; the exploration is complete."""
    states, complete = explore(new_world(1, faults=0), suspicion=True, limit=10_000, peace=True)
    assert complete
    assert states > 3_500


@pytest.mark.parametrize("suspicion", [True, False], ids=["suspicion", "leases-alone"])
def test_two_candidates_keep_the_invariants_however_their_steps_interleave(
    suspicion: bool,
) -> None:
    """With one fault: a lost answer, a write that arrives late, a death, a wrong suspicion."""
    states, _ = explore(
        new_world(2, faults=1), suspicion=suspicion, limit=share(12_000), peace=True
    )
    assert states >= share(12_000)


def test_leases_alone_keep_two_candidates_from_leading_at_once() -> None:
    """From a settled leader on, without faults: nothing but delays and pauses of any length."""
    settled = settle(new_world(2, faults=0))
    states, _ = explore(settled, suspicion=False, limit=share(20_000), peace=False)
    assert states >= share(20_000)


@pytest.mark.parametrize("suspicion", [True, False], ids=["suspicion", "leases-alone"])
def test_three_candidates_keep_the_invariants_under_any_two_faults(
    suspicion: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a settled leader on: two partitions at once, a restart, writes that come twice."""
    settled = replace(settle(new_world(3, faults=0)), faults=2)
    states, _ = explore(settled, suspicion=suspicion, limit=share(40_000), peace=False)
    with capsys.disabled():
        print(f"\nelection: {states} states of three candidates and two faults", end=" ")
    assert states >= share(40_000)


@examples(400)
@given(
    count=st.integers(2, 3),
    suspicion=st.booleans(),
    choices=st.lists(st.integers(0, 10_000), min_size=50, max_size=400),
)
def test_three_candidates_keep_the_invariants_on_long_random_walks(
    count: int, suspicion: bool, choices: list[int]
) -> None:
    """Walks reach the depth that the breadth-first search does not; at the end, peace."""
    world = new_world(count, faults=8)
    for choice in choices:
        following = list(actions(world, ticks=FOREVER, suspicion=suspicion))
        # Most of what may happen at any moment are faults; half of the choices leave them out.
        if choice % 2:
            calm = list(actions(world, ticks=FOREVER, faults=False))
            following = calm or following
        if not following:
            break
        world = following[choice // 2 % len(following)][1]
        check(world, exclusive=not suspicion)
    if a_replica_could_lead(world):
        assert leads_in_the_end(world, within=PEACE)


def test_candidates_that_take_over_from_silent_leaders_keep_the_invariants() -> None:
    """From the start of two and from a settled leader of three, with any delays and two faults."""
    early = new_world(2, faults=1, election_timeout=1.0)
    settled = replace(settle(new_world(3, faults=0, election_timeout=1.0)), faults=2)
    for world, peace in ((early, True), (settled, False)):
        states, _ = explore(world, suspicion=True, limit=share(12_000), peace=peace)
        assert states >= share(12_000)
