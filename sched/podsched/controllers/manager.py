"""The manager that runs the controllers while this replica leads.

``handle`` gets every batch of the scheduler's informer, ``run`` lasts as long as the term.
Guarantees: every write carries the fence; evictions and deletions are rate limited; a write that
fails is decided anew by the controller that asked for it; an object that a controller cannot handle
is logged, counted and left alone until it changes; nothing is kept from one term to the next,
timers and tasks included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from podsched.api.reasons import StatusCode
from podsched.client import errors
from podsched.client.cluster import Cluster, InformerPort
from podsched.client.errors import Conflict, FenceLost, NotFound
from podsched.client.informer import Batch
from podsched.client.outbox import Outbox
from podsched.config.settings import ControllerSettings
from podsched.controllers.controller import Controller, Instant, Recorder, earliest
from podsched.controllers.disruption import DisruptionController
from podsched.controllers.node_lifecycle import NodeLifecycleController
from podsched.controllers.pod_gc import PodGarbageCollector
from podsched.controllers.rate import TokenBucket
from podsched.controllers.taint_eviction import TaintEvictionController
from podsched.lib.tasks import TaskSet
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.v1.api_pb2 import BatchResult, EvictRequest, Fence, PatchRequest

WATCHED_KINDS = (
    "Lease",
    "Node",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "PodDisruptionBudget",
    "Pod",
)
"""The kinds that the informer has to watch."""
_log = get_logger("controllers")
_COALESCE = 0.02
#: Least seconds between two rounds of work: what is due in less may be due never, by rounding.
_LEAST_WAIT = 0.001
"""Seconds in which changes gather before they are worked on."""
_EVICT_AT_ONCE = 20
_RETRY_CONFLICT, _RETRY_ERROR = 0.2, 5.0
_MOST_FAULTS = 1000

T = TypeVar("T")


class _QueuedWrite(NamedTuple, Generic[T]):
    """A write, the controller that asked for it, and what to do when it fails."""

    controller: str
    request: T
    retry: Callable[[], None]
    without_node: str = ""


class _ControllerWrites:
    """The ``Writes`` of one controller: it puts them into the outboxes that all share."""

    def __init__(
        self,
        controller: str,
        patches: Outbox[_QueuedWrite[PatchRequest]],
        evictions: Outbox[_QueuedWrite[EvictRequest]],
        skipped: Callable[[str, str, str, Exception], None],
    ) -> None:
        self.controller = controller
        self._patches = patches
        self._evictions = evictions
        self._skipped = skipped

    def patch(self, key: str, request: PatchRequest, retry: Callable[[], None]) -> None:
        write = _QueuedWrite(self.controller, request, retry)
        self._patches.put(f"{self.controller} {request.kind} {key}", write)

    def evict(
        self, key: str, request: EvictRequest, retry: Callable[[], None], *, without_node: str = ""
    ) -> None:
        write = _QueuedWrite(self.controller, request, retry, without_node)
        self._evictions.put(f"{self.controller} {key}", write)

    def cancel_eviction(self, key: str) -> None:
        self._evictions.drop(f"{self.controller} {key}")

    def skipped(self, kind: str, key: str, error: Exception) -> None:
        self._skipped(self.controller, kind, key, error)


class ControllerManager:
    """All controllers, for one term.

    ``informer`` must watch WATCHED_KINDS, and its batches must go to ``handle``; ``now`` and
    ``clock`` give Unix time and monotonic time in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        informer: InformerPort,
        settings: ControllerSettings,
        fence: Fence,
        recorder: Recorder,
        *,
        metrics: ControllerMetrics | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._informer = informer
        self._fence = fence
        self._metrics = metrics
        self._wall = now
        self._clock = clock
        self._skipped: set[tuple[str, str, str, str]] = set()
        self._limit = TokenBucket(settings.writes_per_second, burst=_EVICT_AT_ONCE)
        self._patches: Outbox[_QueuedWrite[PatchRequest]] = Outbox(
            self._send_patches, self._answered
        )
        self._evictions: Outbox[_QueuedWrite[EvictRequest]] = Outbox(
            self._send_evictions, self._answered, most=_EVICT_AT_ONCE
        )
        evictor = TaintEvictionController(
            informer, self._writes_of(TaintEvictionController.name), recorder, metrics
        )
        lifecycle = self._writes_of(NodeLifecycleController.name)
        self._controllers: Sequence[Controller] = (
            DisruptionController(informer, self._writes_of(DisruptionController.name)),
            evictor,
            NodeLifecycleController(informer, lifecycle, settings, evictor.pods_on),
            PodGarbageCollector(informer, self._writes_of(PodGarbageCollector.name), settings),
        )
        self._by_kind: dict[str, list[Controller]] = {kind: [] for kind in WATCHED_KINDS}
        for controller in self._controllers:
            for kind in controller.kinds:
                self._by_kind[kind].append(controller)
        self._started = False
        self._wake = asyncio.Event()
        #: Retries that wait for their time; they end with the term.
        self._retries: set[asyncio.TimerHandle] = set()

    def _writes_of(self, controller: str) -> _ControllerWrites:
        return _ControllerWrites(controller, self._patches, self._evictions, self._skip)

    def _now(self) -> Instant:
        return Instant(self._wall(), self._clock())

    def handle(self, batch: Batch) -> None:
        """Take in a batch of the informer; ignored before ``run``, which reads all there is."""
        if not self._started:
            return
        now = self._now()
        for event in batch.events:
            for controller in self._by_kind.get(event.kind, ()):
                try:
                    controller.changed(event, now)
                except Exception as error:
                    self._skip(controller.name, event.kind, event.key, error)
        if batch.events:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises FenceLost when the term is over.
        """
        await self._informer.synced.wait()
        now = self._now()
        for controller in self._controllers:
            controller.start(now)
        self._started = True
        try:
            await self._run_tasks()
        finally:
            self._started = False
            for timer in self._retries:
                timer.cancel()
            self._retries.clear()

    async def _run_tasks(self) -> None:
        tasks = TaskSet("controllers")
        tasks.start(self._patches.run(), "controller patches", endless=True)
        tasks.start(self._evictions.run(), "controller evictions", endless=True)
        tasks.start(self._work(), "controllers", endless=True)
        await tasks.run()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            now = self._now()
            due = earliest(*(controller.work(now) for controller in self._controllers))
            left = None if due is None else max(_LEAST_WAIT, due - self._clock())
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_COALESCE)

    # ------------------------------------------------------------------ writing

    async def _send_patches(
        self, batch: Sequence[_QueuedWrite[PatchRequest]]
    ) -> Sequence[BatchResult]:
        return await self._cluster.patch_many([write.request for write in batch], fence=self._fence)

    async def _send_evictions(
        self, batch: Sequence[_QueuedWrite[EvictRequest]]
    ) -> Sequence[BatchResult]:
        await asyncio.sleep(self._limit.reserve(len(batch), self._clock()))
        names = {write.without_node for write in batch} - {""}
        there = {name for name in names if not await self._is_gone(name)}
        due = [write.request for write in batch if write.without_node not in there]
        results = await self._cluster.evict_pods(due, fence=self._fence) if due else ()
        answers = iter(results)
        kept = BatchResult(code=StatusCode.NOT_FOUND, message="nothing to evict: the node is there")
        return [kept if write.without_node in there else next(answers) for write in batch]

    async def _is_gone(self, node: str) -> bool:
        try:
            await self._cluster.get("Node", node)
        except NotFound:
            return True
        except errors.ClientError as error:
            _log.warning("Pods of a missing node are kept", node=node, error=str(error))
        return False

    def _answered(self, key: str, write: _QueuedWrite[T], result: BatchResult) -> None:
        failed = errors.of_result(result)
        if isinstance(failed, FenceLost):
            raise failed
        self._count(write.controller, "written" if failed is None else "error")
        if failed is None or isinstance(failed, NotFound):
            return
        wait = _RETRY_CONFLICT
        if not isinstance(failed, Conflict):
            _log.warning("A write failed", name=key, error=str(failed))
            wait = _RETRY_ERROR

        self._retry_later(write.retry, wait)

    def _retry_later(self, retry: Callable[[], None], wait: float) -> None:
        def fire() -> None:
            self._retries.discard(timer)
            retry()
            self._wake.set()

        timer = asyncio.get_running_loop().call_later(wait, fire)
        self._retries.add(timer)

    def _skip(self, controller: str, kind: str, key: str, error: Exception) -> None:
        """Log and count an object that a controller cannot handle; a fault is logged once."""
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
