"""What a replica knows, and the term that schedules while it leads.

standby --start_term--> catching up --informer has seen the term--> scheduling
   ^                         ^                                          | |
   |                         '--- a bug met on a pod: the state anew <--' |
   '------------------------- end_term: the state anew <------------------'

The state is kept in standby, too, so that leading begins with work and not with loading. It is
built anew after each term, for the old one is full of assumptions that nobody will confirm. That
takes a second with 60,000 pods, so other tasks have their turns meanwhile; what the informer
reports is applied afterwards.

Guarantee: a term that begins anew, for whatever reason, decides nothing before it has seen what
became of the bindings that it had sent: else a node might seem to have room that is taken.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from podsched.api.kinds import WATCHED_KINDS
from podsched.cache.changes import Anomaly
from podsched.cache.columns import Columns
from podsched.config.load import SchedulerConfiguration, to_public
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.decider import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.calls import Extenders
from podsched.framework.plugin import PluginFactory
from podsched.lib.backoff import Backoff
from podsched.lib.memory import collect_everything
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import Cluster, ControlledCluster, InformerPort
from podsched.serve.client.errors import FenceLost
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.blame import Blame, PodFault
from podsched.term.controllers.manager import ControllerManager
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.pre_bind import ClusterChanges
from podsched.term.cycle.scheduling_loop import LoopListener, SchedulingLoop
from podsched.term.set_aside import SetAside
from podsched.term.state import SchedulingState, build_state, fault_of
from podsched.term.writes.bind_queue import Binder
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2

_log = get_logger("replica")

#: Seconds before a term starts over.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds in which the tasks of a term have ended that were told to.
_ENDING = 1.0
#: Milliseconds between two responses of a standby's watch: of a pod that is created and bound in
#: between it decodes one event instead of two, and it has this much to catch up with at most.
STANDBY_PACE_MS = 250
#: Seconds for which a new leader only schedules. With 20,000 pods the start of the controllers
#: takes 0.15 s, in which what has waited during the takeover would be decided on more slowly.
_CONTROL_AFTER = 1.0
_FINISHING = "finish what is under way"
#: Objects put into a new state before other tasks have their turn: some 5 ms.
_TURN = 200


class TermActors(Protocol):
    """The actors of one term; ``run`` keeps them until it is cancelled."""

    @property
    def evaluator(self) -> RemoteEvaluator: ...
    @property
    def dry_run(self) -> RemoteDryRun: ...
    @property
    def binder(self) -> Binder: ...

    async def run(self) -> None: ...


class Actors(Protocol):
    """Where a term's actors come from."""

    def of_term(self, term: int, columns: Columns, direct: Binder) -> TermActors: ...


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """What the controllers of a term are made of."""

    settings: ControllerSettings
    cluster: ControlledCluster


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """What a replica's terms have in common."""

    identity: str
    config: SchedulerConfiguration
    settings: SchedulerSettings
    controllers: ControllerParts | None
    """None where others run the controllers: in Kubernetes, kube-controller-manager."""
    factories: Mapping[str, PluginFactory]
    cluster: Cluster
    informer: InformerPort
    actors: Actors
    extenders: Extenders | None
    meter: CycleMeter
    controller_metrics: ControllerMetrics | None = None
    decisions: DecisionSink | None = None
    """Who keeps what is decided."""


class _Work:
    """What a term does until it ends or begins anew; that may end after another term has begun."""

    def __init__(self, owner: str, loop: SchedulingLoop) -> None:
        self.loop = loop
        self.tasks = TaskSet(owner)
        self.ended = asyncio.Event()


