"""Run a scheduler replica, which keeps its caches warm and schedules while it holds the lease.

Creates the parts of a replica, runs them in one set of tasks, and closes them at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from podsched.actors.term_actors import ActorOptions, ReplicaActors
from podsched.api.objects import Pod
from podsched.app.answering import answerer
from podsched.app.backend import Answers, Backend
from podsched.app.decision_answers import checkpoint_answerer, log_answerer
from podsched.app.explaining import Explaining
from podsched.app.giving_way import give_way
from podsched.app.leader_requests import LeaderRequests
from podsched.app.load import LoadMeter
from podsched.app.process import Process
from podsched.app.reconfiguring import Reconfiguring
from podsched.app.replica_page import InformerSource, ReplicaExplainer
from podsched.app.replica_status import ReplicaStatus
from podsched.app.shadowing import Shadowing
from podsched.app.term_runner import TermRunner
from podsched.app.term_work import ControllerParts, RunnerParts
from podsched.ask.decisions.log import open_log
from podsched.ask.web.server import PageServices
from podsched.config.load import SchedulerConfiguration, to_public
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.extenders.calls import make_extenders
from podsched.lib.memory import expect_no_garbage
from podsched.lib.tasks import TaskSet
from podsched.registry import compile_plugins, factories
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch
from podsched.telemetry.health import Probe
from podsched.telemetry.http import text_page
from podsched.telemetry.http_server import HttpServer
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import (
    ConfigMetrics,
    ControllerMetrics,
    ElectionMetrics,
    ShadowMetrics,
)
from podsched.telemetry.pod_resources import pod_resources
from podsched.term.cache_debugger import CacheDebugger
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.elector import LeaderElector
from podsched.term.election.events import StopReason
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from podsched.v1 import api_pb2

_log = get_logger("replica")


BackendFactory = Callable[[str, str, MetricRegistry, Mapping[str, bool]], Backend]
"""Creates a replica's backend, given name, identity, registry of its metrics, feature gates."""


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """The configuration of a replica."""

    config: SchedulerConfiguration
    settings: SchedulerSettings
    election: ElectionOptions
    backend: BackendFactory
    controllers: ControllerSettings
    client: ClientOptions = field(default_factory=ClientOptions)
    read_again: Callable[[], SchedulerConfiguration] | None = None
    """Reads the files of ``config`` again. Raises ConfigError, OSError. None: no files."""
    shadow: SchedulerConfiguration | None = None
    """Decide on every pod a second time with this configuration, to compare; None: do not."""


