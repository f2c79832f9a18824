"""Decide what a replica does as leadership begins and ends: ``step(state, event)``, pure.

               StartedLeading            caught up, whole, not paused
    +---------+ ----------> +-------------+ ----------------------> +------------+
--> | STANDBY |             | CATCHING UP |                         | SCHEDULING |
    +---------+ <---------- +-------------+ <---------------------- +------------+
       ^  ^    StoppedLeading            ^  WorkEnded: told to          |  |
       |  |                              |  finish, or a bug was        |  |
       |  |                              |  met on a pod                |  | StoppedLeading,
       |  '-- WorkEnded: fence lost -----|------------------------------'  | StartedLeading,
       |                                 |                                 | StopRequested
       |                                 | if it leads again               v
       |                                 '------------------------- +--------+
       '------------------------ WorkEnded ------------------------ | ENDING |
                                                                    +--------+
    STANDBY, CATCHING UP: StopRequested                                | WorkEnded, if it
    SCHEDULING: WorkEnded by any other bug,                            v is to stop
        or because the process ends                                 +---------+
    --------------------------------------------------------------> | STOPPED |
                                                                    +---------+

The *work* of a term is its scheduling loop: the tasks that decide about pods and write. The
scheduling state is kept in standby, too, so that a new leader need not load it. It is built anew
when work ends or is cancelled, because its assumptions will never be confirmed, and when a bug has
left it half changed.

| phase       | event          | condition           | next, effects                              |
| ----------- | -------------- | ------------------- | ------------------------------------------ |
| CATCHING UP | any            | caught up, state whole, not paused | SCHEDULING: StartWork       |
| SCHEDULING  | Paused, Reconfigured |               | FinishWork                                 |
| SCHEDULING  | StateBroken    |                     | FailWork                                   |
| SCHEDULING  | StartedLeading, StoppedLeading |     | ENDING: CancelWork, BuildState             |
| SCHEDULING  | StopRequested  |                     | ENDING: CancelWork                         |
| SCHEDULING  | WorkEnded      | told to finish      | CATCHING UP: BuildState, CatchUp           |
| SCHEDULING  | WorkEnded      | a bug met on a pod  | the same, after NoteFault                  |
| SCHEDULING  | WorkEnded      | the fence is lost   | STANDBY: TellFenceLost, BuildState, StandBy |
| SCHEDULING, ENDING | WorkEnded | by any other bug  | STOPPED: EndProcess, Halt                  |
| SCHEDULING  | WorkEnded      | cancelled by others | STOPPED: Halt                              |
| ENDING      | WorkEnded      | in any other way    | what was asked for last                    |
| ENDING      | Reconfigured   |                     | BuildState                                 |
| SCHEDULING, ENDING | WorkEnded | a configuration is awaited | TellReconfigured                  |
| STANDBY, CATCHING UP | StartedLeading |            | CATCHING UP: CatchUp                       |
| STANDBY, CATCHING UP | StoppedLeading |            | STANDBY: StandBy                           |
| STANDBY, CATCHING UP | StopRequested |             | STOPPED: Halt                              |
| STANDBY, CATCHING UP | Reconfigured |              | BuildState, TellReconfigured               |
| STANDBY, CATCHING UP, ENDING | StateBroken |       | NoteFault, BuildState                      |
| STOPPED, ENDING to stop | any |                    | as above, but nothing is built or begun    |

Invariants (checked by tests/term/test_term_step_model.py on every reachable state of a model):
 1. At most one work runs; its end is awaited before another one begins.
 2. A late end of earlier work changes nothing, nor does what was asked for another attempt.
 3. No work begins on a state that was not built since the work before it, or is not whole, or does
    not have the last configuration.
 4. Work decides nothing before the informer has seen all bindings that were sent before it: else a
    node might seem to have room that is taken.
 5. No work begins in a term that is over, during a pause, or after a stop.
 6. After a fault the work starts anew, or the term ends, or the process ends.
 7. A caller that waits for a new configuration is told, but not before work with the old one has
    ended.
 8. If no more events come, the work of a leader runs in the end, and that of any other does not.

There is no clock and no I/O. The caller carries out the effects, and decides how long to pause
after a fault.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass, replace

from podsched.serve.client.errors import FenceLost
from podsched.term.faulty_pods import PodFault

# -- states ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standby:
    """Does not lead."""


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """Leads, and waits until the informer has seen all earlier writes.

    attempt: the number of the work that is to begin.
    written: the revision up to which leaders may have written; caught_up: the informer has seen it.
    """

    term: int
    attempt: int
    written: int
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Leads, and its work runs."""

    term: int
    attempt: int
    written: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Begins no further work."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Awaits the end of work that was cancelled; ``then`` follows."""

    attempt: int
    then: Standby | CatchingUp | Stopped


Phase = Standby | CatchingUp | Scheduling | Ending | Stopped