class TermRunner(LoopListener):
    """One replica's scheduling state and terms.

    It is the ``StateListener`` of its state: what concerns assumed and waiting pods goes to the
    loop of the term, if there is one.
    """

    def __init__(self, parts: RunnerParts, tasks: TaskSet) -> None:
        """Keep what all terms need; a term is one of ``tasks`` and fails them when it fails."""
        self._parts = parts
        self._tasks = tasks
        self._changes = ClusterChanges()
        self._loop: SchedulingLoop | None = None
        self._controllers: ControllerManager | None = None
        self._term: asyncio.Task[None] | None = None
        self._blame = Blame()
        #: What came while the state is being built anew.
        self._missed: list[Batch] = []
        self._built = asyncio.Event()
        self._built.set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        #: What the present term is doing.
        self._work: _Work | None = None
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
        )
        state.set_aside = SetAside(self._blame)
        return state

    def handle(self, batch: Batch) -> None:
        """Take over a batch of the informer."""
        if not self._built.is_set():
            self._missed.append(batch)
            return
        try:
            self.state.apply_batch(batch, asyncio.get_running_loop().time())
            if self._loop is not None:
                self._loop.wake()
        except PodFault as fault:
            self._start_over(fault)
            return
        self._changes.notify()
        if self._controllers is not None:
            self._controllers.handle(batch)

    @property
    def whole_state(self) -> SchedulingState | None:
        """The state, None while it is being built anew."""
        return self.state if self._built.is_set() else None

    @property
    def busy(self) -> bool:
        """Whether pods are waiting to be tried or bound here."""
        return self._loop is not None and self._loop.busy

    def update_gauges(self) -> None:
        """Bring the metrics up to date that are read off the state."""
        loop = self._loop
        under_way = loop.binding_tasks if loop is not None else 0
        pending = loop.pending_calls if loop is not None else {}
        self._parts.meter.gauges(self.state.queue, self.state.cache, under_way, pending)
        self._parts.meter.scheduler.set_aside_objects.set(len(self.state.set_aside))

    def checkpoint(self) -> dict[str, Any] | None:
        """Return what the term's decisions are based on besides objects.

        None where none are made, or none recorded.
        """
        loop, sink = self._loop, self._parts.decisions
        if loop is None or sink is None:
            return None
        configuration = to_public(self._decides_by)
        return {**loop.checkpoint(sink.numbers(0)), "configuration": configuration}

    # ------------------------------------------------------------------ terms

    def start_term(self, fence: api_pb2.Fence, fence_lost: Callable[[], None]) -> None:
        """Begin to lead; a term that still runs ends. ``fence_lost``: told when a write is refused.

        Whoever elects need not wait then until its next renewal is refused as well.
        """
        self.end_term()
        self._parts.informer.pace(0)
        self._term = self._tasks.start(self._lead(fence, fence_lost), f"term {fence.term}")

    def end_term(self) -> None:
        """Stop leading and start over from what the informer knows."""
        if self._term is not None:
            self._term.cancel()
            self._term = None
        self._work = self._controllers = None
        self._parts.informer.pace(STANDBY_PACE_MS)
        if self._loop is not None:
            self._loop = None
            self._build_anew()

    @property
    def paused(self) -> bool:
        """Whether a leader decides nothing until it is told to go on."""
        return not self._resumed.is_set()

    def pause(self, paused: bool) -> None:
        """Decide nothing, or go on; a term that is under way keeps its lock and its fence.

        What was being bound is known of before anything else is decided, as in ``reconfigure``.
        """
        if paused == self.paused:
            return
        _log.warning("Scheduling is paused" if paused else "Scheduling goes on")
        if not paused:
            self._resumed.set()
            return
        self._resumed.clear()
        if self._work is not None:
            self._work.tasks.start(self._finish(self._work), _FINISHING)

    async def reconfigure(
        self, config: SchedulerConfiguration, extenders: Extenders | None
    ) -> None:
        """Go on with another configuration; a term that is under way keeps its lock and its fence.

        Returns when nothing is done any more as the one before it says. What was being bound is
        bound by then.
        """
        self._parts = replace(self._parts, config=config, extenders=extenders)
        work = self._work
        if work is None:
            self._build_anew()
            return
        work.tasks.start(self._finish(work), _FINISHING)
        await work.ended.wait()

    async def _finish(self, work: _Work) -> None:
        """End what a term does, once it is known what became of all bindings."""
        await work.loop.finish()
        work.tasks.end()

    def end(self) -> None:
        """Stop leading for good."""
        if self._term is not None:
            self._term.cancel()
        self._loop = None

    def _start_over(self, fault: PodFault) -> None:
        """Let go of a state that a bug has left half changed; a term that runs starts over."""
        if self._loop is not None:
            self._built.clear()  # what comes until the new state is begun is missed by the old one
            self._loop.fail(fault)
        else:
            self._note(fault, "The state is built anew")
            self._build_anew()

    def _note(self, fault: PodFault, what: str) -> None:
        self._blame.add(fault)
        _log.error(what, pod=str(fault), exc_info=fault.__cause__)

    def _build_anew(self) -> None:
        self.state = self._new_state()
        self._built.clear()
        self._tasks.start(self._build(self.state), "build the state anew")

    async def _build(self, state: SchedulingState) -> None:
        """Build a state, anew after each bug that is met, unless it has been replaced by then."""
        pause = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        while self.state is state:
            try:
                await self._fill(state)
                # The state before it, with all its pods, is garbage in cycles.
                await asyncio.sleep(_ENDING)
                collect_everything()
                return
            except PodFault as fault:
                self._note(fault, "The state is built anew")
            await asyncio.sleep(pause.next_delay())
            if self.state is state:
                self.state = state = self._new_state()

    async def _fill(self, state: SchedulingState) -> None:
        """Put all that the informer knows into a new state, then what has come meanwhile."""
        clock = asyncio.get_running_loop().time
        self._missed.clear()
        objects = self._parts.informer.objects
        state.revision = self._parts.informer.revision
        listed = [(kind, list(objects(kind).items())) for kind in WATCHED_KINDS]
        for kind, items in listed:
            for number, (key, obj) in enumerate(items, 1):
                event = Event(EventType.ADDED, kind, key, None, obj)
                try:
                    state.apply(event, clock())
                except Exception as bug:
                    raise fault_of(event) from bug
                if not number % _TURN:
                    await asyncio.sleep(0)
                    if self.state is not state:
                        return
        self._built.set()
        missed, self._missed = self._missed, []
        for batch in missed:
            self.handle(batch)

    async def _lead(self, fence: api_pb2.Fence, fence_lost: Callable[[], None]) -> None:
        """Schedule until the fence is lost, anew after a pause and each bug met on a pod."""
        pause = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        # All that earlier terms wrote has a lower revision than this term's: once the informer has
        # come so far, nothing of it is missing. A term that begins anew has written more by itself.
        written = int(fence.term)
        while True:
            await self._resumed.wait()
            delay = 0.0
            try:
                await self._schedule(fence, written)
            except FenceLost:
                _log.warning("The fence is lost: another replica leads", term=fence.term)
                fence_lost()
                return
            except PodFault as fault:
                self._note(fault, "The term starts over")
                delay = pause.next_delay()
            if self._loop is not None:
                written = max(written, self._loop.bound_until)
            self._loop = self._controllers = None
            self._build_anew()
            await asyncio.sleep(delay)

    async def _schedule(self, fence: api_pb2.Fence, written: int) -> None:
        """Schedule, once the informer has seen the revision up to which leaders wrote.

        Returns when the term is to go on anew: after a pause, or with another configuration.

        Raises:
            FenceLost: another replica leads.
            PodFault: a bug was met on a pod.
        """
        parts = self._parts
        await parts.informer.wait_for_revision(written)
        await self._built.wait()
        if self.paused:
            return
        actors = parts.actors.of_term(fence.term, self.state.cache.columns, parts.cluster)
        self._loop = SchedulingLoop(self._loop_parts(fence, actors))
        work = self._work = _Work(f"term {fence.term}", self._loop)
        tasks = work.tasks
        tasks.start(self._loop.run(), "scheduling", endless=True)
        if parts.controllers is not None:
            tasks.start(self._control(parts.controllers, fence), "controllers", endless=True)
        tasks.start(actors.run(), "actors", endless=True)
        try:
            await tasks.run()
        finally:
            if self._work is work:
                self._work = None
            work.ended.set()

    async def _control(self, parts: ControllerParts, fence: api_pb2.Fence) -> None:
        """Run the controllers, once there has been time for the first decisions."""
        await asyncio.sleep(_CONTROL_AFTER)
        self._controllers = ControllerManager(
            parts.cluster,
            self._parts.informer,
            parts.settings,
            fence,
            self.recorder,
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
