"""A term of leadership on a cluster in memory, with plugins of the test's own.

The informer, the state, the queue, the decisions and the drivers are the real ones; only the
cluster is the fake, and time is the event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from podsched.actors.ray_evaluator import RayEvaluator
from podsched.actors.shard_sync import Shards
from podsched.api.kinds import watched_kinds
from podsched.api.objects import Node, Pod, PodDisruptionBudget
from podsched.cache.changes import Anomaly, Change
from podsched.config.load import load_config
from podsched.config.plugins import PluginSpec
from podsched.config.settings import SchedulerSettings
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.calls import (
    ExtenderClient,
    Extenders,
    Transport,
    make_extenders,
)
from podsched.decide.extenders.wire import NodeTexts
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.framework.plugin import (
    CycleState,
    PermitResult,
    PluginFactory,
    PostFilterResult,
    PreBindPlan,
)
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status, unschedulable
from podsched.lib.tasks import Changes
from podsched.registry import factories
from podsched.serve.client.errors import FenceLost
from podsched.serve.client.informer import Batch
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.scheduling_loop import SchedulingLoop
from podsched.term.state import build_state
from podsched.term.writes.event_recorder import EventRecorder
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.fake_ray import CountingMetrics

LOCK = "kube-system/kube-scheduler"
WALL = 1_800_000_000.0

#: From an extender's urlPrefix to the way to it.
Connect = Callable[[str], Transport]


class Script:
    """A plugin of all the late extension points that does what the test says and keeps a log.

    What is not set succeeds, and wants nothing in PreBind.
    """

    name: ClassVar[str] = "Script"

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.on_reserve: Callable[[PodInfo], Status] = lambda pod: SUCCESS
        self.on_permit: Callable[[PodInfo], PermitResult] = lambda pod: PermitResult()
        self.on_pre_bind: Callable[[PodInfo], PreBindPlan] | None = None
        self.on_post_bind: Callable[[PodInfo], None] = lambda pod: None
        self.on_bind: Callable[[PodInfo], Status] = lambda pod: SKIP
        self.on_post_filter: Callable[[PodInfo], PostFilterResult] = lambda pod: PostFilterResult(
            unschedulable()
        )

    def _note(self, what: str, pod: PodInfo) -> None:
        self.log.append(f"{self.name}.{what} {pod.name}")

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: Any, runner: Any
    ) -> PostFilterResult:
        self._note("postFilter", pod)
        return self.on_post_filter(pod)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self._note("reserve", pod)
        return self.on_reserve(pod)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._note("unreserve", pod)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        self._note("permit", pod)
        return self.on_permit(pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if self.on_pre_bind is not None else SKIP

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: Any
    ) -> PreBindPlan:
        self._note("preBind", pod)
        assert self.on_pre_bind is not None
        return self.on_pre_bind(pod)

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self._note("bind", pod)
        return self.on_bind(pod)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._note("postBind", pod)
        self.on_post_bind(pod)


class SecondScript(Script):
    """The same, after the first."""

    name: ClassVar[str] = "SecondScript"


class TermWorld:
    """See the module. ``term`` runs within ``running()``."""

    def __init__(
        self,
        profiles: Sequence[Mapping[str, Any]] = ({},),
        *,
        plugins: Mapping[str, PluginFactory] | None = None,
        extenders: Sequence[Mapping[str, Any]] = (),
        connect: Connect | None = None,
        remote_dry_run: RemoteDryRun | None = None,
        decisions: DecisionSink | None = None,
        gates: Mapping[str, bool] | None = None,
        cluster: FakeCluster | None = None,
        queues: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """``plugins``: more of them; ``connect`` makes the ways to the extenders; None: HTTP.

        ``cluster``: that of an earlier term; None: a new one. ``queues``: of the configuration.
        """
        self.decisions = decisions
        loop = asyncio.get_running_loop()
        self.clock = loop.time
        self.cluster = cluster or FakeCluster(now=lambda: WALL + loop.time())
        self.log: list[str] = []
        self.script, self.second = Script(self.log), SecondScript(self.log)
        own = {
            Script.name: lambda args, handle: self.script,
            SecondScript.name: lambda args, handle: self.second,
        }
        known = {**factories(), **own, **(plugins or {})}
        enabled = {"enabled": [{"name": name} for name in own]}
        # Only the late points: what scores or filters is the default set's.
        points = ("reserve", "permit", "preBind", "postBind")
        late = dict.fromkeys(points, enabled)
        document = {
            "profiles": [{"plugins": late, **profile} for profile in profiles],
            "extenders": list(extenders),
            "queues": queues or {},
        }
        config = load_config(document, known_plugins=specs(known))
        self.extenders = make_extenders(config.extenders)
        if connect is not None:
            texts = NodeTexts()
            clients = [ExtenderClient(e, connect(e.url_prefix), texts) for e in config.extenders]
            self.extenders = Extenders(clients)
        self.registry = MetricRegistry()
        self.meter = CycleMeter(self.registry, Tracer())
        self.state = build_state(
            config,
            known,
            seed=1,
            observer=self.meter.queue,
            meter=self.meter.plugins,
            listener=self,
        )
        self.settings = SchedulerSettings(audit_period=0.0, **settings)
        self.changes = Changes()
        self.recorder = EventRecorder(
            self.cluster.record_events, "replica", wall=lambda: WALL + loop.time()
        )
        self.informer = self.cluster.informer(watched_kinds(gates or {}))
        self.fence = self.cluster.new_term(LOCK)
        # What every replica has, as long as it does not use Ray.
        no_shards = RayEvaluator(Shards(), 1.0, CountingMetrics())
        self.decider = self.state.decider(no_shards, remote_dry_run)
        self.term = SchedulingLoop(self.parts())
        self.ended: asyncio.Task[None] | None = None

    def parts(self) -> LoopParts:
        return LoopParts(
            state=self.state,
            cluster=self.cluster,
            fence=self.fence,
            decider=self.decider,
            binder=self.cluster,
            recorder=self.recorder,
            meter=self.meter,
            settings=self.settings,
            changes=self.changes,
            extenders=self.extenders,
            decisions=self.decisions,
            wall=lambda: WALL + self.clock(),
        )

    def handle(self, batch: Batch) -> None:
        self.state.apply_batch(batch, self.clock())
        self.changes.notify()
        self.term.wake()

    # ------------------------------------------------------------------ as a StateListener

    def deleted_while_assumed(self, pod: PodInfo) -> None:
        self.term.binding.waiting.deleted(pod)

    def deleted_while_pending(self, pod: PodInfo) -> None:
        self.term.deleted_while_pending(pod)

    def changed(self, changes: Sequence[Change], now: float) -> None:
        self.term.changed(changes, now)

    def handled(self, sort: str, seconds: float, count: int) -> None:
        self.meter.queue.handled(sort, seconds, count)

    def anomaly(self, anomaly: Anomaly) -> None:
        raise AssertionError(anomaly)

    # ------------------------------------------------------------------ running it

    @asynccontextmanager
    async def running(self, *, seconds: float = 0) -> AsyncIterator[TermWorld]:
        """The informer has synced and the term runs, since some seconds ago."""
        following = asyncio.create_task(self.informer.run(self.handle))
        recording = asyncio.create_task(self.recorder.run())
        await self.informer.synced.wait()
        self.ended = asyncio.create_task(self.term.run())
        try:
            if seconds:
                await asyncio.sleep(seconds)
            yield self
        finally:
            for task in (self.ended, following, recording):
                task.cancel()
                with suppress(asyncio.CancelledError, FenceLost):
                    await task
            if self.extenders is not None:
                await self.extenders.close()

    async def run_for(self, seconds: float) -> None:
        """The term runs for some seconds."""
        async with self.running(seconds=seconds):
            pass

    # ------------------------------------------------------------------ the test's hand

    def node(self, name: str, cpu: str = "4", **parts: Any) -> Node:
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        made = self.cluster.create(node(name, allocatable=allocatable, **parts))
        assert isinstance(made, Node)
        return made

    def pod(self, name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> Pod:
        """A pending pod of the default scheduler; ``on``: the node it runs on already."""
        requests = {"cpu": cpu} if cpu else {}
        full = {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
            **spec,
        }
        if "on" in full:
            full["nodeName"] = full.pop("on")
        metadata = {key: full.pop(key, {}) for key in ("labels", "annotations")}
        made = self.cluster.create(pod(name, full, **metadata))
        assert isinstance(made, Pod)
        return made

    async def pod_and_wait(self, name: str, *args: Any, seconds: float = 1, **spec: Any) -> None:
        """``pod``, and some seconds in which it is decided."""
        self.pod(name, *args, **spec)
        await asyncio.sleep(seconds)

    def budget(self, name: str, allowed: int, **labels: str) -> None:
        item = PodDisruptionBudget()
        item.metadata.name, item.metadata.namespace = name, "default"
        item.spec.selector.match_labels.update(labels)
        item.status.disruptions_allowed = allowed
        self.cluster.create(item)

    def stored(self, name: str) -> Pod:
        found = self.cluster.object("Pod", f"default/{name}")
        assert isinstance(found, Pod)
        return found

    def change(self, name: str, change: Callable[[Pod], Any]) -> None:
        """Updates a pod from outside."""
        found = self.stored(name)
        change(found)
        self.cluster.update(found)

    async def delete_and_wait(self, name: str, *, seconds: float = 1) -> None:
        """Delete a pod, and let some seconds pass."""
        self.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(seconds)

    # ------------------------------------------------------------------ what came of it

    def nodes_of(self, *names: str) -> list[str]:
        return [self.stored(name).spec.node_name for name in names]

    def place(self, name: str) -> str:
        """The queue that a pod is in, "" for none."""
        return self.state.queue.place(f"uid-{name}")

    def scheduled(self, name: str) -> v1.PodCondition:
        """The pod's PodScheduled condition."""
        conditions = self.stored(name).status.conditions
        return next(c for c in conditions if c.type == "PodScheduled")

    def events(self, name: str, reason: str) -> list[str]:
        """The messages of a pod's events, the oldest first."""
        return [event.message for event in self._events(name, reason)]

    def related(self, name: str, reason: str) -> str:
        """The other object that a pod's last event is about."""
        other = self._events(name, reason)[-1].related
        return f"{other.api_version} {other.kind} {other.namespace}/{other.name}"

    def _events(self, name: str, reason: str) -> list[v1.Event]:
        found = [
            event
            for event in self.cluster.objects("Event")
            if isinstance(event, v1.Event)
            and event.involved_object.name == name
            and event.reason == reason
        ]
        return sorted(found, key=lambda event: event.first_timestamp.ToNanoseconds())

    def check(self) -> None:
        """The queue's and the cache's books are in order, and no pod was bound twice."""
        self.state.queue.check_invariants()
        keys = [key for key, _ in self.cluster.bound]
        assert len(keys) == len(set(keys)), f"bound twice: {keys}"


def world_of_nodes(**cpus: str) -> TermWorld:
    """A world with nodes of these names and CPUs."""
    world = TermWorld()
    for name, cpu in cpus.items():
        world.node(name, cpu)
    return world


def specs(known: Mapping[str, Any]) -> Mapping[str, PluginSpec]:
    """What a configuration must know of the test's own plugins."""
    return user_plugin_specs(known)