def unique_identity(name: str) -> str:
    """Return ``name_<random>``, after client-go's hostname_UUID; "": the name is the host's.

    It is unique to the process, because after a restart other replicas may still regard the old
    process as the leader.
    """
    return f"{name or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class Replica:
    """Wires the backend, the election, the informer, the terms and the answers of one replica."""

    def __init__(self, process: Process, options: ReplicaOptions) -> None:
        self._process = process
        self._options = options
        self.identity = process.options.instance or unique_identity(options.settings.identity)
        self._backend = options.backend(
            options.settings.identity or self.identity,
            self.identity,
            process.registry,
            process.options.telemetry.feature_gates,
        )
        self._informer = self._backend.informer
        settings = options.settings
        self.decisions = open_log(
            settings.decision_log, settings.decision_log_size, self.identity, process.registry
        )
        meter = CycleMeter(process.registry, process.tracer)
        self._election_metrics = ElectionMetrics(process.registry)
        self._actors = ReplicaActors(
            ActorOptions(
                options.settings.evaluation,
                options.config.profiles,
                options.settings.api_endpoints,
                process.options.telemetry.otlp_endpoint,
                options.client,
            ),
            meter.ray,
        )
        self._extenders = make_extenders(options.config.extenders)
        self._tasks = TaskSet("the replica")
        self._active = asyncio.Event()
        controlled = self._backend.controlled
        controllers = None
        if controlled is not None:
            controllers = ControllerParts(options.controllers, controlled, options.client.tls_ca)
        parts = RunnerParts(
            self.identity,
            options.config,
            options.settings,
            controllers,
            factories(),
            self._backend.cluster,
            self._informer,
            self._actors,
            self._extenders,
            meter,
            ControllerMetrics(process.registry),
            self.decisions,
            self._backend.queues,
        )
        self._runner = TermRunner(parts, self._tasks)
        process.registry.before_collect(self._runner.update_gauges)
        self._racing = False
        self._leading_since = 0.0
        self._source = InformerSource(self._informer)
        self._load = LoadMeter(meter.scheduler, lambda: self._runner.state.queue.pending.counts())
        self._page: HttpServer | None = None
        self._shadowing = self._shadow(options.shadow)
        self._elector: LeaderElector
        """Made by ``run``, once there is a connection to the lock."""

    def _shadow(self, config: SchedulerConfiguration | None) -> Shadowing | None:
        if config is None:
            return None
        return Shadowing(
            config,
            factories(),
            self._informer,
            lambda: self._runner.busy,
            self.decisions,
            ShadowMetrics(self._process.registry),
        )

    def _make_elector(self, lock: ElectionLock) -> LeaderElector:
        renewals = self._election_metrics.renew_duration_seconds
        return LeaderElector(
            lock,
            self._options.config.leader_election,
            self.identity,
            ElectionCallbacks(
                on_started_leading=self._started_leading,
                on_stopped_leading=self._stopped_leading,
                on_renewal=lambda result, seconds: renewals.labels(result).observe(seconds),
            ),
            options=self._options.election,
        )

    async def connect(self) -> ElectionLock | None:
        """Return the lock; None if the process is asked to stop before its store answers."""
        tasks = TaskSet("connecting")
        connecting = tasks.start(self._backend.connect(), "connect", ended=lambda _: tasks.end())
        tasks.start(self._process.end_when_asked(tasks), "wait for the stop")
        await tasks.run()
        if not connecting.cancelled():
            return connecting.result()
        await self._backend.close()
        return None

    async def run(self, lock: ElectionLock) -> None:
        """Run until the process is asked to stop; a bug in any task ends it."""
        expect_no_garbage()
        elector = self._elector = self._make_elector(lock)
        status = self._status(elector)
        requests = LeaderRequests(
            status.name,
            status.lock,
            lambda: self._informer.objects("Lease"),
            pause=self._runner.pause,
            hand_over=elector.hand_over,
        )
        self._process.checks.add("leaderElection", lambda: elector.check_health() or "")
        self._process.checks.add("informer-sync", self._not_warm, {Probe.READYZ})
        reconfiguring = Reconfiguring(
            self._options.config,
            self._reconfigure,
            self._options.read_again,
            status.state,
            ConfigMetrics(self._process.registry),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reconfiguring.request)
        debugger = CacheDebugger(lambda: self._runner.state, self._informer.objects)
        health = await self._process.serve_health(
            lambda: to_public(reconfiguring.config),
            {
                "/metrics/resources": pod_resources(
                    partial(_pods, self._informer), elector.is_leader
                ),
                "/debug/cache": text_page(debugger.text),
            },
            profiling=self._options.config.effective.enable_profiling,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, debugger.request)
        tasks = self._tasks
        tasks.start(self._inform(requests), "informer", endless=True)
        tasks.start(self._runner.recorder.run(), "events", endless=True)
        # Returns at once if Ray is not used.
        tasks.start(self._actors.run(self._node_count), "ray")
        read_leadership = (
            self._backend.read_leadership(self._source, status.lock) or status.leadership
        )
        answers = self._answers(status, reconfiguring)
        services = PageServices(explainer=ReplicaExplainer(answers.answer))
        self._page = await self._process.serve_page(tasks, self._source, read_leadership, services)
        self._backend.start(tasks, elector, lambda: status.published(health.url), answers)
        tasks.start(self._elect(), "elector")
        if self._shadowing is not None:
            tasks.start(self._shadowing.run(), "shadow", endless=True)
        tasks.start(reconfiguring.run(), "other configurations", endless=True)
        tasks.start(debugger.run(), "cache debugger", endless=True)
        tasks.start(self._end_when_asked(requests), "wait for the stop")
        tasks.start(self._give_way(requests), "prefer another leader", endless=True)
        if self.decisions is not None:
            self.decisions.start()
        try:
            await tasks.run()
        finally:
            self._runner.end()
            await self._close(health)

    async def _close(self, health: HttpServer) -> None:
        # A second each at most, since there may be no server that answers.
        for last in (self._backend.leave, self._runner.recorder.flush):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1.0):
                    await last()
        if self._page is not None:
            await self._page.stop()
        if self.decisions is not None:
            await asyncio.to_thread(self.decisions.close)
        await health.stop()
        await self._actors.close()
        if self._extenders is not None:
            await self._extenders.close()
        await self._backend.close()

    async def _end_when_asked(self, requests: LeaderRequests) -> None:
        await self._process.stopping.wait()
        successor = requests.successor()
        await self._elector.stop(successor.identity if successor else "")
        self._tasks.end()

    async def _give_way(self, requests: LeaderRequests) -> None:
        await give_way(
            self._options.settings.leader_priority,
            is_leader=self._elector.is_leader,
            successor=requests.successor,
            unheard=lambda: requests.unheard(self.identity, self._leading_since),
            hand_over=self._elector.hand_over,
        )

    # ------------------------------------------------------------------ leadership

    async def _inform(self, requests: LeaderRequests) -> None:
        def handle(batch: Batch) -> None:
            self._runner.handle(batch)
            requests.handle(batch)
            self._source.handle(batch)
            if self._shadowing is not None:
                self._shadowing.handle(batch)

        if self._options.config.effective.delay_cache_until_active:
            await self._active.wait()
        await self._informer.run(handle)

    def _started_leading(self, fence: api_pb2.Fence) -> None:
        self._leading_since = time.monotonic()
        self._active.set()
        self._runner.start_term(fence, lambda: self._elector.term_is_over(fence.term))

    def _stopped_leading(self, reason: StopReason) -> None:
        if self._process.stopping.is_set():
            self._runner.end()
        else:
            self._runner.end_term()

    def _node_count(self) -> int:
        return len(self._runner.state.cache.columns.node_table)

    async def _elect(self) -> None:
        if not self._options.config.effective.delay_cache_until_active:
            # A replica with cold caches would only delay those that are ready to lead.
            await self._informer.synced.wait()
            await self._actors.load(self._node_count())
        self._racing = True
        await self._elector.run()
        if not self._process.stopping.is_set():
            raise RuntimeError("the election has ended without being asked to")

    def _not_warm(self) -> str:
        """Return why the replica is not ready to lead; "" if it is."""
        if self._options.config.effective.delay_cache_until_active and not self._active.is_set():
            return ""
        return self._backend.not_ready()

    async def _reconfigure(self, config: SchedulerConfiguration) -> None:
        before, self._extenders = self._extenders, make_extenders(config.extenders)
        self._actors.use(config.profiles)
        await self._runner.reconfigure(config, self._extenders)
        if before is not None:
            await before.close()

    def _status(self, elector: LeaderElector) -> ReplicaStatus:
        """Return the description of this replica, which keeps the election's metrics current."""
        settings, election = self._options.settings, self._options.config.leader_election
        status = ReplicaStatus(
            settings.identity or self.identity,
            self.identity,
            election.lock,
            election.resource_name,
            settings.leader_priority,
            elector,
            self._runner,
            self._informer,
            self._load,
            self._election_metrics,
            page=lambda: f"{self._page.url}/" if self._page is not None else "",
            is_racing=lambda: self._racing,
        )
        self._process.registry.before_collect(status.update_metrics)
        return status

    def _answers(self, status: ReplicaStatus, reconfiguring: Reconfiguring) -> Answers:
        """Return the answerers of this replica."""
        explaining = Explaining(
            lambda: self._runner.whole_state if self._informer.synced.is_set() else None,
            status.state,
            self._informer,
            self.decisions,
        )
        handlers = {
            "explain": explaining.answer,
            "decisions": log_answerer(self.decisions),
            "apply_config": reconfiguring.answer,
            "checkpoint": checkpoint_answerer(self._runner.checkpoint),
        }
        return Answers(status.state, answerer(handlers))


def _pods(informer: InformerPort) -> list[Pod]:
    return list(cast(Mapping[str, Pod], informer.objects("Pod")).values())


async def run_replica(process: Process, options: ReplicaOptions) -> None:
    """Run the scheduler process until it is asked to stop."""
    # Before it competes for the lock, because a leader has no time to wait for the compiler.
    version = await asyncio.to_thread(compile_plugins)
    if version:
        _log.info("Loops over nodes are compiled", numba=version)
    replica = Replica(process, options)
    if (lock := await replica.connect()) is not None:
        await replica.run(lock)
