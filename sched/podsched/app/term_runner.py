"""Keep a replica's scheduling state current, and run the work of a term while the replica leads.

``podsched.term.term_step`` decides what to do. This carries out its effects and reports events to
it. Building the state anew takes a second with 60,000 pods, so other tasks have turns meanwhile.
Batches that the informer delivers meanwhile are applied afterwards.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from podsched.api.kinds import GATED_KINDS, WATCHED_KINDS
from podsched.cache.changes import Anomaly
from podsched.cache.columns import Columns
from podsched.config.load import SchedulerConfiguration, to_public
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.accelerators.remote import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.calls import Extenders
from podsched.framework.plugin import PluginFactory
from podsched.lib.backoff import Backoff
from podsched.lib.event_loop import Turn
from podsched.lib.files import read_file
from podsched.lib.memory import collect_everything
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import Cluster, ControlledCluster, InformerPort
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.manager import ControllerManager
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.pre_bind import ClusterChanges
from podsched.term.cycle.scheduling_loop import LoopListener, SchedulingLoop
from podsched.term.faulty_pods import FaultyPods, PodFault
from podsched.term.set_aside import SetAside
from podsched.term.state import SchedulingState, build_state, fault_of
from podsched.term.term_step import (
    BuildState,
    CancelWork,
    CatchUp,
    CaughtUp,
    Effect,
    EndProcess,
    FailWork,
    FinishWork,
    Halt,
    NoteFault,
    Paused,
    Reconfigured,
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
from podsched.term.writes.bind_queue import Binder
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2

_log = get_logger("replica")

#: Seconds before the work of a term, or the building of a state, starts again after a bug.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds within which the tasks of a term end after they were told to.
_ENDING = 1.0
#: Milliseconds between two responses of a standby's watch. Of a pod that is created and bound in
#: between, it decodes one event instead of two. When it becomes the leader, it is behind by at most
#: this time.
STANDBY_PACE_MS = 250
#: Seconds before a new leader starts the controllers. With 20,000 pods their start takes 0.15 s,
#: which would delay the pods that have waited during the takeover.
_CONTROL_AFTER = 1.0
#: Max bytes of a file with certificates of authorities.
_MAX_CA_BYTES = 1 << 20
#: Objects put into a new state before other tasks have a turn: some 5 ms.
_TURN = 200


class TermActors(Protocol):
    """The Ray actors of one term; ``run`` keeps them until it is cancelled."""

    @property
    def evaluator(self) -> RemoteEvaluator: ...
    @property
    def dry_run(self) -> RemoteDryRun: ...
    @property
    def binder(self) -> Binder: ...

    async def run(self) -> None: ...


class Actors(Protocol):
    """Creates the Ray actors of a term."""

    def of_term(self, term: int, columns: Columns, direct: Binder) -> TermActors: ...


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """The parts of which a term's controllers are built."""

    settings: ControllerSettings
    cluster: ControlledCluster
    root_ca_file: str = ""
    """File with the certificates of the API servers' authority, for pods; "" for none."""


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """The parts that all terms of a replica share."""

    identity: str
    config: SchedulerConfiguration
    settings: SchedulerSettings
    controllers: ControllerParts | None
    """None in a Kubernetes cluster, where kube-controller-manager runs the controllers."""
    factories: Mapping[str, PluginFactory]
    cluster: Cluster
    informer: InformerPort
    actors: Actors
    extenders: Extenders | None
    meter: CycleMeter
    controller_metrics: ControllerMetrics | None = None
    decisions: DecisionSink | None = None
    """Records each decision; None: none is recorded."""
    queues: bool = True
    """Whether pods may be in queues. False where Kueue may use the same labels."""


@dataclass(frozen=True, slots=True)
class _Term:
    """The current term, or the last one; ``pause``: before its work starts again after a bug."""

    fence: api_pb2.Fence
    fence_lost: Callable[[], None]
    pause: Backoff


@dataclass(slots=True)
class _Work:
    """The work of a term, until it ends or starts again; ``over``: its tasks have ended."""

    loop: SchedulingLoop
    tasks: TaskSet
    task: asyncio.Task[Exception | None] | None = None
    over: bool = False

    async def finish(self) -> None:
        """End the work once the outcome of every binding is known."""
        await self.loop.finish()
        self.tasks.end()


