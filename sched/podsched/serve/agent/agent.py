"""Simulates hollow nodes: watches nodes and pods, and executes what other modules decide.

``nodes``, ``pods`` and ``admission`` decide (pure). This module, ``simulated_pods`` and
``heartbeats`` do the I/O.

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
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, cast

from podsched.api.conditions import is_node_ready
from podsched.api.hollow_nodes import DEVICES_ANNOTATION
from podsched.api.objects import Node, Pod
from podsched.config.settings import AgentSettings
from podsched.lib.tasks import TaskSet
from podsched.serve.agent.devices import DevicePublisher
from podsched.serve.agent.heartbeats import Heartbeats
from podsched.serve.agent.nodes import (
    AgentError,
    is_silent,
    nodes_of_settings,
    registration,
    repair,
)
from podsched.serve.agent.simulated_pods import SimulatedPods
from podsched.serve.agent.timers import Timers
from podsched.serve.agent.volume_controller import VOLUME_KINDS, VolumeController
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.errors import AlreadyExists, ClientError
from podsched.serve.client.informer import Batch, Event, Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import AgentMetrics
from podsched.telemetry.tracing import DISABLED, Tracer
from podsched.v1 import api_pb2 as v1

_log = get_logger("agent")
#: Nodes registered in one call.
_BATCH = 500


def _devices_differ(old: Node, new: Node) -> bool:
    """Whether a node is another one, or has another annotation of devices."""
    before, after = (of.metadata.annotations.get(DEVICES_ANNOTATION) for of in (old, new))
    return before != after or old.metadata.uid != new.metadata.uid


def _skip(kind: str, key: str, error: Exception) -> None:
    """Log an object that cannot be handled; it is left alone until it changes."""
    _log.warning("Skipped an object that cannot be handled", kind=kind, name=key, exc_info=error)


class Agent:
    """Simulates the hollow nodes of the settings and ``nodes``: ``start``, ``wait``, ``stop``."""

    def __init__(
        self,
        client: ApiClient,
        settings: AgentSettings,
        nodes: Sequence[Node] = (),
        *,
        metrics: AgentMetrics,
        tracer: Tracer = DISABLED,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._given = [*nodes_of_settings(settings), *nodes]
        self._names = {node.metadata.name for node in self._given}
        volume_kinds = VOLUME_KINDS if settings.volume_controller else ()
        self._informer = Informer(client, ["ResourceSlice", "Node", "Pod", *volume_kinds])
        self._timers = Timers(time.time)
        retry = partial(self._timers.try_later, "Node")
        self._devices = DevicePublisher(client, self._informer, retry)
        self._volumes: VolumeController | None = None
        if settings.volume_controller:
            self._volumes = VolumeController(
                client, self._informer, provisioners=settings.provisioners
            )
        self._heartbeats = Heartbeats(client, self._informer, settings.heartbeat_period, metrics)
        self._simulated: dict[str, bool] = {}
        """The simulated nodes, and whether they are silent."""
        self._pods = SimulatedPods(
            client, self._informer, settings, self._simulated, self._timers, metrics, tracer
        )
        self._node_patches = Outbox(client.patch_many, partial(self._timers.answered, "Node"))
        self._tasks = TaskSet("agent")
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register and simulate the nodes; return when the watch has delivered all of them.

        Raises ``AgentError`` if a node is rejected.
        """
        await _register(self._client, self._given)
        runs: dict[str, Coroutine[Any, Any, None]] = {
            "agent informer": self._informer.run(self._handle),
            **self._heartbeats.runs(),
            "agent timers": self._timers.run(self._informer.synced, self._handle_again),
            "agent pod statuses": self._pods.statuses.run(),
            "agent removals": self._pods.removals.run(),
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

    def _handle(self, batch: Batch) -> None:
        for event in batch.events:
            try:
                if event.kind == "Pod":
                    self._pods.changed(event)
                elif event.kind == "Node":
                    self._node_changed(event)
                elif event.kind == "ResourceSlice":
                    self._publish(self._devices.changed(event))
                elif self._volumes is not None:
                    self._volumes.changed(event)
            except Exception as error:
                _skip(event.kind, event.key, error)

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
        node, before = cast(Node, event.new), cast(Node | None, event.old)
        silent, was_silent = is_silent(node), self._simulated.get(name)
        self._simulated[name] = silent
        if before is None or _devices_differ(before, node):
            self._publish(name)
        if silent:
            self._heartbeats.pause(name)
            self._count_nodes()
            return
        if was_silent is None or was_silent:
            self._heartbeats.begin(name)
            self._count_nodes()
            self._pods.handle_all_of(name)
        elif before is not None and is_node_ready(node.status) and not is_node_ready(before.status):
            self._pods.handle_all_of(name)
        self._repair(node, resumed=bool(was_silent))

    def _repair(self, node: Node, *, resumed: bool = False) -> None:
        if patch := repair(node, time.time(), resumed=resumed):
            self._node_patches.put(node.metadata.name, object_patch(node, patch))

    def _publish(self, node: str) -> None:
        """Publish the devices of a node if it is simulated here."""
        found = self._informer.get("Node", node)
        if found is not None and node in self._simulated:
            self._devices.publish(cast(Node, found))

    def _handle_again(self, kind: str, key: str) -> None:
        try:
            item = self._informer.get(kind, key)
            if isinstance(item, Pod) and item.spec.node_name:
                self._pods.handle(key, item)
            elif isinstance(item, Node):
                self._publish(key)
                if self._simulated.get(key) is False:
                    self._repair(item)
        except Exception as error:
            _skip(kind, key, error)

    def _count_nodes(self) -> None:
        self._metrics.nodes.set(len(self._simulated))


async def _register(client: ApiClient, nodes: Sequence[Node]) -> None:
    """Create the nodes that do not exist; wait while the API or its store does not answer.

    Raises AgentError if a node is rejected.
    """

    async def send(batch: Sequence[Node]) -> Sequence[v1.BatchResult]:
        results = await client.create_many([registration(node, time.time()) for node in batch])
        for node, failed in zip(batch, map(errors.of_result, results), strict=True):
            if failed is None or isinstance(failed, AlreadyExists):
                continue
            if failed.retryable:
                # The outbox sends the batch again, in which those that were created exist.
                raise failed
            raise AgentError(f'node "{node.metadata.name}" was rejected: {failed}') from failed
        return results

    def given_up(_: Sequence[Node], error: ClientError) -> None:
        raise AgentError(f"cannot register nodes: {error}") from error

    outbox = Outbox(send, most=_BATCH, given_up=given_up)
    for node in nodes:
        outbox.put(node.metadata.name, node)
    while len(outbox):
        await outbox.flush(_BATCH)
