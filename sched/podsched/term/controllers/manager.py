"""Run the controllers while this replica leads.

``handle`` receives every batch of the scheduler's informer, ``run`` lasts as long as the term.
Guarantees: an object that a controller cannot handle is logged, counted and skipped until it
changes; no state, timer or task outlives the term.

The controllers of workloads stand in for a kube-controller-manager: they stop while one holds its
Lease, and start again when the Lease has expired.

The garbage collector reads all kinds. A second informer, which lasts as long as the term, provides
the metadata of the kinds that the scheduler itself does not watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from podsched.api.owners import CONTROLLER_MANAGER_LEASE, held_until
from podsched.config.settings import ControllerSettings
from podsched.lib.due_times import earliest
from podsched.lib.event_loop import Turn
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import ControlledCluster, InformerPort
from podsched.serve.client.informer import Batch
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant
from podsched.term.controllers.dispatch import Dispatch, Faults
from podsched.term.controllers.factory import OTHER_KINDS, AllObjects, ControllerFactory
from podsched.term.controllers.write_queues import WriteQueues
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1.api_pb2 import Fence

_log = get_logger("controllers")
#: Seconds for which changes are collected before the controllers work, if none has work left.
_COALESCE = 0.02
#: Min seconds between two rounds of work. A smaller wait might never reach its time by rounding.
_LEAST_WAIT = 0.001


class ControllerManager:
    """All controllers, for one term.

    ``informer`` must watch WATCHED_KINDS, and its batches must go to ``handle``; ``root_ca``: the
    certificates of the API servers' authority in PEM, "" without TLS; ``now`` and ``clock`` give
    Unix time and monotonic time in seconds.
    """

    def __init__(
        self,
        cluster: ControlledCluster,
        informer: InformerPort,
        settings: ControllerSettings,
        fence: Fence,
        recorder: EventRecorder,
        *,
        metrics: ControllerMetrics,
        root_ca: str = "",
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._informer = informer
        self._wall = now
        self._clock = clock
        faults = Faults(metrics)
        self._queues = WriteQueues(
            cluster,
            fence,
            clock=clock,
            count=faults.count,
            retry_later=self._retry_later,
        )
        self._settings = settings
        made = ControllerFactory(informer, settings, recorder, metrics, self._queues, faults.skip)
        self._stand_ins = made.stand_ins()
        self._standing_in: dict[str, Controller] = {}
        self._others = cluster.informer(OTHER_KINDS, metadata_only=True)
        self._objects = AllObjects(informer, self._others)
        self._controllers = made.throughout()
        self._late = made.of_all_kinds(self._objects, root_ca)
        self._dispatch = Dispatch(self._controllers, faults.skip)
        self._started = False
        self._wake = asyncio.Event()
        #: Pending retries; cancelled when the term ends.
        self._retries: set[asyncio.TimerHandle] = set()

    def _now(self) -> Instant:
        return Instant(self._wall(), self._clock())

    def handle(self, batch: Batch) -> None:
        """Pass a batch to the controllers; ignored before ``run``, which reads all objects."""
        if self._started and batch.events:
            self._dispatch.pass_on(batch.events, self._now())
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises FenceLost when the term is over.
        """
        await self._informer.synced.wait()
        self._started = True
        try:
            await self._start(*self._controllers)
            await self._run_tasks()
        finally:
            self._started = False
            for timer in self._retries:
                timer.cancel()
            self._retries.clear()

    async def _start(self, *controllers: Controller) -> None:
        """Start controllers, yielding to other tasks: 20,000 pods take 0.15 to 0.5 s."""
        turn = Turn()
        for _ in self._dispatch.start(controllers, self._objects, self._now()):
            if turn.is_over:
                await turn.give_way()

    async def _run_tasks(self) -> None:
        tasks = TaskSet("controllers")
        self._queues.start(tasks)
        tasks.start(self._others.run(self.handle), "informer of owned objects", endless=True)
        tasks.start(self._start_late(), "start of the garbage collector")
        tasks.start(self._work(), "controllers", endless=True)
        await tasks.run()

    async def _stand_in(self, now: Instant) -> float | None:
        """Start or stop the controllers that stand in for a kube-controller-manager.

        Return the time (monotonic) at which its Lease expires; None if it has expired.
        """
        lease = self._informer.get("Lease", CONTROLLER_MANAGER_LEASE)
        left = held_until(lease) - now.wall
        for name, make in self._stand_ins.items():
            wanted = self._settings.runs(name, elsewhere=left > 0)
            if wanted and name not in self._standing_in:
                _log.debug("A controller starts", controller=name)
                controller = self._standing_in[name] = make()
                self._dispatch.add(controller)
                await self._start(controller)
            elif not wanted and name in self._standing_in:
                _log.info("A kube-controller-manager runs, a controller stops", controller=name)
                self._dispatch.remove(self._standing_in.pop(name))
        return now.monotonic + left if left > 0 else None

    async def _start_late(self) -> None:
        """Start the controllers that read all kinds, once the objects of all kinds are listed."""
        await self._others.synced.wait()
        for controller in self._late:
            # Before it reads the objects, so that it misses no change meanwhile.
            self._dispatch.add(controller)
        await self._start(*self._late)
        # They work only now: before it knows all dependents, the garbage collector would take
        # owners for free of them.
        self._controllers += self._late
        self._wake.set()

    async def _work(self) -> None:
        turn = Turn()
        while True:
            await turn.wait()
            # Before the work, so that changes that come during it begin another round.
            self._wake.clear()
            now = self._now()
            due = await self._stand_in(now)
            for controller in (*self._controllers, *self._standing_in.values()):
                due = earliest(due, controller.work(now))
                if turn.is_over:
                    await turn.give_way()
            turn.end()
            left = None if due is None else max(_LEAST_WAIT, due - self._clock())
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
                    # Within the timeout, so that what is due does not wait for further changes.
                    await asyncio.sleep(_COALESCE)
            except TimeoutError:
                continue

    def _retry_later(self, retry: Callable[[], None], wait: float) -> None:
        def fire() -> None:
            self._retries.discard(timer)
            retry()
            self._wake.set()

        timer = asyncio.get_running_loop().call_later(wait, fire)
        self._retries.add(timer)
