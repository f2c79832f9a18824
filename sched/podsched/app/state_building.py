"""Builds a replica's scheduling state from the objects of its informer.

With 60,000 pods this takes a second, so other tasks have turns meanwhile. Batches that the informer
delivers meanwhile are applied afterwards.
"""

from __future__ import annotations

import asyncio
import zlib

from podsched.api.kinds import GATED_KINDS, WATCHED_KINDS
from podsched.app.term_work import RunnerParts
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.term.faulty_pods import FaultyPods
from podsched.term.set_aside import SetAside
from podsched.term.state import SchedulingState, StateListener, build_state, fault_of

#: Objects put into a new state before other tasks have a turn: some 5 ms.
_TURN = 200


def new_state(
    parts: RunnerParts, listener: StateListener, faulty_pods: FaultyPods
) -> SchedulingState:
    """Return an empty state for a replica's configuration."""
    state = build_state(
        parts.config,
        parts.factories,
        seed=zlib.crc32(parts.identity.encode()),
        max_in_unschedulable=parts.settings.pod_max_in_unschedulable_pods_duration,
        observer=parts.meter.queue,
        meter=parts.meter.plugins,
        listener=listener,
        queues=parts.queues,
        require_queue=tuple(filter(None, parts.settings.require_queue.split(","))),
    )
    state.set_aside = SetAside(faulty_pods)
    return state


async def fill(state: SchedulingState, informer: InformerPort, missed: list[Batch]) -> None:
    """Put the informer's objects into an empty state, then the batches that came since.

    ``missed``: to which the owner adds batches meanwhile; emptied. Raises PodFault for a bug.
    """
    clock = asyncio.get_running_loop().time
    missed.clear()
    objects, state.revision = informer.objects, informer.revision
    listed = [(kind, list(objects(kind).items())) for kind in (*GATED_KINDS, *WATCHED_KINDS)]
    for kind, items in listed:
        for number, (key, obj) in enumerate(items, 1):
            event = Event(EventType.ADDED, kind, key, None, obj)
            try:
                state.apply(event, clock())
            except Exception as bug:
                raise fault_of(event) from bug
            if not number % _TURN:
                await asyncio.sleep(0)
    for batch in missed:
        state.apply_batch(batch, clock())
    missed.clear()
