"""A scheduler replica: always warm, leading when it holds the lease.

standby --started leading--> catching up --informer has seen the term--> scheduling
   ^                                                                        |
   '------------ stopped leading, fence lost: cache and queue anew <--------'
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from podsched.actors.replica_actors import ReplicaActors
from podsched.actors.term_actors import ActorOptions
from podsched.app.process import Process
from podsched.app.replica_lease import ReplicaLease
from podsched.cache.changes import Anomaly
from podsched.client.api_client import ApiClient
from podsched.client.call_metrics import ClientTelemetry
from podsched.client.channels import ClientOptions
from podsched.client.errors import FenceLost
from podsched.client.informer import Batch, Event, EventType
from podsched.config.load import SchedulerConfiguration, to_public
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.controllers.manager import ControllerManager
from podsched.election.elector import LeaderElector
from podsched.election.events import StopReason
from podsched.election.options import ElectionCallbacks, ElectionOptions
from podsched.engine.cache_debugger import CacheDebugger
from podsched.engine.cycle.cycle_metrics import CycleMeter
from podsched.engine.cycle.placement import Placer
from podsched.engine.cycle.pre_bind import ClusterChanges
from podsched.engine.cycle.scheduling_loop import LoopParts, SchedulingLoop
from podsched.engine.extenders.calls import make_extenders
from podsched.engine.state import WATCHED_KINDS, SchedulingState, build_state
from podsched.engine.writes.event_recorder import EventRecorder
from podsched.engine.writes.fenced_writes import ClientBinder
from podsched.plugins.registry import factories
from podsched.store.endpoints import EtcdOptions
from podsched.store.etcd import connect
from podsched.telemetry.health import Probe
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics, ElectionMetrics
from podsched.v1 import api_pb2

_log = get_logger("replica")


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """Everything a replica is configured with."""

    config: SchedulerConfiguration
    settings: SchedulerSettings
    etcd: EtcdOptions
    election: ElectionOptions
    controllers: ControllerSettings
    client: ClientOptions = field(default_factory=ClientOptions)


def unique_identity(name: str) -> str:
    """``name_<random>``, after client-go's hostname_UUID; without a name the host's.

    Unique to the process: one that is started again under the same name must not be taken for the
    one before it, which may still be believed to lead.
    """
    return f"{name or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class Replica:
    """Wires election, informer, state and terms of one replica."""

    def __init__(self, process: Process, options: ReplicaOptions) -> None:
        self._process = process
        self._options = options
        self.identity = unique_identity(options.settings.identity)
        telemetry = ClientTelemetry(process.registry)
        self._client = ApiClient(options.settings.api_endpoints, options.client, observer=telemetry)
        self._informer = self._client.informer(WATCHED_KINDS)
        telemetry.follow(self._informer)
        self._meter = CycleMeter(process.registry, process.tracer)
        self._election_metrics = ElectionMetrics(process.registry)
        self._controller_metrics = ControllerMetrics(process.registry)
        self._changes = ClusterChanges()
        self._actors = ReplicaActors(
            ActorOptions(
                options.settings.evaluation,
                options.config.profiles,
                options.settings.api_endpoints,
                process.options.telemetry.otlp_endpoint,
                options.client,
            ),
            self._meter,
        )
        self._factories = factories()
        self._extenders = make_extenders(options.config.extenders)
        self._state = self._new_state()
        self._recorder = EventRecorder(
            self._client.record_events, self.identity, lambda: bool(self._term and self._term.busy)
        )
        self._term: SchedulingLoop | None = None
        self._controllers: ControllerManager | None = None
        self._term_task: asyncio.Task[None] | None = None
        process.registry.before_collect(self._collect)

    # ------------------------------------------------------------------ state

    def _new_state(self) -> SchedulingState:
        state = build_state(
            self._options.config,
            self._factories,
            seed=zlib.crc32(self.identity.encode()),
            max_in_unschedulable=self._options.settings.pod_max_in_unschedulable_pods_duration,
            observer=self._meter.queue,
            meter=self._meter.plugins,
        )
        state.callbacks.anomaly = self._log_anomaly
        state.callbacks.handled = self._meter.queue.handled
        return state

    def _rebuild(self) -> None:
        """Start over from what the informer knows: assumptions of a past term must not linger."""
        self._state = self._new_state()
        now = asyncio.get_running_loop().time()
        for kind in WATCHED_KINDS:
            for key, obj in self._informer.objects(kind).items():
                self._state.apply(Event(EventType.ADDED, kind, key, None, obj), now)

    def _log_anomaly(self, anomaly: Anomaly) -> None:
        _log.warning(anomaly.kind.value, object=anomaly.object, detail=anomaly.detail)

    def _handle(self, batch: Batch) -> None:
        self._state.apply_batch(batch, asyncio.get_running_loop().time())
        self._changes.notify()
        if self._term is not None:
            self._term.wake()
        if self._controllers is not None:
            self._controllers.handle(batch)

    def _collect(self) -> None:
        binding = self._term.binding_tasks if self._term is not None else 0
        self._meter.gauges(self._state.queue, self._state.cache, binding)

    # ------------------------------------------------------------------ leadership

    def _started_leading(self, fence: api_pb2.Fence) -> None:
        self._end_term()
        self._term_task = asyncio.create_task(self._lead(fence), name=f"term {fence.term}")

    def _stopped_leading(self, reason: StopReason) -> None:
        self._end_term()

    def _end_term(self) -> None:
        if self._term_task is not None:
            self._term_task.cancel()
            self._term_task = None
        self._controllers = None
        if self._term is not None:
            self._term = None
            self._rebuild()

    async def _lead(self, fence: api_pb2.Fence) -> None:
        # All that earlier terms wrote has a lower revision than this term's: once the informer has
        # come so far, nothing of it is missing.
        await self._informer.wait_for_revision(fence.term)
        actors = self._actors.of_term(
            fence.term, self._state.cache.columns, ClientBinder(self._client)
        )
        parts = LoopParts(
            state=self._state,
            cluster=self._client,
            fence=fence,
            decider=Placer(self._state, actors.evaluator, actors.dry_run),
            binder=lambda: actors.binder,
            recorder=self._recorder,
            meter=self._meter,
            settings=self._options.settings,
            extenders=self._extenders,
        )
        self._term = SchedulingLoop(parts, self._changes)
        self._controllers = self._new_controllers(fence)
        keeping = asyncio.create_task(actors.run(), name=f"actors of term {fence.term}")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._term.run(), name="scheduling")
                group.create_task(self._controllers.run(), name="controllers")
        except* FenceLost:
            _log.warning("The fence is lost: another replica leads", term=fence.term)
        finally:
            keeping.cancel()

    def _new_controllers(self, fence: api_pb2.Fence) -> ControllerManager:
        return ControllerManager(
            self._client,
            self._informer,
            self._options.controllers,
            fence,
            self._recorder,
            metrics=self._controller_metrics,
        )

    # ------------------------------------------------------------------ the process

    async def run(self) -> None:
        """Run until the process is asked to stop; a bug in any task ends it."""
        store = await connect(self._options.etcd)
        elector = LeaderElector(
            store,
            self._options.config.leader_election,
            self.identity,
            ElectionCallbacks(
                on_started_leading=self._started_leading,
                on_stopped_leading=self._stopped_leading,
                on_renewal=self._renewed,
            ),
            options=self._options.election,
        )
        self._add_checks(elector)
        health = await self._process.serve_health(lambda: to_public(self._options.config))
        presence = ReplicaLease(
            self._client,
            self._options.settings.identity or self.identity,
            self.identity,
            lambda: self._about(elector, health.url),
        )
        debugger = CacheDebugger(lambda: self._state, self._informer.objects)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, debugger.request)
        work: dict[str, Callable[[], Any]] = {
            "informer": lambda: self._informer.run(self._handle),
            "events": self._recorder.run,
            "ray": lambda: self._actors.run(lambda: self._state.cache.node_count),
            "presence": presence.run,
            "elector": lambda: self._elect(elector),
            "term": self._watch_term,
            "cache debugger": debugger.run,
        }
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(make(), name=name) for name, make in work.items()]
                await self._process.stopping.wait()
                await elector.stop()
                for task in tasks:
                    task.cancel()
        finally:
            self._end_term()
            await self._flush_on_exit(presence)
            await health.stop()
            await self._actors.close()
            if self._extenders is not None:
                await self._extenders.close()
            await self._client.close()
            await store.close()

    def _renewed(self, result: str, seconds: float) -> None:
        self._election_metrics.renew_duration_seconds.labels(result).observe(seconds)

    async def _elect(self, elector: LeaderElector) -> None:
        # Racing before the caches are warm would only delay whoever is ready.
        await self._informer.synced.wait()
        await self._actors.load()
        await elector.run()

    async def _watch_term(self) -> None:
        """Lets an unexpected end of a term end the process, loudly."""
        while True:
            task = self._term_task
            if task is not None and task.done() and not task.cancelled():
                task.result()
                self._term_task = None
            await asyncio.sleep(0.2)

    async def _flush_on_exit(self, presence: ReplicaLease) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1.0):
                await self._recorder.flush()
                await presence.leave()

    def _add_checks(self, elector: LeaderElector) -> None:
        self._process.checks.add("leaderElection", lambda: elector.check_health() or "")
        self._process.checks.add(
            "informer-sync",
            lambda: "" if self._informer.synced.is_set() else "the informer has not synced",
            {Probe.READYZ},
        )

    def _about(self, elector: LeaderElector, health: str) -> dict[str, str]:
        leading = elector.is_leader()
        name = self._options.config.leader_election.resource_name
        self._election_metrics.leader_election_master_status.labels(name).set(float(leading))
        self._election_metrics.term.set(float(elector.term) if leading else 0.0)
        slow_paths = self._election_metrics.leader_election_slowpath_total.labels(name)
        slow_paths.value = float(elector.slow_paths)
        self._election_metrics.transitions.set(float(elector.transitions))
        return {
            "pid": str(os.getpid()),
            "host": socket.gethostname(),
            "state": "leading" if leading else "standby",
            "term": str(elector.term) if leading else "",
            "leader": elector.leader_identity,
            "health": health,
            "api": self._client.endpoint,
            "etcd": ",".join(self._options.etcd.endpoints),
            "seen": f"{time.time():.3f}",
        }


async def run_replica(process: Process, options: ReplicaOptions) -> None:
    """Return the scheduler process."""
    await Replica(process, options).run()
