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
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import AnyObject, Pod
from podsched.api.owners import CONTROLLER_MANAGER_LEASE, held_until
from podsched.config.settings import ControllerSettings
from podsched.lib.event_loop import Turn
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import ControlledCluster, InformerPort
from podsched.serve.client.informer import Batch, Event
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant, earliest, is_bare, stays_bare
from podsched.term.controllers.device_taint_eviction import DeviceTaintEvictionController
from podsched.term.controllers.disruption import DisruptionController
from podsched.term.controllers.ephemeral_volumes import EphemeralVolumeController
from podsched.term.controllers.garbage_collector import COLLECTED_KINDS, GarbageCollector
from podsched.term.controllers.jobs import JobController
from podsched.term.controllers.namespace_objects import RootCaPublisher, ServiceAccountController
from podsched.term.controllers.namespaces import NamespaceController
from podsched.term.controllers.node_lifecycle import NodeLifecycleController
from podsched.term.controllers.pod_gc import PodGarbageCollector
from podsched.term.controllers.pod_group_protection import PodGroupProtectionController
from podsched.term.controllers.replica_sets import ReplicaSetController
from podsched.term.controllers.resource_claims import ResourceClaimController
from podsched.term.controllers.taint_eviction import TaintEvictionController
from podsched.term.controllers.ttl_after_finished import TtlAfterFinishedController
from podsched.term.controllers.write_queues import WriteQueues, Writes
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1.api_pb2 import Fence

_OTHER_KINDS = tuple(kind for kind in COLLECTED_KINDS if kind not in WATCHED_KINDS)
_log = get_logger("controllers")
#: Seconds for which changes are collected before the controllers work, if none has work left.
_COALESCE = 0.02
#: Min seconds between two rounds of work. A smaller wait might never reach its time by rounding.
_LEAST_WAIT = 0.001
_MOST_FAULTS = 1000
#: Controllers that need nothing but objects and writes.
_PLAIN: tuple[type[Any], ...] = (
    DisruptionController,
    NamespaceController,
    EphemeralVolumeController,
    PodGroupProtectionController,
)


