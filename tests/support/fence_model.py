"""The election's model together with the fence: bindings on their way through a slow API server.

A node has room for one pod. A leader binds a pod to it when, as far as its informer knows, the room
is free; the binding reaches the store at any time later, also after its writer has died or has been
deposed. The informers are slow, too: each catches up when it likes.

What must hold is that the node never gets two pods. Three things see to it: the store compares the
binding's term, a leader decides only once its informer has seen the revision of its term, and it
decides on its own room once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from podsched.lib.ids import Revision, Term
from podsched.term.election.record import NO_TERM
from podsched.term.election.states import Leading
from support.election_model import Violation, World, actions, fingerprint


@dataclass(frozen=True, slots=True)
class Informer:
    """What a replica knows: everything up to a revision, and the term in which it has decided."""

    revision: int = 0
    decided_in: Term = NO_TERM


@dataclass(frozen=True, slots=True)
class Rules:
    """What is being checked; a test that takes one away must find the violation."""

    compare_term: bool = True
    catch_up: bool = True


@dataclass(frozen=True, slots=True)
class FencedWorld:
    """The election, the informers, bindings on their way by term, and those that were written."""

    world: World
    informers: tuple[Informer, ...]
    on_their_way: tuple[Term, ...] = ()
    bound_at: tuple[int, ...] = ()


def fenced(world: World) -> FencedWorld:
    """An election in which no pod has been bound."""
    return FencedWorld(world, tuple(Informer() for _ in world.replicas))


def steps(state: FencedWorld, rules: Rules, *, ticks: int) -> Iterator[FencedWorld]:
    """All that may happen next."""
    for _, world in actions(state.world, ticks=ticks):
        yield replace(state, world=world)
    for number, replica in enumerate(state.world.replicas):
        informer = state.informers[number]
        if not replica.alive:
            continue
        if informer.revision < state.world.store.revision:
            seen = replace(informer, revision=int(state.world.store.revision))
            yield _with(state, number, seen)
        if isinstance(replica.state, Leading):
            term = replica.state.tenure.term
            caught_up = informer.revision >= term or not rules.catch_up
            free = not any(revision <= informer.revision for revision in state.bound_at)
            if caught_up and free and informer.decided_in != term:
                decided = _with(state, number, replace(informer, decided_in=term))
                yield replace(decided, on_their_way=(*state.on_their_way, term))
    for number, term in enumerate(state.on_their_way):
        rest = (*state.on_their_way[:number], *state.on_their_way[number + 1 :])
        arrived = replace(state, on_their_way=rest)
        if state.world.store.term == term or not rules.compare_term:
            arrived = _written(arrived)
        yield arrived


def _with(state: FencedWorld, number: int, informer: Informer) -> FencedWorld:
    informers = (*state.informers[:number], informer, *state.informers[number + 1 :])
    return replace(state, informers=informers)


def _written(state: FencedWorld) -> FencedWorld:
    store = state.world.store
    revision = Revision(store.revision + 1)
    world = replace(state.world, store=replace(store, revision=revision))
    return replace(state, world=world, bound_at=(*state.bound_at, int(revision)))


def _mark(state: FencedWorld) -> Hashable:
    ways = []
    for replica, informer in zip(state.world.replicas, state.informers, strict=True):
        term = replica.state.tenure.term if isinstance(replica.state, Leading) else NO_TERM
        known = sum(revision <= informer.revision for revision in state.bound_at)
        newest = informer.revision == state.world.store.revision
        ways.append((known, newest, informer.revision >= term, informer.decided_in == term))
    late = sorted(term == state.world.store.term for term in state.on_their_way)
    return (fingerprint(state.world), tuple(ways), tuple(late), len(state.bound_at))


def explore_fenced(start: FencedWorld, rules: Rules, *, ticks: int, limit: int) -> tuple[int, bool]:
    """Visit what can follow, breadth first; return the number of states, and whether that was all.

    Raises Violation when the node gets a second pod.
    """
    seen, todo = {_mark(start)}, deque([start])
    while todo and len(seen) < limit:
        for following in steps(todo.popleft(), rules, ticks=ticks):
            mark = _mark(following)
            if mark in seen:
                continue
            if len(following.bound_at) > 1:
                raise Violation("a node got more pods than it has room for")
            seen.add(mark)
            todo.append(following)
    return len(seen), not todo