class TermRunner(LoopListener):
    """One replica's scheduling state and terms.

    It is the ``StateListener`` of its state. ``LoopListener`` passes what concerns assumed and
    waiting pods to the loop of the term, if there is one.
    """

    def __init__(self, parts: RunnerParts, tasks: TaskSet) -> None:
        """``tasks``: the set in which terms run; a failure that no term survives fails the set."""
        self._parts = parts
        self._tasks = tasks
        self._now = State()
        self._term = _Term(api_pb2.Fence(), lambda: None, _pause())
        self._changes = ClusterChanges()
        self._faulty_pods = FaultyPods()
        self._work: _Work | None = None
        self._loop: SchedulingLoop | None = None
        self._controllers: ControllerManager | None = None
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
            lambda: bool(self._loop and self._loop.busy),
        )

    # ------------------------------------------------------------------ state

    def _new_state(self) -> SchedulingState:
        parts = self._parts
        self._decides_by = parts.config
        state = build_state(
            parts.config,
            parts.factories,
            seed=zlib.crc32(parts.identity.encode()),
            max_in_unschedulable=parts.settings.pod_max_in_unschedulable_pods_duration,
            observer=parts.meter.queue,
            meter=parts.meter.plugins,
            listener=self,
            queues=parts.queues,
            require_queue=tuple(filter(None, parts.settings.require_queue.split(","))),
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
            if self._loop is not None:
                self._loop.wake()
        except PodFault as fault:
            self._post(StateBroken(self._now.builds, fault))
            return
        self._changes.notify()
        if self._controllers is not None:
            self._controllers.handle(batch)

    @property
    def whole_state(self) -> SchedulingState | None:
        """The state, None while it is being built anew."""
        return self.state if self._now.whole else None

    @property
    def busy(self) -> bool:
        """Whether this replica leads and has pods to try or to bind."""
        return self._loop is not None and self._loop.busy

    def update_gauges(self) -> None:
        """Set the metrics that are read from the state."""
        loop = self._loop
        under_way = loop.binding_tasks if loop is not None else 0
        pending = loop.pending_calls if loop is not None else {}
        self._parts.meter.gauges(self.state.queue, self.state.cache, under_way, pending)
        self._parts.meter.scheduler.set_aside_objects.set(len(self.state.set_aside))

    def checkpoint(self) -> dict[str, Any] | None:
        """Return what the term's decisions depend on, besides objects, for a replay.

        None if this replica makes no decisions, or records none.
        """
        loop, sink = self._loop, self._parts.decisions
        if loop is None or sink is None:
            return None
        configuration = to_public(self._decides_by)
        return {**loop.checkpoint(sink.numbers(0)), "configuration": configuration}

    # ------------------------------------------------------------------ requests of the owner

    def start_term(self, fence: api_pb2.Fence, fence_lost: Callable[[], None]) -> None:
        """Begin to lead; a term that still runs ends.

        ``fence_lost`` is called when a write is refused, so that the elector learns of it before
        its next renewal fails.
        """
        self._term = _Term(fence, fence_lost, _pause())
        self._post(StartedLeading(int(fence.term)))

    def end_term(self) -> None:
        """Stop leading, and build the state anew from the informer's objects."""
        self._post(StoppedLeading())

    def end(self) -> None:
        """Stop leading for good."""
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
                if not work.over:
                    work.tasks.start(work.finish(), "finish what is under way")
            case FailWork(fault):
                work.loop.fail(fault)
            case CancelWork():
                self._loop = self._controllers = None
                _cancel(work.task)

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
                self._tasks.start(self._let_go(self.state, self._work), "let the old state go")
                self.state = self._new_state()
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
        if not effect.again:
            self._build_pause = _pause()
        else:
            await asyncio.sleep(self._build_pause.next_delay())
        try:
            await self._fill(self.state)
        except PodFault as fault:
            self._post(StateBroken(effect.build, fault))
            return
        self._post(StateBuilt(effect.build))

    async def _let_go(self, state: SchedulingState, work: _Work | None) -> None:
        """Free the memory of a state that was replaced, once the work with it has ended."""
        if work is not None and work.task is not None:
            await asyncio.wait({work.task})
        del work
        await asyncio.sleep(_ENDING)
        turn = Turn()
        for _ in state.let_go():
            await turn.pause()
        del state
        # Not in a leader: even without any pods, a collection blocks the event loop for 0.05 to
        # 0.2 s of processor time. At a load of 10 that took 0.57 s, and a standby took over.
        if isinstance(self._now.phase, Standby):
            collect_everything()

    async def _fill(self, state: SchedulingState) -> None:
        clock = asyncio.get_running_loop().time
        self._missed.clear()
        objects = self._parts.informer.objects
        state.revision = self._parts.informer.revision
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
        for batch in self._missed:
            state.apply_batch(batch, clock())
        self._missed.clear()

    # ------------------------------------------------------------------ the work of a term

    def _start_work(self, attempt: int) -> None:
        parts, fence = self._parts, self._term.fence
        actors = parts.actors.of_term(fence.term, self.state.cache.columns, parts.cluster)
        loop = self._loop = SchedulingLoop(self._loop_parts(fence, actors))
        name = f"term {fence.term}"
        work = self._work = _Work(loop, TaskSet(name))

        def ended(task: asyncio.Task[Exception | None]) -> None:
            fault = asyncio.CancelledError() if task.cancelled() else task.result()
            self._work = self._loop = self._controllers = None
            self._post(WorkEnded(attempt, fault, loop.bound_until))

        work.task = self._tasks.start(self._run(work, fence, actors), name, ended=ended)

    async def _run(self, work: _Work, fence: api_pb2.Fence, actors: TermActors) -> Exception | None:
        """Run the tasks of a term; return the error that ended them, None if told to finish."""
        tasks, controllers = work.tasks, self._parts.controllers
        tasks.start(work.loop.run(), "scheduling", endless=True)
        if controllers is not None:
            tasks.start(self._control(controllers, fence), "controllers", endless=True)
        tasks.start(actors.run(), "actors", endless=True)
        try:
            await tasks.run()
        except Exception as fault:
            return fault
        finally:
            work.over = True
        return None

    async def _control(self, parts: ControllerParts, fence: api_pb2.Fence) -> None:
        """Run the controllers, ``_CONTROL_AFTER`` seconds after the term has begun."""
        await asyncio.sleep(_CONTROL_AFTER)
        root_ca = await asyncio.to_thread(_root_ca, parts.root_ca_file)
        self._controllers = ControllerManager(
            parts.cluster,
            self._parts.informer,
            parts.settings,
            fence,
            self.recorder,
            root_ca=root_ca,
            metrics=self._parts.controller_metrics,
        )
        await self._controllers.run()

    def _loop_parts(self, fence: api_pb2.Fence, actors: TermActors) -> LoopParts:
        return LoopParts(
            state=self.state,
            cluster=self._parts.cluster,
            fence=fence,
            decider=self.state.decider(
                actors.evaluator,
                actors.dry_run,
                without=self._parts.settings.evaluation.without,
            ),
            binder=actors.binder,
            recorder=self.recorder,
            meter=self._parts.meter,
            settings=self._parts.settings,
            changes=self._changes,
            extenders=self._parts.extenders,
            decisions=self._parts.decisions,
        )

    # ------------------------------------------------------------------ as a StateListener

    def handled(self, sort: str, seconds: float, count: int) -> None:
        """See ``StateListener``."""
        self._parts.meter.queue.handled(sort, seconds, count)

    def anomaly(self, anomaly: Anomaly) -> None:
        """See ``StateListener``."""
        _log.warning(anomaly.kind.value, object=anomaly.object, detail=anomaly.detail)


def _root_ca(path: str) -> str:
    """Return the certificates in a file; "" without one, or if it cannot be read now."""
    try:
        return read_file(Path(path), _MAX_CA_BYTES).decode() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        _log.warning("Pods get no root CA", file=path, error=str(error))
        return ""


def _pause() -> Backoff:
    return Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
