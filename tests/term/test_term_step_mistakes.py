"""The model finds mistakes: each is planted, and the exploration meets what it breaks.

The same exploration without a mistake finds nothing: ``test_term_step_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from podsched.term import term_step
from podsched.term.term_step import (
    CancelWork,
    CatchingUp,
    Ending,
    FinishWork,
    Scheduling,
    Standby,
    Stopped,
    TellReconfigured,
    WorkEnded,
)
from support.term_model import A_BUG, FENCE_LOST, ON_A_POD, Violation, World, explore

RIGHT: dict[str, Callable[..., Any]] = {
    name: getattr(term_step, name)
    for name in ("_begin", "_build", "_is_outdated", "_is_to_stop", "_leave", "_on_work_ended")
}


def begins_at_once(state: Any, then: Any, effects: Any) -> Any:
    """The end of the work is not awaited."""
    if isinstance(state.phase, Scheduling) and isinstance(then, CatchingUp):
        effects.append(CancelWork())
        state = replace(RIGHT["_build"](state, effects), phase=Standby())
    return RIGHT["_leave"](state, then, effects)


def takes_any_end(state: Any, event: Any) -> Any:
    """The end of earlier work is taken for that of the present one."""
    if isinstance(event, WorkEnded) and isinstance(state.phase, Scheduling | Ending):
        return False
    return RIGHT["_is_outdated"](state, event)


def takes_any_build(state: Any, event: Any) -> Any:
    """A build that was replaced meanwhile counts."""
    if isinstance(event, term_step.StateBuilt):
        return False
    return RIGHT["_is_outdated"](state, event)


def keeps_the_state(state: Any, effects: Any, *, again: bool = False) -> Any:
    return state


def goes_on_in_the_pause(state: Any, effects: Any) -> Any:
    begun = RIGHT["_begin"](replace(state, paused=False), effects)
    return replace(begun, paused=state.paused)


def begins_with_a_part(state: Any, effects: Any) -> Any:
    begun = RIGHT["_begin"](replace(state, whole=True), effects)
    return replace(begun, whole=state.whole)


def stays_with_the_term(state: Any, then: Any, effects: Any) -> Any:
    """A replica that is catching up does not hear that the term is over."""
    if isinstance(state.phase, CatchingUp) and isinstance(then, Standby):
        return state
    return RIGHT["_leave"](state, then, effects)


def forgets_what_was_bound(state: Any, event: Any, effects: Any) -> Any:
    return RIGHT["_on_work_ended"](state, replace(event, bound_until=0), effects)


def takes_it_for(other: BaseException | None, fault: BaseException) -> Callable[..., Any]:
    def wrong(state: Any, event: Any, effects: Any) -> Any:
        if event.fault is fault:
            event = replace(event, fault=other)
        return RIGHT["_on_work_ended"](state, event, effects)

    return wrong


def tells_at_once(state: Any, effects: Any) -> Any:
    if isinstance(state.phase, Scheduling):
        effects.append(FinishWork())
    else:
        state = RIGHT["_build"](state, effects)
    effects.append(TellReconfigured())
    return state


def ignores_the_pause(state: Any, paused: bool, effects: Any) -> Any:
    return replace(state, paused=paused)


def ignores_the_break(state: Any, fault: Any, effects: Any) -> Any:
    """The work is not told."""
    return replace(state, whole=False)


def only_ends(state: Any, then: Any, effects: Any) -> Any:
    """A stop ends the term, not the replica."""
    then = Standby() if isinstance(then, Stopped) else then
    return RIGHT["_leave"](state, then, effects)


@pytest.mark.parametrize(
    ("name", "wrong", "violated"),
    [
        ("_leave", begins_at_once, "begins before that before it has ended"),
        ("_is_outdated", takes_any_end, "what is late changes something"),
        ("_is_outdated", takes_any_build, "what is late changes something"),
        ("_build", keeps_the_state, "a state that was not built anew"),
        ("_begin", begins_with_a_part, "a state that was not built anew"),
        ("_begin", goes_on_in_the_pause, "begins during a pause"),
        ("_on_paused", ignores_the_pause, "goes on during a pause"),
        ("_leave", stays_with_the_term, "a term that is over"),
        ("_leave", only_ends, "a stop does not end it"),
        ("_is_to_stop", lambda state: False, "after a stop"),
        ("_on_work_ended", forgets_what_was_bound, "before what was bound is known"),
        ("_on_work_ended", takes_it_for(A_BUG, ON_A_POD), "leads to .'process'., not to anew"),
        ("_on_work_ended", takes_it_for(None, FENCE_LOST), "leads to .'anew'., not to term"),
        ("_on_work_ended", takes_it_for(FENCE_LOST, A_BUG), "leads to .'term'., not to process"),
        ("_on_work_ended", takes_it_for(None, A_BUG), "leads to .'anew'., not to process"),
        ("_on_reconfigured", tells_at_once, "goes on as another says"),
        ("_on_broken", ignores_the_break, "the state is not built"),
    ],
)  # fmt: skip
def test_a_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., Any], violated: str
) -> None:
    monkeypatch.setattr(term_step, name, wrong)
    with pytest.raises(Violation, match=violated):
        explore(World(), limit=20_000)
