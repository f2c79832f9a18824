"""A model of a replica around ``term_step``: what it does, and everything that may happen to it.

A `World` is a value; `actions(world)` lists all that may happen next, each with the world that it
leads to. What was asked for (a build, catching up, the end of work) may take as long as it likes,
and the end of work is told a while after it. Nothing is limited: the number of each attempt, build,
revision and configuration counts only by its order, so that the worlds are finitely many.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from podsched.serve.client.errors import FenceLost
from podsched.term.faulty_pods import PodFault
from podsched.term.term_step import (
    BuildState,
    CancelWork,
    CatchingUp,
    CatchUp,
    CaughtUp,
    Effect,
    Ending,
    EndProcess,
    Event,
    FailWork,
    FinishWork,
    Halt,
    Paused,
    Reconfigured,
    Scheduling,
    StandBy,
    Standby,
    StartedLeading,
    StartWork,
    State,
    StateBroken,
    StateBuilt,
    Stopped,
    StoppedLeading,
    StopRequested,
    TellFenceLost,
    TellReconfigured,
    WorkEnded,
    step,
)

ON_A_POD = PodFault([])
FENCE_LOST = FenceLost("another replica leads")
A_BUG = ZeroDivisionError("a bug")
CANCELLED = CancelledError()
#: Steps after which whatever was begun has come to its end.
PEACE = 12


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work whose tasks run, or have ended without anybody having been told yet (``end``)."""

    attempt: int
    term: int
    config: int
    finishing: bool = False
    cancelled: bool = False
    failed: bool = False
    end: WorkEnded | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Everything.

    written, seen: revisions that leaders have written, and that the informer has seen.
    config, built_with: the last configuration, and that of the scheduling state.
    fresh: whether the scheduling state was built since it was last worked on, or broken.
    leads: the term of the lock while it is held, 0 otherwise.
    """

    state: State = field(default_factory=State)
    work: Work | None = None
    building: int | None = None
    catching_up: CatchUp | None = None
    written: int = 1
    seen: int = 1
    config: int = 1
    built_with: int = 1
    fresh: bool = True
    leads: int = 0
    stopping: bool = False
    waiting: bool = False


def tell(world: World, event: Event) -> World:
    """Give an event and carry its effects out."""
    before = world.state
    state, effects = step(before, event)
    world = replace(world, state=state)
    for effect in effects:
        world = _perform(world, effect)
    if isinstance(event, WorkEnded):
        _check_end(before, event, state, effects)
    return world


def _perform(world: World, effect: Effect) -> World:
    if world.stopping and isinstance(effect, StartWork | CatchUp | BuildState):
        raise Violation(f"after a stop: {effect}")
    match effect:
        case StartWork(attempt):
            _check_start(world)
            work = Work(attempt, world.leads, world.built_with)
            return replace(world, work=work, fresh=False)
        case FinishWork() | CancelWork() | FailWork():
            if world.work is None:
                raise Violation(f"no work runs: {effect}")
            return replace(world, work=_told(world.work, effect))
        case BuildState(build):
            if world.work is not None and not (world.work.cancelled or world.work.end):
                raise Violation("the state is taken from work that runs")
            return replace(world, building=build, built_with=world.config, fresh=True)
        case CatchUp():
            return replace(world, catching_up=effect)
        case StandBy():
            return replace(world, catching_up=None)
        case Halt():
            return replace(world, catching_up=None, building=None)
        case TellFenceLost():
            return replace(world, leads=0)
        case TellReconfigured():
            if world.work is not None and world.work.config != world.config:
                raise Violation("told of a configuration while work goes on as another says")
            return replace(world, waiting=False)
        case EndProcess():
            return replace(world, stopping=True)
    return world


def _told(work: Work, effect: FinishWork | CancelWork | FailWork) -> Work:
    match effect:
        case FinishWork():
            return replace(work, finishing=True)
        case CancelWork():
            return replace(work, cancelled=True)
        case FailWork():
            return replace(work, failed=True)


def _check_start(world: World) -> None:
    if world.work is not None:
        raise Violation("work begins before that before it has ended")
    if not world.leads:
        raise Violation("work begins in a term that is over")
    if world.state.paused:
        raise Violation("work begins during a pause")
    if not world.fresh or world.building is not None:
        raise Violation("work begins on a state that was not built anew")
    if world.built_with != world.config:
        raise Violation("work begins with an old configuration")
    if world.seen < world.written:
        raise Violation("work begins before what was bound is known")


def _check_end(before: State, event: WorkEnded, after: State, effects: tuple[Effect, ...]) -> None:
    """A fault has one consequence, and the one that its kind has."""
    if event.fault is None or event.fault is CANCELLED:
        return
    term = getattr(before.phase, "term", None)
    anew = isinstance(after.phase, CatchingUp | Scheduling) and after.phase.term == term
    ends = any(isinstance(effect, EndProcess) for effect in effects)
    over = not anew and not ends
    found = [name for name, holds in (("anew", anew), ("process", ends), ("term", over)) if holds]
    expected = {A_BUG: "process", FENCE_LOST: "term", ON_A_POD: "anew"}[event.fault]
    if expected == "anew" and isinstance(before.phase, Ending):
        expected = "term"  # which is over already
    if found != [expected]:
        raise Violation(f"{event.fault!r} leads to {found}, not to {expected}")


# -- what may happen -------------------------------------------------------------------------


def actions(world: World) -> Iterator[tuple[str, World]]:
    """All that may happen next."""
    yield from completions(world)
    work = world.work
    if work is not None and work.end is None:
        yield "meets a bug on a pod", _ends(world, work, ON_A_POD)
        yield "meets a bug", _ends(world, work, A_BUG)
        if work.term != world.leads:
            yield "has a write refused", _ends(world, work, FENCE_LOST)
        else:
            # Another replica has taken the lock, and the elector does not know yet.
            yield "is deposed", _ends(replace(world, written=world.written + 1), work, FENCE_LOST)
            if world.written == world.seen:
                yield "binds", replace(world, written=world.written + 1)
        yield "is cancelled with the process", _ends(world, work, CANCELLED)
    state = world.state
    if state.whole:
        broken = replace(world, fresh=False)
        yield "the state breaks", tell(broken, StateBroken(state.builds, ON_A_POD))
    if world.building is not None:
        failed = replace(world, building=None, fresh=False)
        yield "a build fails", tell(failed, StateBroken(world.building, ON_A_POD))
    yield "pauses or goes on", tell(world, Paused(not state.paused))
    other = replace(world, config=world.config + 1, waiting=True)
    yield "gets a configuration", tell(other, Reconfigured())
    won = replace(world, written=world.written + 1, leads=world.written + 1)
    yield "leads", tell(won, StartedLeading(won.leads))
    yield "is asked to stop", tell(replace(world, stopping=True, leads=0), StopRequested())
    yield "leads no more", tell(replace(world, leads=0), StoppedLeading())


def completions(world: World) -> Iterator[tuple[str, World]]:
    """What comes about by itself, of what was begun or asked for."""
    work = world.work
    if world.building is not None:
        yield "is built", tell(replace(world, building=None), StateBuilt(world.building))
    if (asked := world.catching_up) is not None:
        seen = replace(world, catching_up=None, seen=max(world.seen, asked.revision))
        yield "has caught up", tell(seen, CaughtUp(asked.attempt))
    if work is None:
        return
    if work.end is not None:
        stopping = world.stopping or (work.end.fault is CANCELLED and not work.cancelled)
        yield "the end is told", tell(replace(world, work=None, stopping=stopping), work.end)
        return
    if work.cancelled:
        yield "ends, cancelled", _ends(world, work, CANCELLED)
    if work.finishing:
        yield "finishes", _ends(world, work, None)
    if work.failed:
        yield "ends by the fault", _ends(world, work, ON_A_POD)


def _ends(world: World, work: Work, fault: BaseException | None) -> World:
    # What it has bound is known of; what a later leader has written is not.
    bound = world.written if work.term == world.leads else 0
    return replace(world, work=replace(work, end=WorkEnded(work.attempt, fault, bound)))


# -- what must hold --------------------------------------------------------------------------


def check(world: World) -> None:
    """The invariants of a world, beyond those that each effect is checked for."""
    state, work = world.state, world.work
    known = getattr(state.phase, "attempt", None)
    if work is None and isinstance(state.phase, Scheduling | Ending):
        raise Violation(f"{state.phase} without work")
    if work is not None and isinstance(state.phase, Scheduling) and work.attempt != known:
        raise Violation("work is taken for other work")
    if world.waiting and work is None:
        raise Violation("a wait for a configuration would never end")
    late: list[Event] = [StateBuilt(state.builds - 1), StateBroken(state.builds - 1, ON_A_POD)]
    for attempt in {state.attempts - 1, state.attempts, state.attempts + 1} - {known}:
        ends = (None, ON_A_POD, FENCE_LOST, A_BUG, CANCELLED)
        late += [CaughtUp(attempt), *(WorkEnded(attempt, end) for end in ends)]
    for event in late:
        if step(state, event) != (state, ()):
            raise Violation(f"what is late changes something: {event} in {state}")


def in_peace(world: World) -> World:
    """Return what comes when nothing more happens."""
    for _ in range(PEACE):
        following = next(completions(world), None)
        if following is None:
            return world
        world = following[1]
    raise Violation("it never comes to rest")


def check_peace(world: World) -> None:
    """Left in peace, a leader works unless it is paused, and no standby does."""
    world = in_peace(world)
    if world.state.paused:
        if world.work is not None:
            raise Violation("work goes on during a pause")
        world = in_peace(tell(world, Paused(False)))
    state = world.state
    if world.waiting:
        raise Violation("who waits for a configuration is never told")
    if world.stopping:
        if world.work or world.catching_up or world.building:
            raise Violation("something goes on after a stop")
        if not isinstance(state.phase, Stopped):
            raise Violation("a stop does not end it")
        return
    if not state.whole:
        raise Violation("the state is not built")
    if world.leads and world.work is None:
        raise Violation("a leader does nothing")
    if not world.leads and not isinstance(state.phase, Standby):
        raise Violation("it leads without the lock")


def fingerprint(world: World) -> Hashable:
    """Worlds with equal ones differ in nothing but how often things have happened before."""
    state, work, asked = world.state, world.work, world.catching_up
    phase = state.phase
    then = phase.then if isinstance(phase, Ending) else phase
    revisions = [world.written, world.seen, world.leads, getattr(then, "written", 0)]
    revisions += [getattr(then, "term", 0), getattr(phase, "written", 0)]
    revisions += [asked.revision if asked else 0, work.term if work else 0]
    revisions += [work.end.bound_until if work and work.end else 0]
    order = sorted({0, *revisions})
    return (
        type(phase),
        type(then),
        getattr(then, "caught_up", None),
        (state.whole, state.paused, state.awaited),
        tuple(order.index(revision) for revision in revisions),
        asked and (asked.after_fault, asked.attempt == getattr(phase, "attempt", None)),
        world.building == state.builds if world.building else None,
        work and (
            work.attempt == getattr(phase, "attempt", None),
            work.config == world.config,
            (work.finishing, work.cancelled, work.failed),
            work.end and repr(work.end.fault),
        ),
        (world.built_with == world.config, world.fresh, world.stopping, world.waiting),
    )  # fmt: skip


def explore(world: World, *, limit: int) -> tuple[int, bool]:
    """Check the worlds that can follow, breadth first; return how many, and if that was all."""
    seen, todo = {fingerprint(world)}, deque([world])
    while todo and len(seen) < limit:
        for _, following in actions(todo.popleft()):
            mark = fingerprint(following)
            if mark not in seen:
                seen.add(mark)
                todo.append(following)
                check(following)
                check_peace(following)
    return len(seen), not todo