@dataclass(frozen=True, slots=True)
class State:
    """What is known in every phase.

    attempts, builds: how many there were of work and of the scheduling state.
    whole: whether the last build has all that the informer knows.
    awaited: whether a caller waits for a new configuration to take effect.
    """

    phase: Phase = Standby()
    attempts: int = 0
    builds: int = 0
    whole: bool = True
    paused: bool = False
    awaited: bool = False


# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartedLeading:
    """The lock is held, with this term."""

    term: int


@dataclass(frozen=True, slots=True)
class StoppedLeading:
    """The lock is lost, handed over or released."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The process is to end."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A leader has to stop deciding, or may go on."""

    paused: bool


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The configuration has changed; a caller waits until the new one is in effect."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The informer has seen the revision of CatchUp."""

    attempt: int


@dataclass(frozen=True, slots=True)
class StateBuilt:
    """The scheduling state of this build has all that the informer knows."""

    build: int


@dataclass(frozen=True, slots=True)
class StateBroken:
    """A bug has left the scheduling state of this build half changed."""

    build: int
    fault: PodFault


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """All tasks of the work have ended.

    fault: the exception that ended them; None where they were told to finish.
    bound_until: a revision; a reader that has seen it knows all bindings that were sent.
    """

    attempt: int
    fault: BaseException | None = None
    bound_until: int = 0


Event = (
    StartedLeading
    | StoppedLeading
    | StopRequested
    | Paused
    | Reconfigured
    | CaughtUp
    | StateBuilt
    | StateBroken
    | WorkEnded
)


# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StandBy:
    """Stop catching up."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Report CaughtUp once the informer has seen a revision; after a pause if a fault was met."""

    attempt: int
    revision: int
    after_fault: bool = False


@dataclass(frozen=True, slots=True)
class StartWork:
    """Begin to decide and to write, in the present term."""

    attempt: int


@dataclass(frozen=True, slots=True)
class FinishWork:
    """Stop deciding; end the work once the outcome of every binding is known."""


@dataclass(frozen=True, slots=True)
class FailWork:
    """End the work with a fault that was met outside of it."""

    fault: PodFault


@dataclass(frozen=True, slots=True)
class CancelWork:
    """End the work at once; it gets no further changes of the scheduling state."""


WorkEffect = StartWork | FinishWork | FailWork | CancelWork


@dataclass(frozen=True, slots=True)
class BuildState:
    """Replace the scheduling state, and any build under way; ``again``: pause before, it failed."""

    build: int
    again: bool


@dataclass(frozen=True, slots=True)
class NoteFault:
    """Record the pods on which a bug was met, and the consequence."""

    fault: PodFault
    consequence: str


@dataclass(frozen=True, slots=True)
class TellFenceLost:
    """Tell the elector that the term is over, so that it does not wait for its next renewal."""


@dataclass(frozen=True, slots=True)
class TellReconfigured:
    """Tell the caller that waits: no work runs with the old configuration any more."""


