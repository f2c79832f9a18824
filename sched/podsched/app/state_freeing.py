"""Free the memory of a scheduling state that was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from podsched.app.term_work import TermWork
from podsched.lib.event_loop import Turn
from podsched.lib.memory import collect_everything
from podsched.term.state import SchedulingState

#: Seconds within which the tasks of a term end after they were asked to.
_ENDING: Final = 1.0
#: Seconds between two looks whether a standby may collect garbage, and seconds after which it does
#: in any case: in its queue a pod that fits nowhere looks like one that is about to be decided.
_LOOK_EVERY, _LOOK_FOR = 1.0, 600.0


async def free(
    state: SchedulingState,
    work: TermWork | None,
    *,
    stands_by: Callable[[], bool],
    is_calm: Callable[[], bool],
) -> None:
    """Free a state once the work with it has ended; then collect garbage if this replica stands by.

    ``is_calm``: whether no pods wait for a decision.
    """
    if work is not None and work.task is not None:
        await asyncio.wait({work.task})
    del work
    await asyncio.sleep(_ENDING)
    turn = Turn()
    for _ in state.drop_all():
        await turn.pause()
    del state
    # Not in a leader: even without any pods, a collection blocks the event loop for 0.05 to 0.2 s
    # of processor time. At a load of 10 that took 0.57 s, and a standby took over. Nor in a standby
    # while pods wait for a decision: it would notice later that the leader has ended.
    clock = asyncio.get_running_loop().time
    latest = clock() + _LOOK_FOR
    while stands_by():
        if is_calm() or clock() >= latest:
            collect_everything()
            return
        await asyncio.sleep(_LOOK_EVERY)