class _AllObjects:
    """``Objects`` of all kinds, from two informers."""

    def __init__(self, informer: InformerPort, others: InformerPort) -> None:
        self._informer = informer
        self._others = others

    def objects(self, kind: str) -> Mapping[str, AnyObject]:
        return (self._others if kind in _OTHER_KINDS else self._informer).objects(kind)

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.objects(kind).get(key)


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
        root_ca: str = "",
        metrics: ControllerMetrics | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._informer = informer
        self._metrics = metrics
        self._wall = now
        self._clock = clock
        self._skipped: set[tuple[str, str, str, str]] = set()
        self._queues = WriteQueues(
            cluster,
            fence,
            settings.writes_per_second,
            clock=clock,
            count=self._count,
            retry_later=self._retry_later,
        )
        self._settings = settings
        self._stand_ins: Mapping[str, Callable[[], Controller]] = {
            ReplicaSetController.name: partial(self._made, ReplicaSetController, recorder),
            JobController.name: partial(
                self._made, JobController, recorder, gangs=settings.job_gangs
            ),
            TtlAfterFinishedController.name: partial(self._made, TtlAfterFinishedController),
        }
        self._standing_in: dict[str, Controller] = {}
        self._controllers: Sequence[Controller] = self._chosen(recorder, metrics)
        self._others = cluster.informer(_OTHER_KINDS, metadata_only=True)
        self._late = self._late_controllers(root_ca)
        self._by_kind: dict[str, list[Controller]] = {}
        for controller in self._controllers:
            self._register(controller)
        #: The keys of pods that were bare in the last event that was passed on.
        self._bare: set[str] = set()
        self._started = False
        self._wake = asyncio.Event()
        #: Pending retries; cancelled when the term ends.
        self._retries: set[asyncio.TimerHandle] = set()

    def _late_controllers(self, root_ca: str) -> list[Controller]:
        """Return the controllers that need the metadata of all kinds."""
        every = _AllObjects(self._informer, self._others)
        found: list[Controller] = [
            cls(every, self._writes_of(cls.name))
            for cls in (GarbageCollector, ServiceAccountController)
            if self._settings.runs(cls.name)
        ]
        if root_ca and self._settings.runs(RootCaPublisher.name):
            found.append(RootCaPublisher(every, self._writes_of(RootCaPublisher.name), root_ca))
        return found

    def _made(
        self, controller: Callable[..., Controller], *parts: object, **options: object
    ) -> Controller:
        name: str = controller.name  # type: ignore[attr-defined]
        return controller(self._informer, self._writes_of(name), *parts, **options)

    def _chosen(
        self, recorder: EventRecorder, metrics: ControllerMetrics | None
    ) -> list[Controller]:
        """Return the controllers that run throughout the term."""
        runs, made = self._settings.runs, self._made
        found = [made(cls) for cls in _PLAIN if runs(cls.name)]
        pods_on: Callable[[str], Collection[str]] = self._pods_on
        if runs(TaintEvictionController.name):
            evictor = made(TaintEvictionController, recorder, metrics)
            assert isinstance(evictor, TaintEvictionController)
            pods_on = evictor.pods_on
            found.append(evictor)
        if runs(DeviceTaintEvictionController.name):
            found.append(made(DeviceTaintEvictionController, recorder, metrics))
        if runs(NodeLifecycleController.name):
            found.append(made(NodeLifecycleController, self._settings, pods_on))
        if runs(PodGarbageCollector.name):
            found.append(made(PodGarbageCollector, self._settings))
        if runs(ResourceClaimController.name):
            found.append(made(ResourceClaimController, recorder))
        return found

    def _pods_on(self, node: str) -> Collection[str]:
        pods = self._informer.objects("Pod")
        return [
            key for key, pod in pods.items() if isinstance(pod, Pod) and pod.spec.node_name == node
        ]

    def _register(self, controller: Controller) -> None:
        for kind in controller.kinds:
            self._by_kind.setdefault(kind, []).append(controller)

    def _writes_of(self, controller: str) -> Writes:
        return Writes(controller, self._queues, self._skip)

    def _now(self) -> Instant:
        return Instant(self._wall(), self._clock())

    def handle(self, batch: Batch) -> None:
        """Pass a batch to the controllers; ignored before ``run``, which reads all objects."""
        if not self._started:
            return
        now = self._now()
        concerned_by_bare: list[Controller] | None = None
        for event in batch.events:
            controllers = self._by_kind.get(event.kind, [])
            if event.kind == "Pod" and self._stays_bare(event):
                if concerned_by_bare is None:
                    concerned_by_bare = [one for one in controllers if not one.ignores_bare_pods]
                controllers = concerned_by_bare
            else:
                # Which controllers ignore bare pods may change with any other event.
                concerned_by_bare = None
            for controller in controllers:
                try:
                    controller.changed(event, now)
                except Exception as error:
                    self._skip(controller.name, event.kind, event.key, error)
        if batch.events:
            self._wake.set()

    def _stays_bare(self, event: Event) -> bool:
        """Whether a bare pod is new, or has changed and is the same pod, still bare."""
        old, new, key = event.old, event.new, event.key
        if isinstance(new, Pod):
            # Reading the old pod again would cost as much as the new one.
            was_bare = key in self._bare
            if was_bare and old is not None and old.metadata.uid == new.metadata.uid:
                if stays_bare(new):
                    return True
            elif is_bare(new):
                self._bare.add(key)
                return old is None
        self._bare.discard(key)
        return False

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
        """Start controllers, yielding to other tasks: with 20,000 pods it takes 0.15 s."""
        now, turn = self._now(), Turn()
        for controller in controllers:
            for _ in controller.start(now):
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
                self._register(controller)
                await self._start(controller)
            elif not wanted and name in self._standing_in:
                _log.info("A kube-controller-manager runs, a controller stops", controller=name)
                gone = self._standing_in.pop(name)
                for listening in self._by_kind.values():
                    listening[:] = [other for other in listening if other is not gone]
        return now.monotonic + left if left > 0 else None

    async def _start_late(self) -> None:
        """Start the controllers that read all kinds, once the objects of all kinds are listed."""
        await self._others.synced.wait()
        for controller in self._late:
            self._register(controller)
        await self._start(*self._late)
        self._controllers = (*self._controllers, *self._late)
        self._wake.set()

    async def _work(self) -> None:
        turn = Turn()
        while True:
            await turn.wait()
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

    def _skip(self, controller: str, kind: str, key: str, error: Exception) -> None:
        """Log and count an object that a controller cannot handle; each bug is logged once."""
        self._count(controller, "error")
        fault = (controller, kind, key, repr(error))
        if fault in self._skipped:
            return
        if len(self._skipped) == _MOST_FAULTS:
            self._skipped.clear()
        self._skipped.add(fault)
        _log.warning(
            "An object is skipped",
            controller=controller,
            kind=kind,
            name=key,
            error=repr(error),
            exc_info=error,
        )

    def _count(self, controller: str, result: str) -> None:
        if self._metrics is not None:
            self._metrics.reconciles_total.labels(controller, result).inc()
