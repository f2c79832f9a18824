"""Fill a scheduling state with the objects that an informer knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from podsched.api.kinds import GATED_KINDS, WATCHED_KINDS
from podsched.lib.event_loop import processor_clock
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.term.state import SchedulingState, fault_of

#: Objects put into a new state before other tasks have a turn: some 5 ms.
_TURN = 200
#: A former leader pauses this many times as long as it works. Without pauses it took half of a
#: machine with two processors during the first second of the next leader, whose first binding came
#: 0.4 s after its claim instead of 0.2.
_PAUSES = 2


async def fill(
    state: SchedulingState,
    informer: InformerPort,
    missed: list[Batch],
    is_leading: Callable[[], bool],
) -> None:
    """Put the informer's objects into an empty state, then the batches that came since.

    With 60,000 pods this takes a second, so other tasks have turns meanwhile, and unless this
    replica leads, other processes, too.
    ``missed``: to which the owner adds batches meanwhile; emptied. Raises PodFault for a bug.
    """
    clock = asyncio.get_running_loop().time
    used = processor_clock()
    began = used()
    # Without an await up to the first object: these are the objects as of this revision, and all
    # later batches are in ``missed``.
    missed.clear()
    state.revision = informer.revision
    for number, event in enumerate(additions(informer), 1):
        try:
            state.apply(event, clock())
        except Exception as bug:
            raise fault_of(event) from bug
        if not number % _TURN:
            await asyncio.sleep(0 if is_leading() else _PAUSES * (used() - began))
            began = used()
    # Without an await: a batch that came in between would be lost.
    for batch in missed:
        state.apply_batch(batch, clock())
    missed.clear()


def additions(informer: InformerPort) -> Iterator[Event]:
    """Return the objects that an informer knows now, as events."""
    kinds = (*GATED_KINDS, *WATCHED_KINDS)
    listed = [(kind, list(informer.objects(kind).items())) for kind in kinds]
    return (
        Event(EventType.ADDED, kind, key, None, obj) for kind, items in listed for key, obj in items
    )
