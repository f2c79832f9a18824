"""Run a workload with the real scheduler in virtual time.

Queue, scheduling loop, plugins and preemption are the leader's own; only the cluster and the clock
are simulated. Deciding and writing take no time, so pods wait only for room. The same workload and
configuration give the same run.

Instead of waiting, the event loop advances its clock: hours take only as long as their work.
Non-goals: sockets, threads and other things that need real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from podsched.api.objects import Event
from podsched.config.load import SchedulerConfiguration
from podsched.config.settings import SchedulerSettings
from podsched.decide.accelerated import AcceleratedDecider
from podsched.framework.plugin import PluginFactory
from podsched.lab.memory_cluster import MemoryCluster
from podsched.lab.replay.simulated_cluster import SimulatedCluster
from podsched.lab.replay.workload import Workload
from podsched.lib.tasks import Changes, TaskSet
from podsched.serve.client.informer import Batch
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.scheduling_loop import LoopListener, SchedulingLoop
from podsched.term.state import SchedulingState, build_state
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2

T = TypeVar("T")


class Stuck(RuntimeError):
    """The event loop has no more timers: a task waits for something that cannot happen."""


class _NoWaiting(selectors.SelectSelector):
    """Never waits; advances the loop's clock instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("no task can go on, and no time is waited for")
        self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module; time begins at 0."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._virtual.now

    def processor_time(self) -> float:
        """Return 0: work takes no time here, so no task is interrupted."""
        return 0.0

    def run_in_executor(
        self, _: object, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Run a function at once: while a thread works, virtual time would pass."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def advance(self, seconds: float) -> None:
        """Advance the clock while nothing else runs."""
        self._virtual.now += seconds


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own loop. Raises the coroutine's errors, or Stuck."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


#: No audit: it would find pods that fit and were not woken, a bug that a replay is to show.
_SETTINGS: Final = SchedulerSettings(audit_period=0.0)
#: Where preemption begins its search is drawn with it.
SEED: Final = 1


def cluster_after(
    workload: Workload,
    config: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
    progress: Callable[[float], object] = lambda at: None,
) -> SimulatedCluster:
    """Return the cluster, with its history, as it is at the end of a workload's run.

    ``progress`` is called with the seconds passed. Extenders of the configuration are not asked.
    Raises PluginError for a broken plugin.
    """
    config = simulated_configuration(config)
    return run_in_virtual_time(_Simulation(workload, config, factories, progress).run())


def simulated_configuration(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return a configuration as it is in a simulation: without a start timeout of units.

    Nobody reports pods as ready there, so all units would be evicted for it.
    """
    queues = config.queues.model_copy(update={"wait_for_pods_ready": None})
    return replace(config, queues=queues)


class _Simulation(LoopListener):
    """One run; it is the ``StateListener`` of its state."""

    def __init__(
        self,
        workload: Workload,
        config: SchedulerConfiguration,
        factories: Mapping[str, PluginFactory],
        progress: Callable[[float], object],
    ) -> None:
        self._workload = workload
        self._progress = progress
        self._meter = CycleMeter(MetricRegistry(), Tracer())
        self._changes = Changes()
        self.loop: SchedulingLoop | None = None
        self.state = build_state(
            config,
            factories,
            seed=SEED,
            observer=self._meter.queue,
            meter=self._meter.plugins,
            listener=self,
        )

    async def run(self) -> SimulatedCluster:
        running = asyncio.get_running_loop()
        self._clock = running.time
        cluster = SimulatedCluster(self._workload, self._handle, running.time, running.call_later)
        cluster.begin()
        self.loop = scheduling_loop(
            self.state,
            cluster,
            cluster.new_term("replay"),
            self.state.decider(),
            self._meter,
            changes=self._changes,
        )
        tasks = TaskSet("replay")
        tasks.start(self.loop.run(), "scheduling", endless=True)
        tasks.start(self._drive(cluster), "workload", ended=lambda task: tasks.end())
        await tasks.run()
        return cluster

    async def _drive(self, cluster: SimulatedCluster) -> None:
        """Carry out the changes by others at their times, and wait for the end."""
        clock = asyncio.get_running_loop().time
        for change in self._workload.changes:
            if change.at > clock():
                await asyncio.sleep(change.at - clock())
                self._progress(clock())
            cluster.apply(change)
        await asyncio.sleep(max(0.0, self._workload.seconds - clock()))
        self._progress(self._workload.seconds)

    def _handle(self, batch: Batch) -> None:
        self.state.apply_batch(batch, self._clock())
        self._changes.notify()
        if self.loop is not None:
            self.loop.wake()


def scheduling_loop(
    state: SchedulingState,
    cluster: MemoryCluster,
    fence: api_pb2.Fence,
    decider: AcceleratedDecider,
    meter: CycleMeter,
    *,
    changes: Changes | None = None,
    decisions: DecisionSink | None = None,
) -> SchedulingLoop:
    """Return the real scheduling loop on a simulated cluster; its Events are dropped."""
    return SchedulingLoop(
        LoopParts(
            state=state,
            cluster=cluster,
            fence=fence,
            decider=decider,
            binder=cluster,
            recorder=EventRecorder(_no_events, "replay", wall=asyncio.get_running_loop().time),
            meter=meter,
            settings=_SETTINGS,
            changes=Changes() if changes is None else changes,
            decisions=decisions,
        )
    )


async def _no_events(new: Sequence[Event], repeated: Sequence[Event]) -> None:
    """Write no events."""
