"""Run a replica's shadow configuration on the informer's events, whenever there is time.

    filling --all objects applied--> following --a bug--> filling (after a pause)

The shadow decides on a pod when its binding arrives. While the leader has pods to schedule, its
shadow waits. If more than MOST_WAITING events wait, they are applied without decisions, which are
counted as skipped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from podsched.app.state_filling import additions
from podsched.config.load import SchedulerConfiguration
from podsched.framework.plugin import PluginFactory
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch, Event
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ShadowMetrics
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.shadow import Shadow

_log = get_logger("shadow")

#: Seconds of work before other tasks have a turn, and the seconds of that turn.
TURN, REST = 0.005, 0.005
#: Seconds between two checks whether the leader still has pods to schedule.
_LOOK_EVERY = 0.05
#: Max waiting events: some 20 s of the fastest workload.
MOST_WAITING: Final = 100_000
#: Seconds before a shadow that failed because of a bug begins again.
_PAUSE = 5.0


class Shadowing:
    """Passes the informer's events to a ``Shadow``."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        factories: Mapping[str, PluginFactory],
        informer: InformerPort,
        busy: Callable[[], bool],
        sink: DecisionSink | None,
        metrics: ShadowMetrics,
    ) -> None:
        """``busy``: returns whether the replica has pods to schedule."""
        self._config = config
        self._factories = factories
        self._informer = informer
        self._busy = busy
        self._sink = sink
        self._metrics = metrics
        #: Events, the revisions of their batches, and whether they happened: an event of a partial
        #: batch only lists an object that exists.
        self._waiting: deque[tuple[Event, int, bool]] = deque()
        self._follows = False
        self._something = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        """Queue the events of a batch."""
        if self._follows:
            happened = not batch.partial
            self._waiting.extend((event, batch.revision, happened) for event in batch.events)
            self._something.set()

    async def run(self) -> None:
        """Follow until cancelled; after a bug, begin again with an empty shadow."""
        while True:
            try:
                await self._informer.synced.wait()
                await self._follow(await self._filled())
            except Exception as bug:
                _log.error("The shadow begins again", exc_info=bug)
                self._follows = False
                await asyncio.sleep(_PAUSE)

    async def _filled(self) -> Shadow:
        """Return a shadow with all objects that the informer knows."""
        clock = asyncio.get_running_loop().time
        shadow = Shadow(self._config, self._factories, self._sink, clock())
        listed = additions(self._informer)
        self._waiting.clear()
        self._follows = True
        ends = clock() + TURN
        for event in listed:
            shadow.apply(event)
            if clock() >= ends:
                await asyncio.sleep(REST)
                ends = clock() + TURN
        return shadow

    async def _follow(self, shadow: Shadow) -> None:
        """Apply events, and decide on bound pods, until an error."""
        clock = asyncio.get_running_loop().time
        ends = clock() + TURN
        while True:
            if not self._waiting:
                self._something.clear()
                await self._something.wait()
                ends = clock() + TURN
            behind = len(self._waiting) > MOST_WAITING
            if self._busy() and not behind:
                await asyncio.sleep(_LOOK_EVERY)
                continue
            event, revision, happened = self._waiting.popleft()
            if behind or not happened:
                shadow.apply(event)
                self._metrics.decisions.labels("skipped").inc(event.kind == "Pod")
            elif (verdict := shadow.decide_and_apply(event, revision, clock())) is not None:
                self._metrics.decisions.labels(verdict.value).inc()
            if clock() >= ends:
                await asyncio.sleep(REST)
                ends = clock() + TURN
