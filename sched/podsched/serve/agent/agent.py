"""Simulates hollow nodes: watches nodes and pods, and executes what other modules decide.

``nodes``, ``pods`` and ``admission`` decide (pure). This module does the I/O, with
``registering`` and ``heartbeats``.

    event                    action
    simulated node appears   create and renew its lease, ``repair`` it, handle its pods
    node becomes silent      stop renewing its lease; do not change its pods
    node no longer silent    make it Ready again, handle its pods
    node deleted             delete its lease and its ResourceSlices; the pod garbage collector
                             deletes its pods
    node or slice changed    publish the devices of the node's annotation (``devices``)
    pod changed              ``pods.step`` now, and again at the time that it returns

Guarantees: each write is decided on the newest state seen. A failed write is decided again. An
object that cannot be handled is logged, and ignored until it changes. During an outage of the API
the agent waits. It keeps no state that cannot be restored from the API.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from podsched.api.conditions import is_finished, is_node_ready
from podsched.api.hollow_nodes import DEVICES_ANNOTATION
from podsched.api.objects import Node, Pod
from podsched.config.settings import AgentSettings
from podsched.lib.tasks import TaskSet
from podsched.serve.agent import pods
from podsched.serve.agent.admission import Admission
from podsched.serve.agent.devices import DevicePublisher
from podsched.serve.agent.heartbeats import Heartbeats
from podsched.serve.agent.nodes import is_silent, nodes_of_settings, repair
from podsched.serve.agent.registering import register
from podsched.serve.agent.start_traces import StartTraces
from podsched.serve.agent.volume_controller import VOLUME_KINDS, VolumeController
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.errors import Conflict, NotFound
from podsched.serve.client.informer import Batch, Event, Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import AgentMetrics
from podsched.telemetry.tracing import DISABLED, Tracer
from podsched.v1 import api_pb2 as v1

_log = get_logger("agent")
#: Seconds before an object is handled again after a failed write: by a conflict, by other errors.
_RETRY_CONFLICT, _RETRY_ERROR = 0.2, 10.0


def _devices_differ(old: Node, new: Node) -> bool:
    """Whether a node is another one, or has another annotation of devices."""
    before, after = (of.metadata.annotations.get(DEVICES_ANNOTATION) for of in (old, new))
    return before != after or old.metadata.uid != new.metadata.uid


def _skip(kind: str, key: str, error: Exception) -> None:
    """Log an object that cannot be handled; it is left alone until it changes."""
    _log.warning("Skipped an object that cannot be handled", kind=kind, name=key, exc_info=error)


def _was_ready(event: Event) -> bool:
    return not isinstance(event.old, Node) or is_node_ready(event.old.status)


class Agent:
    """Simulates the hollow nodes of the settings and ``nodes``: ``start``, ``wait``, ``stop``.

    ``now`` returns Unix time in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: AgentSettings,
        nodes: Sequence[Node] = (),
        *,
        metrics: AgentMetrics | None = None,
        tracer: Tracer = DISABLED,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._traces = StartTraces(tracer)
        self._now = now
        self._given = [*nodes_of_settings(settings), *nodes]
        self._names = {node.metadata.name for node in self._given}
        volume_kinds = VOLUME_KINDS if settings.volume_controller else ()
        self._informer = Informer(client, ["ResourceSlice", "Node", "Pod", *volume_kinds])
        self._devices = DevicePublisher(client, self._informer, self._publish_later)
        self._volumes: VolumeController | None = None
        if settings.volume_controller:
            self._volumes = VolumeController(
                client, self._informer, provisioners=settings.provisioners
            )
        self._heartbeats = Heartbeats(
            client, self._informer, settings.heartbeat_period, now, metrics
        )
        self._simulated: dict[str, bool] = {}
        """The simulated nodes, and whether they are silent."""
        self._pods_on: dict[str, dict[str, None]] = {}
        self._admission = Admission()
        self._first_seen = FirstSeen()
        self._phases = PhaseCounts(metrics) if metrics is not None else None
        self._timers = Timers(now)
        self._statuses = Outbox(self._send_statuses, self._status_answered)
        self._removals = Outbox(client.evict_pods, partial(self._answered, "Pod"))
        self._node_patches = Outbox(client.patch_many, partial(self._answered, "Node"))
        self._tasks = TaskSet("agent")
        self._running: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ start and stop

    async def start(self) -> None:
        """Register and simulate the nodes; return when the watch has delivered all of them.

        Raises ``AgentError`` if a node is rejected.
        """
        await register(self._client, self._given, self._now)
        runs: dict[str, Coroutine[Any, Any, None]] = {
            "agent informer": self._informer.run(self._handle),
            **self._heartbeats.runs(),
            "agent timers": self._run_timers(),
            "agent pod statuses": self._statuses.run(),
            "agent removals": self._removals.run(),
            "agent node statuses": self._node_patches.run(),
            "agent devices": self._devices.creations.run(),
            "agent old devices": self._devices.deletions.run(),
        }
        if self._volumes is not None:
            runs["volume controller"] = self._volumes.run()
        for name, run in runs.items():
            self._tasks.start(run, name, endless=True)
        self._running = asyncio.create_task(self._tasks.run(), name="agent")
        synced = asyncio.create_task(self._informer.synced.wait(), name="await informer")
        await asyncio.wait({synced, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not synced.done():
            synced.cancel()
            await self._running
        _log.info("Playing hollow nodes", nodes=len(self._simulated))

    async def wait(self) -> None:
        """Wait until ``stop`` is called, or until a task ends unexpectedly; raise its error."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def stop(self) -> None:
        """Stop; the nodes send no more heartbeats, and another agent can take over."""
        self._tasks.end()
        await self._tasks.stop()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    @property
    def ready(self) -> bool:
        """Whether all nodes are registered and watched."""
        return self._informer.synced.is_set()

    @property
    def nodes(self) -> Sequence[str]:
        """The simulated nodes, including silent ones."""
        return list(self._simulated)

    # ------------------------------------------------------------------ events

    def _handle(self, batch: Batch) -> None:
        for event in batch.events:
            try:
                self._handle_event(event)
            except Exception as error:
                _skip(event.kind, event.key, error)

    def _handle_event(self, event: Event) -> None:
        if event.kind == "Pod":
            self._pod_changed(event)
        elif event.kind == "Node":
            self._node_changed(event)
        elif event.kind == "ResourceSlice":
            self._publish(self._devices.changed(event))
        elif self._volumes is not None:
            self._volumes.changed(event)

    def _node_changed(self, event: Event) -> None:
        """Begin, end or interrupt the simulation of a node; see the table above."""
        name = event.key
        if event.new is None:
            if self._simulated.pop(name, None) is not None:
                self._heartbeats.end(name)
                self._devices.withdraw(name)
                self._count_nodes()
            return
        if not self._settings.adopt and name not in self._names:
            return
        node = cast(Node, event.new)
        silent, was_silent = is_silent(node), self._simulated.get(name)
        self._simulated[name] = silent
        if event.old is None or _devices_differ(cast(Node, event.old), node):
            self._publish(name)
        if silent:
            self._heartbeats.pause(name)
            self._count_nodes()
            return
        if was_silent is None or was_silent:
            self._heartbeats.begin(name)
            self._count_nodes()
            self._handle_pods_of(name)
        elif is_node_ready(node.status) and not _was_ready(event):
            self._handle_pods_of(name)
        self._repair(node, resumed=bool(was_silent))

    def _repair(self, node: Node, *, resumed: bool = False) -> None:
        patch = repair(node, self._now(), resumed=resumed)
        if patch:
            self._node_patches.put(node.metadata.name, object_patch(node, patch))

    def _publish(self, node: str) -> None:
        """Publish the devices of a node if it is simulated here."""
        found = self._informer.get("Node", node)
        if found is not None and node in self._simulated:
            self._devices.publish(cast(Node, found))

    def _publish_later(self, node: str) -> None:
        self._timers.set("Node", node, self._now() + _RETRY_ERROR)

    def _pod_changed(self, event: Event) -> None:
        """Update what is recorded of a pod, and execute its next step."""
        old, new = cast(Pod | None, event.old), cast(Pod | None, event.new)
        key = event.key
        before = old.spec.node_name if old is not None else ""
        after = new.spec.node_name if new is not None else ""
        if before and before != after:
            self._pods_on.get(before, {}).pop(key, None)
        if after and before != after:
            self._pods_on.setdefault(after, {})[key] = None
        if self._phases is not None:
            self._phases.count(key, new if after in self._simulated else None)
        if new is None:
            self._traces.gone(key)
        elif pods.is_waiting(new) and self._simulated.get(after) is False:
            self._traces.seen(key, new)
        if new is None or is_finished(new):
            self._admission.release(key)
        elif after and not pods.is_waiting(new):
            self._admission.add_running(key, new)
        if new is None:
            self._first_seen.forget(key)
            self._statuses.drop(key)
            self._removals.drop(key)
        elif after:
            self._handle_pod(key, new)

    def _handle_pods_of(self, node: str) -> None:
        for key in list(self._pods_on.get(node, ())):
            pod = self._informer.get("Pod", key)
            if pod is not None:
                self._handle_pod(key, cast(Pod, pod))

    def _handle_pod(self, key: str, pod: Pod) -> None:
        """Execute the next step of a bound pod."""
        if self._simulated.get(pod.spec.node_name, True):
            return  # the node is not simulated here, or silent
        now = self._now()
        node = self._informer.get("Node", pod.spec.node_name)
        if isinstance(node, Node) and pods.is_waiting(pod):
            if not self._informer.synced.is_set():
                # Handle pods that already run first, regardless of their order in the list.
                self._timers.set("Pod", key, now)
                return
            rejection = self._admission.admit(key, pod, node)
            if rejection is not None:
                self._statuses.put(key, pods.rejected(pod, rejection))
                return
        action = pods.step(
            pod,
            self._first_seen.since(key, pod, now),
            now,
            self._settings.run_delay,
            node_ready=isinstance(node, Node) and is_node_ready(node.status),
            job_seconds=self._settings.job_seconds,
        )
        if isinstance(action, v1.PatchRequest):
            self._statuses.put(key, action)
        elif isinstance(action, v1.EvictRequest):
            self._statuses.drop(key)
            self._removals.put(key, action)
        elif isinstance(action, pods.Later):
            self._timers.set("Pod", key, action.at)

    # ------------------------------------------------------------------ timers

    async def _run_timers(self) -> None:
        await self._informer.synced.wait()
        await self._timers.run(self._timer_fired)

    def _timer_fired(self, kind: str, key: str) -> None:
        try:
            self._handle_again(kind, key)
        except Exception as error:
            _skip(kind, key, error)

    def _handle_again(self, kind: str, key: str) -> None:
        item = self._informer.get(kind, key)
        if isinstance(item, Pod) and item.spec.node_name:
            self._handle_pod(key, item)
        elif isinstance(item, Node):
            self._publish(key)
            if self._simulated.get(key) is False:
                self._repair(item)

    # ------------------------------------------------------------------ results of writes

    async def _send_statuses(self, patches: Sequence[v1.PatchRequest]) -> Sequence[v1.BatchResult]:
        return await self._client.patch_many(patches, traceparent=self._traces.contexts(patches))

    def _status_answered(self, key: str, _: object, result: v1.BatchResult) -> None:
        self._traces.answered(key, cast(Pod | None, self._informer.get("Pod", key)), result.code)
        self._answered("Pod", key, _, result)

    def _answered(self, kind: str, key: str, _: object, result: v1.BatchResult) -> None:
        """Handle an object again after a failed write, once its new state should have arrived."""
        failed = errors.of_result(result)
        if failed is None or isinstance(failed, NotFound):
            return
        wait = _RETRY_CONFLICT
        if not isinstance(failed, Conflict):
            _log.warning("Write failed", kind=kind, name=key, error=str(failed))
            wait = _RETRY_ERROR
        self._timers.set(kind, key, self._now() + wait)

    # ------------------------------------------------------------------ metrics

    def _count_nodes(self) -> None:
        if self._metrics is not None:
            self._metrics.nodes.set(len(self._simulated))


class Timers:
    """A heap of times, each with the kind and the key of an object.

    ``now`` returns Unix time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._heap: list[tuple[float, str, str]] = []
        self._earlier = asyncio.Event()

    def set(self, kind: str, key: str, at: float) -> None:
        """Handle an object at this time; other times of the object stay."""
        heapq.heappush(self._heap, (at, kind, key))
        if self._heap[0][0] == at:
            self._earlier.set()

    async def run(self, handle: Callable[[str, str], None]) -> None:
        """Call ``handle`` with kind and key at the times that are set."""
        while True:
            self._earlier.clear()
            now = self._now()
            while self._heap and self._heap[0][0] <= now:
                _, kind, key = heapq.heappop(self._heap)
                handle(kind, key)
            left = self._heap[0][0] - self._now() if self._heap else None
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._earlier.wait()


class _Seen(NamedTuple):
    """A pod's state, and the time at which it was first seen in it."""

    state: tuple[str, str, int]
    since: float


class FirstSeen:
    """The times, by key of the pod, at which pods were first seen in their present states."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def since(self, key: str, pod: Pod, now: float) -> float:
        """Return the time at which the pod was first seen in its present state."""
        metadata = pod.metadata
        deleting = metadata.HasField("deletion_timestamp")
        mark = 1 + metadata.deletion_grace_period_seconds if deleting else 0
        state = (metadata.uid, pod.status.phase, mark)
        seen = self._seen.get(key)
        if seen is None or seen.state != state:
            seen = self._seen[key] = _Seen(state, now)
        return seen.since

    def forget(self, key: str) -> None:
        """Forget a pod that is gone."""
        self._seen.pop(key, None)


class PhaseCounts:
    """The number of pods of each phase, for the gauge."""

    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics
        self._phases: dict[str, str] = {}

    def count(self, key: str, pod: Pod | None) -> None:
        """Count a pod in its present phase; None: it is not counted any more."""
        before = self._phases.pop(key, None)
        if before is not None:
            self._metrics.pods.labels(before).inc(-1)
        if pod is not None:
            phase = self._phases[key] = pod.status.phase or "Pending"
            self._metrics.pods.labels(phase).inc()
