"""The objects that a scheduling loop gets from the replica, and those that its parts share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from podsched.config.settings import SchedulerSettings
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.extenders.calls import Extenders
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import QueuedPodInfo
from podsched.lib.event_loop import ROUND, Turn
from podsched.lib.tasks import Changes, TaskSet
from podsched.serve.client.cluster import TermCluster
from podsched.term.cycle.activation import Activator
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionNotes, DecisionSink
from podsched.term.cycle.evictions import Evict
from podsched.term.cycle.plugin_patches import PluginPatches
from podsched.term.cycle.pod_reports import PodReports
from podsched.term.state import SchedulingState
from podsched.term.writes.bind_queue import Binder
from podsched.term.writes.event_recorder import EventRecorder
from podsched.term.writes.pod_group_conditions import GroupOutcomes, PodGroupConditions
from podsched.v1 import api_pb2

#: Max seconds that plugins compute in threads for one attempt, while other pods wait.
_LONGEST_PREPARATION = 1.0


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Objects that a loop uses but does not create."""

    state: SchedulingState
    cluster: TermCluster
    fence: api_pb2.Fence
    decider: AcceleratedDecider
    binder: Binder
    recorder: EventRecorder
    meter: CycleMeter
    settings: SchedulerSettings
    changes: Changes
    extenders: Extenders | None = None
    decisions: DecisionSink | None = None
    """Where decisions are logged; None: nowhere."""
    wall: Callable[[], float] = time.time
    """Unix time in seconds, for timestamps in objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermParts(LoopParts):
    """The given objects, and those that a loop creates for all its parts."""

    tasks: TaskSet
    clock: Callable[[], float]
    turn: Turn
    activator: Activator
    notes: DecisionNotes
    patches: PluginPatches
    reports: PodReports
    conditions: PodGroupConditions
    group_outcomes: GroupOutcomes
    evict: Evict


class TermPart:
    """Base class of the loop's parts, which have what they share as attributes."""

    def __init__(self, parts: TermParts) -> None:
        self._state = parts.state
        self._cluster = parts.state.cache.cluster
        self._admission = parts.state.admission
        self._decider = parts.decider
        self._meter = parts.meter
        self._recorder = parts.recorder
        self._notes = parts.notes
        self._reports = parts.reports
        self._conditions = parts.conditions
        self._group_outcomes = parts.group_outcomes
        self._patches = parts.patches
        self._evict = parts.evict
        self._activator = parts.activator
        self._tasks = parts.tasks
        self._clock = parts.clock
        self._turn = parts.turn
        #: Whether to stop deciding, because the turn is used up.
        self._should_stop = partial(parts.turn.has_lasted, ROUND)

    async def _prepare(self, runtime: ProfileRuntime, pods: Iterable[QueuedPodInfo]) -> bool:
        """Let plugins compute in steps what decisions need; return whether time has passed."""
        waited, cluster, spent = False, self._cluster, 0.0

        def is_late() -> bool:
            return spent > _LONGEST_PREPARATION

        one_of_each = {queued.info.cls.id: queued.info for queued in pods}.values()
        jobs = (
            job
            for plugin in runtime.preparing
            for pod in one_of_each
            for job in plugin.prepare(pod, cluster, is_late)
        )
        for job in jobs:
            if job is not None:
                began = self._clock()
                await asyncio.to_thread(job)
                spent += self._clock() - began
                await self._turn.wait()
            elif self._turn.is_over:
                await self._turn.give_way()
            else:
                continue
            # Other tasks have run.
            waited = True
        return waited