@dataclass(frozen=True, slots=True)
class EndProcess:
    """Fail with a bug that is not known to concern a pod."""

    fault: BaseException


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop catching up and building; nothing follows."""


Effect = (
    WorkEffect
    | StandBy
    | CatchUp
    | BuildState
    | NoteFault
    | TellFenceLost
    | TellReconfigured
    | EndProcess
    | Halt
)


# -- rules -----------------------------------------------------------------------------------


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """Return the next state, and what to do, in this order."""
    if _is_outdated(state, event):
        return state, ()
    effects: list[Effect] = []
    # ``_begin`` follows every event, because several may remove the last obstacle: the informer has
    # caught up, the state is whole, the pause is over.
    state = _begin(_on_event(state, event, effects), effects)
    return state, tuple(effects)


def _is_outdated(state: State, event: Event) -> bool:
    """Whether an event belongs to an earlier attempt or build."""
    match event, state.phase:
        case CaughtUp(attempt), CatchingUp() as phase:
            return attempt != phase.attempt
        case WorkEnded(attempt), Scheduling() | Ending() as phase:
            return attempt != phase.attempt
        case StateBuilt(build) | StateBroken(build), _:
            return build != state.builds
    # In any other phase nothing is awaited, so these two are outdated.
    return isinstance(event, CaughtUp | WorkEnded)


def _is_to_stop(state: State) -> bool:
    phase = state.phase
    return isinstance(phase.then if isinstance(phase, Ending) else phase, Stopped)


def _on_event(state: State, event: Event, effects: list[Effect]) -> State:
    match event:
        case StartedLeading(term):
            attempt = state.attempts + 1
            state = replace(state, attempts=attempt)
            # In etcd a term is the revision of its acquisition, so all writes of earlier leaders
            # have lower revisions.
            return _leave(state, CatchingUp(term, attempt, written=term), effects)
        case StoppedLeading():
            return _leave(state, Standby(), effects)
        case StopRequested():
            return _leave(state, Stopped(), effects)
        case Paused(paused):
            return _on_paused(state, paused, effects)
        case Reconfigured():
            return _on_reconfigured(state, effects)
        case StateBroken(_, fault):
            return _on_broken(state, fault, effects)
        case StateBuilt():
            return replace(state, whole=True)
        case CaughtUp():
            assert isinstance(state.phase, CatchingUp)
            return replace(state, phase=replace(state.phase, caught_up=True))
        case WorkEnded():
            return _on_work_ended(state, event, effects)


def _begin(state: State, effects: list[Effect]) -> State:
    """Start the work of the term if nothing stands in its way."""
    phase = state.phase
    if not isinstance(phase, CatchingUp):
        return state
    if not phase.caught_up or not state.whole or state.paused:
        return state
    effects.append(StartWork(phase.attempt))
    return replace(state, phase=Scheduling(phase.term, phase.attempt, phase.written))


def _leave(state: State, then: Standby | CatchingUp | Stopped, effects: list[Effect]) -> State:
    """Go to another phase, by way of ENDING where work runs; nothing leads away from a stop."""
    match state.phase:
        # Even if the lock is acquired after the stop was requested.
        case _ if _is_to_stop(state):
            return state
        case Ending(attempt):
            # The last request counts: the work that ends may belong to a term long over.
            return replace(state, phase=Ending(attempt, then))
        case Scheduling(attempt=attempt):
            # Cancelled first, so that the work does not get the changes of the new state.
            effects.append(CancelWork())
            return _build(replace(state, phase=Ending(attempt, then)), effects)
    return _enter(state, then, effects)


def _enter(state: State, phase: Standby | CatchingUp | Stopped, effects: list[Effect]) -> State:
    match phase:
        case Standby():
            effects.append(StandBy())
        case CatchingUp():
            effects.append(CatchUp(phase.attempt, phase.written))
        case Stopped():
            effects.append(Halt())
    return replace(state, phase=phase)


def _on_paused(state: State, paused: bool, effects: list[Effect]) -> State:
    if paused and not state.paused and isinstance(state.phase, Scheduling):
        effects.append(FinishWork())
    return replace(state, paused=paused)


def _on_reconfigured(state: State, effects: list[Effect]) -> State:
    if isinstance(state.phase, Scheduling):
        # The state is built with the new configuration when the work has ended.
        effects.append(FinishWork())
        return replace(state, awaited=True)
    state = _build(state, effects)
    if isinstance(state.phase, Ending):
        # Work with the old configuration may still write.
        return replace(state, awaited=True)
    effects.append(TellReconfigured())
    return state


def _on_broken(state: State, fault: PodFault, effects: list[Effect]) -> State:
    if isinstance(state.phase, Scheduling):
        # The state is built anew when the work has ended (``_start_anew``).
        effects.append(FailWork(fault))
        return replace(state, whole=False)
    # ``again``: if even the last build did not become whole, the next may break at once, too, so
    # the caller pauses before it.
    effects.append(NoteFault(fault, "The state is built anew"))
    return _build(state, effects, again=not state.whole)


def _build(state: State, effects: list[Effect], *, again: bool = False) -> State:
    if _is_to_stop(state):
        return state
    effects.append(BuildState(state.builds + 1, again))
    return replace(state, builds=state.builds + 1, whole=False)


def _on_work_ended(state: State, event: WorkEnded, effects: list[Effect]) -> State:
    match state.phase, event.fault:
        # First, in every phase: a bug of unknown cause ends the process, even if the work was
        # going to end anyway.
        case _, fault if not isinstance(fault, PodFault | FenceLost | CancelledError | None):
            effects.append(EndProcess(fault))
            state = _enter(state, Stopped(), effects)
        # Work that was cancelled may end with any fault: its state has been replaced already.
        case Ending(_, then), _:
            state = _enter(state, then, effects)
        # If this module had asked for the end, the phase would be ENDING. So the process is ending.
        case Scheduling(), CancelledError():
            state = _enter(state, Stopped(), effects)
        case Scheduling(), FenceLost():
            effects.append(TellFenceLost())
            state = _enter(_build(state, effects), Standby(), effects)
        case Scheduling() as phase, fault:
            state = _start_anew(state, phase, event, effects)
    if state.awaited:
        effects.append(TellReconfigured())
    return replace(state, awaited=False)


def _start_anew(state: State, phase: Scheduling, event: WorkEnded, effects: list[Effect]) -> State:
    if isinstance(event.fault, PodFault):
        effects.append(NoteFault(event.fault, "The term starts over"))
    state = _build(state, effects)
    # The informer may not have seen the latest bindings of the work that ended (invariant 4).
    attempt, written = state.attempts + 1, max(phase.written, event.bound_until)
    effects.append(CatchUp(attempt, written, after_fault=event.fault is not None))
    return replace(state, attempts=attempt, phase=CatchingUp(phase.term, attempt, written))
