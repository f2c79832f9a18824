"""Keep a replica's scheduling state current, and run the work of a term while the replica leads.

``podsched.term.term_step`` decides what to do. This carries out its effects and reports events to
it.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from podsched.api.kinds import GATED_KINDS
from podsched.api.objects import ObjectMeta
from podsched.app.state_filling import fill
from podsched.app.state_freeing import free
from podsched.app.term_work import RunnerParts, TermWork
from podsched.cache.changes import Anomaly
from podsched.config.load import SchedulerConfiguration, to_public
from podsched.decide.extenders.calls import Extenders
from podsched.lib.backoff import Backoff
from podsched.lib.tasks import Changes, TaskSet
from podsched.serve.client.informer import Batch
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.scheduling_loop import LoopListener
from podsched.term.faulty_pods import FaultyPods, PodFault
from podsched.term.set_aside import SetAside
from podsched.term.state import SchedulingState, build_state
from podsched.term.term_step import (
    BuildState,
    CancelWork,
    CatchingUp,
    CatchUp,
    CaughtUp,
    Effect,
    Ending,
    EndProcess,
    FailWork,
    FinishWork,
    Halt,
    NoteFault,
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
    StoppedLeading,
    StopRequested,
    TellFenceLost,
    TellReconfigured,
    WorkEffect,
    WorkEnded,
    step,
)
from podsched.term.term_step import Event as TermEvent
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2

_log = get_logger("replica")

#: Seconds before the work of a term, or the building of a state, starts again after a bug.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds for which a former leader does not begin to build its state. Even an empty state takes
#: 10 to 30 ms, in which the event loop could not release the lock.
_RELEASE_FIRST = 0.2
#: Milliseconds between two responses of a standby's watch. Of a pod that is created and bound in
#: between, it decodes one event instead of two. When it becomes the leader, it is behind by at most
#: this time.
STANDBY_PACE_MS = 250


@dataclass(frozen=True, slots=True)
class _Term:
    """The current term, or the last one; ``pause``: before its work starts again after a bug."""

    fence: api_pb2.Fence
    fence_lost: Callable[[], None]
    pause: Backoff


class _Listener(LoopListener):
    """The ``StateListener`` of a replica's state, and the ``LoopListener`` of the term's loop."""

    def __init__(self, meter: CycleMeter) -> None:
        self._meter = meter

    def handled(self, sort: str, seconds: float, count: int) -> None:
        self._meter.queue.handled(sort, seconds, count)

    def anomaly(self, anomaly: Anomaly) -> None:
        _log.warning(anomaly.kind.value, object=anomaly.object, detail=anomaly.detail)


class TermRunner:
    """One replica's scheduling state and terms."""

    def __init__(self, parts: RunnerParts, tasks: TaskSet) -> None:
        """``tasks``: the set in which terms run; a failure that no term survives fails the set."""
        self._parts = parts
        self._tasks = tasks
        self._now = State()
        self._term = _Term(api_pb2.Fence(), lambda: None, _pause())
        self._changes = Changes()
        self._faulty_pods = FaultyPods()
        self._work: TermWork | None = None
        self._listener = _Listener(parts.meter)
        self._catching_up: asyncio.Task[None] | None = None
        self._building: asyncio.Task[None] | None = None
        self._build_pause = _pause()
        #: Batches that arrived while the state is being built anew.
        self._missed: list[Batch] = []
        #: Callers of ``reconfigure`` that wait until the new configuration is in effect.
        self._waiting: list[asyncio.Future[None]] = []
        parts.informer.pace(STANDBY_PACE_MS)
        self.state = self._new_state()
        self.recorder = EventRecorder(
            parts.cluster.record_events,
            parts.identity,
            lambda: self.busy,
        )

    # ------------------------------------------------------------------ state

    def _new_state(self) -> SchedulingState:
        """Return an empty state for the configuration."""
        parts, settings = self._parts, self._parts.settings
        self._decides_by = parts.config
        state = build_state(
            parts.config,
            parts.factories,
            seed=zlib.crc32(parts.identity.encode()),
            max_in_unschedulable=settings.pod_max_in_unschedulable_pods_duration,
            observer=parts.meter.queue,
            meter=parts.meter.plugins,
            listener=self._listener,
            queues=parts.queues,
            require_queue=tuple(filter(None, settings.require_queue.split(","))),
        )
        state.set_aside = SetAside(self._faulty_pods)
        return state

    def handle(self, batch: Batch) -> None:
        """Apply a batch of the informer, or keep it while the state is being built."""
        if not self._now.whole:
            self._missed.append(batch)
            return
        try:
            self.state.apply_batch(batch, asyncio.get_running_loop().time())
            if self._listener.loop is not None:
                self._listener.loop.wake()
        except PodFault as fault:
            self._post(StateBroken(self._now.builds, fault))
            return
        self._changes.notify()
        if self._work is not None:
            self._work.handle(batch)

    @property
    def whole_state(self) -> SchedulingState | None:
        """The state, None while it is being built anew."""
        return self.state if self._now.whole else None

    @property
    def busy(self) -> bool:
        """Whether this replica leads and has pods to try or to bind."""
        loop = self._listener.loop
        return loop is not None and loop.busy

    def update_gauges(self) -> None:
        """Set the metrics that are read from the state."""
        loop = self._listener.loop
        under_way = loop.binding.under_way if loop is not None else 0
        pending = loop.pending_calls if loop is not None else {}
        self._parts.meter.gauges(self.state.queue, self.state.cache, under_way, pending)
        self._parts.meter.scheduler.set_aside_objects.set(len(self.state.set_aside))

    async def checkpoint(self) -> dict[str, Any] | None:
        """Return what the term's decisions depend on, besides objects, for a replay.

        None if this replica makes no decisions, or records none.
        """
        await self.state.after_trial.wait()
        loop, sink = self._listener.loop, self._parts.decisions
        if loop is None or sink is None:
            return None
        of_process = {
            "configuration": to_public(self._decides_by),
            "gated_kinds": sorted(GATED_KINDS.keys() & self._parts.informer.kinds),
        }
        return {**loop.checkpoint(sink.numbers(0)), **of_process}

    # ------------------------------------------------------------------ requests of the owner

    def start_term(self, fence: api_pb2.Fence, fence_lost: Callable[[], None]) -> None:
        """Begin to lead; a term that still runs ends.

        ``fence_lost`` is called when a write is refused, so that the elector learns of it before
        its next renewal fails.
        """
        self._term = _Term(fence, fence_lost, _pause())
        self._record("became leader")
        self._post(StartedLeading(int(fence.term)))

    def end_term(self) -> None:
        """Stop leading, and build the state anew from the informer's objects."""
        self._record_end()
        # Their outcome is the next leader's, and is not noticed here.
        self._parts.meter.preemption.freed_for.clear()
        self._post(StoppedLeading())

    def end(self) -> None:
        """Stop leading for good."""
        self._record_end()
        self._post(StopRequested())

    @property
    def paused(self) -> bool:
        """Whether scheduling is paused."""
        return self._now.paused

    def pause(self, paused: bool) -> None:
        """Pause scheduling, or resume it; a running term keeps its lock and its fence.

        Bindings that are under way are finished before anything else is decided.
        """
        if paused != self.paused:
            _log.warning("Scheduling is paused" if paused else "Scheduling goes on")
        self._post(Paused(paused))

    async def reconfigure(
        self, config: SchedulerConfiguration, extenders: Extenders | None
    ) -> None:
        """Replace the configuration; a running term keeps its lock and its fence.

        Returns when the old configuration is no longer used. Bindings that were under way are
        finished by then.
        """
        self._parts = replace(self._parts, config=config, extenders=extenders)
        in_effect = asyncio.get_running_loop().create_future()
        self._waiting.append(in_effect)
        self._post(Reconfigured())
        await in_effect

    def _record_end(self) -> None:
        if self._is_leading():
            self._record("stopped leading")

    def _record(self, what: str) -> None:
        """Record an event about the lock, as client-go does, in the first profile's name."""
        namespace, _, name = self._term.fence.lock.partition("/")
        self.recorder.record(
            ObjectMeta(namespace=namespace, name=name),
            kind="Lease",
            type_="Normal",
            reason="LeaderElection",
            # client-go's has none, but events.k8s.io requires one.
            action="LeaderElection",
            message=f"{self._parts.identity} {what}",
            controller=self._parts.config.profiles[0].scheduler_name,
        )

    # ------------------------------------------------------------------ effects

    def _post(self, event: TermEvent) -> None:
        self._now, effects = step(self._now, event)
        for effect in effects:
            if isinstance(effect, WorkEffect):
                self._perform_on_work(effect)
            else:
                self._perform(effect)

    def _perform_on_work(self, effect: WorkEffect) -> None:
        if isinstance(effect, StartWork):
            self._start_work(effect.attempt)
            return
        work = self._work
        assert work is not None
        match effect:
            case FinishWork():
                work.finish()
            case FailWork(fault):
                work.loop.fail(fault)
            case CancelWork():
                self._listener.loop = None
                work.cancel()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StandBy():
                self._parts.informer.pace(STANDBY_PACE_MS)
                _cancel(self._catching_up)
            case CatchUp():
                self._parts.informer.pace(0)
                _cancel(self._catching_up)
                self._catching_up = self._tasks.start(self._catch_up(effect), "catch up")
            case BuildState():
                _cancel(self._building)
                self._building = self._tasks.start(self._build(effect), "build the state anew")
            case NoteFault(fault, consequence):
                self._faulty_pods.add(fault)
                _log.error(consequence, pod=str(fault), exc_info=fault.__cause__)
            case TellFenceLost() | TellReconfigured():
                self._tell(effect)
            case EndProcess(fault):
                fault.add_note(f"in term {self._term.fence.term} of the replica")
                self._tasks.fail(fault)
            case Halt():
                _cancel(self._catching_up)
                _cancel(self._building)

    def _tell(self, effect: TellFenceLost | TellReconfigured) -> None:
        if isinstance(effect, TellReconfigured):
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            return
        term = self._term.fence.term
        _log.warning("The fence is lost: another replica leads", term=term)
        self._term.fence_lost()

    async def _catch_up(self, effect: CatchUp) -> None:
        await asyncio.sleep(self._term.pause.next_delay() if effect.after_fault else 0.0)
        await self._parts.informer.wait_for_revision(effect.revision)
        self._post(CaughtUp(effect.attempt))

    async def _build(self, effect: BuildState) -> None:
        """Fill a new state with the informer's objects, then with the batches that came since."""
        if effect.again:
            await asyncio.sleep(self._build_pause.next_delay())
        else:
            self._build_pause = _pause()
            if not self._is_leading():
                await asyncio.sleep(_RELEASE_FIRST)
        freeing = free(
            self.state,
            self._work,
            stands_by=lambda: isinstance(self._now.phase, Standby),
            is_calm=self._is_calm,
        )
        self._tasks.start(freeing, "free the old state")
        del freeing  # It refers to the state.
        self.state = self._new_state()
        try:
            await fill(self.state, self._parts.informer, self._missed, self._is_leading)
        except PodFault as fault:
            self._post(StateBroken(effect.build, fault))
            return
        self._post(StateBuilt(effect.build))

    def _is_leading(self) -> bool:
        """Whether this replica leads, or will lead once the work of its last term has ended."""
        phase = self._now.phase
        following = phase.then if isinstance(phase, Ending) else phase
        return isinstance(following, CatchingUp | Scheduling)

    def _is_calm(self) -> bool:
        """Whether no pods wait for a decision."""
        pending = self.state.queue.pending
        return self._now.whole and not len(pending.active) and not len(pending.backoff)

    # ------------------------------------------------------------------ the work of a term

    def _start_work(self, attempt: int) -> None:
        fence = self._term.fence
        work = TermWork(self._parts, self.state, fence, self.recorder, self._changes)
        self._work, self._listener.loop = work, work.loop

        def ended(task: asyncio.Task[Exception | None]) -> None:
            fault = asyncio.CancelledError() if task.cancelled() else task.result()
            self._work = self._listener.loop = None
            self._parts.meter.traces.end_all("the term ended")
            self._post(WorkEnded(attempt, fault, work.loop.revision))

        work.task = self._tasks.start(work.run(), f"term {fence.term}", ended=ended)


def _pause() -> Backoff:
    return Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
