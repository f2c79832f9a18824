"""Recorded decisions are made again, bit by bit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from podsched.api.kinds import watched_kinds
from podsched.api.manifest import from_manifest
from podsched.api.objects import DeviceTaintRule, PodGroup
from podsched.app.term_runner import TermRunner
from podsched.app.term_work import RunnerParts
from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.log import DecisionLog, facts_of
from podsched.ask.decisions.rows import DecisionQuery
from podsched.ask.decisions.stores import MemoryStore
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.config.settings import SchedulerSettings
from podsched.framework.plugin import PermitResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import unschedulable
from podsched.lab.replay.capture import Capture
from podsched.lab.replay.recording import Recording, RecordingWriter, read_recording
from podsched.lab.replay.repetition import _CLAIMS, _UNKNOWN, NotRepeatable, repeat
from podsched.lab.replay.simulation import run_in_virtual_time
from podsched.lib.event_loop import Turn
from podsched.lib.tasks import TaskSet
from podsched.plugins.default_preemption import dry_run_cache
from podsched.plugins.default_preemption.plugin import REASON_TERMINATING
from podsched.registry import factories
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ControllerMetrics, DecisionMetrics
from podsched.telemetry.tracing import Tracer
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.testing.fake_cluster import FakeCluster
from support.device_objects import device_class, devices, resource_claim, user
from support.engine_world import node, pod
from support.no_actors import NoActors
from support.queues import QUEUE, cluster_queue, flavor, gang
from support.term_world import LOCK, WALL, TermWorld
from support.volume_world import claim, storage_class, volume

PODS = 220
PENDING = {"schedulerName": "default-scheduler", "priority": 0}
NO_GATES: Mapping[str, bool] = {}


def a_log() -> DecisionLog:
    store = MemoryStore(64 << 20, FrameWriter().facts(facts_of("replica"), 0.0))
    return DecisionLog(store, DecisionMetrics(MetricRegistry()))


@asynccontextmanager
async def recording_of(
    cluster: FakeCluster, file: Path, log: DecisionLog
) -> AsyncIterator[RecordingWriter]:
    """Objects are recorded; in the end all decisions, too."""
    writer = RecordingWriter(file, {"time": 0.0})
    capture = Capture(writer, asyncio.get_running_loop().time, most_bytes=1 << 30)
    following = asyncio.create_task(capture.watch(cluster))
    await asyncio.sleep(0.1)
    yield writer
    for record in log.find(DecisionQuery(limit=100_000)).records:
        writer.note(0.0, "decision", json_format.MessageToDict(record))
    writer.close(0.0, "done", capture.progress.revision)
    following.cancel()
    await asyncio.wait([following])


class Run:
    """A term that schedules differing pods while others come, go and change; and its recording."""

    def __init__(self, file: Path, seed: int, profile: Mapping[str, Any]) -> None:
        self.file = file
        self.chance = random.Random(seed)
        self.profile = profile
        self.turned_down: set[str] = set()
        self.log = a_log()

    async def record(self) -> None:
        """Runs it in virtual time; the recording begins when the term has been under way."""
        world = self.world = TermWorld([self.profile], decisions=self.log)
        world.script.on_permit = self.permit
        for number in range(9):
            world.node(f"n{number}", cpu=self.chance.choice(["4", "8"]))
        async with world.running():
            for number in range(40):
                await self.step(number)
            world.cluster.delete("Node", "n3")
            world.cluster.delete("Node", "n1")
            await asyncio.sleep(0.5)
            world.node("late", cpu="8")
            await self.recorded()

    async def recorded(self) -> None:
        async with recording_of(self.world.cluster, self.file, self.log) as writer:
            # Pods are assumed and not confirmed, nominated and being evicted as of the checkpoint.
            for number in range(40, 60):
                self.pod(number)
            for _ in range(4):
                await asyncio.sleep(0)
            self.checkpoint(writer)
            for number in range(60, PODS):
                await self.step(number)
            for number in range(PODS, PODS + 130):  # more than an informer takes in one go
                self.pod(number)
            await asyncio.sleep(1)

    def binding_slowly(self) -> TermWorld:
        """A world with a node of 4 cpus, in which bindings take a while."""
        world = self.world = TermWorld([self.profile], decisions=self.log)
        world.node("n0", cpu="4")
        cluster = world.cluster
        cluster.bind_pods = slowly(cluster.bind_pods)  # type: ignore[method-assign]
        return world

    def checkpoint(self, writer: RecordingWriter) -> None:
        writer.note(0.0, "checkpoint", self.world.term.checkpoint(self.log.numbers(0)))

    async def step(self, number: int) -> None:
        self.pod(number)
        world, chance = self.world, self.chance
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.02, 0.3]))
        bound = [pod for pod in world.cluster.objects("Pod") if pod.spec.node_name]  # type: ignore[union-attr]
        if bound and chance.random() < 0.4:
            gone = chance.choice(bound)
            world.cluster.delete("Pod", f"default/{gone.metadata.name}")
        if chance.random() < 0.05:
            node = world.cluster.object("Node", "n5")
            node.spec.unschedulable = not node.spec.unschedulable  # type: ignore[union-attr]
            world.cluster.update(node)
        if number % 70 == 69:
            world.cluster.delete("Node", "n7")
            await asyncio.sleep(0.2)
            world.node("n7", cpu="4")

    def pod(self, number: int) -> None:
        chance = self.chance
        app = f"a{number % 3}"
        spec: dict[str, Any] = {}
        selector = {"labelSelector": {"matchLabels": {"app": app}}}
        if number % 5 == 0:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname",
                 "whenUnsatisfiable": "ScheduleAnyway", **selector}
            ]  # fmt: skip
        if number % 9 == 0:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            kind = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"podAntiAffinity": {kind: [term]}}
        cpu = f"{chance.choice([300, 500, 900, 1500, 2500]) + number % 7}m"
        priority = chance.choice([0, 0, 0, 5, 100])
        self.world.pod(f"p{number}", cpu, priority, labels={"app": app}, **spec)

    def permit(self, pod: PodInfo) -> PermitResult:
        """Turns some pods down when they are assumed for the first time."""
        if int(pod.name[1:]) % 23 != 7 or pod.uid in self.turned_down:
            return PermitResult()
        self.turned_down.add(pod.uid)
        return PermitResult(unschedulable("no"))


def slowly(call: Callable[..., Awaitable[Any]]) -> Any:
    """Return the call of a cluster so that it is made 3 s later."""

    async def slow(*given: Any, **fence: Any) -> Any:
        await asyncio.sleep(3)
        return await call(*given, **fence)

    return slow


class SlowEviction(Run):
    """A preemptor is tried again while an eviction lasts that had begun before the checkpoint."""

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        world.node("n0", cpu="4")
        world.pod("victim", "3", on="n0")
        world.pod("other", "500m", on="n0")
        cluster = world.cluster
        cluster.evict_pods = slowly(cluster.evict_pods)  # type: ignore[method-assign]
        async with world.running(), recording_of(self.world.cluster, self.file, self.log) as writer:
            await asyncio.sleep(0.5)
            await world.pod_and_wait("preemptor", "3", 100, seconds=0.5)
            self.checkpoint(writer)
            world.cluster.delete("Pod", "default/other")  # wakes the preemptor
            await asyncio.sleep(10)


class SlowVolume(Run):
    """A pod finds no volume while one is being written that was assumed before the checkpoint."""

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        world.node("n0", cpu="4")
        names = ("first", "second")
        for made in (storage_class("local"), volume("disk"), *(claim(name) for name in names)):
            world.cluster.create(from_manifest(made).message)
        cluster = world.cluster
        cluster.patch_many = slowly(cluster.patch_many)  # type: ignore[method-assign]
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            for name in names:
                mounted = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
                await world.pod_and_wait(name, "1", volumes=[mounted])
                if name == "first":
                    self.checkpoint(writer)
            await asyncio.sleep(1)


class LateEnd(Run):
    """A pod is deleted while it is being bound, which had begun before the checkpoint."""

    async def record(self) -> None:
        world = self.binding_slowly()
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            await world.pod_and_wait("first", "3")
            self.checkpoint(writer)
            await world.delete_and_wait("first", seconds=5)
            await world.pod_and_wait("second", "3", seconds=5)


class Gone(Run):
    """A pod is deleted while it is being bound, before the recording begins."""

    async def record(self) -> None:
        world = self.binding_slowly()
        async with world.running():
            await world.pod_and_wait("first", "3")
            await world.delete_and_wait("first")
            async with recording_of(world.cluster, self.file, self.log) as writer:
                self.checkpoint(writer)
                await world.pod_and_wait("second", "3", seconds=10)
                await world.pod_and_wait("third", "500m", seconds=5)


class SlowTermination(Run):
    """A victim that somebody had deleted goes on terminating when its eviction is long over."""

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        world.node("n0", cpu="4")
        world.pod("victim", "2", on="n0")
        going = world.pod("going", "1", on="n0")
        going.metadata.deletion_timestamp.FromSeconds(int(WALL) + 60)
        world.cluster.update(going)
        world.pod("other", "500m", 1000, on="n0")
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            await asyncio.sleep(0.5)
            self.checkpoint(writer)
            world.pod("preemptor", "3500m", 100)
            await asyncio.sleep(8)
            world.cluster.delete("Pod", "default/other")  # wakes the preemptor
            await asyncio.sleep(10)


class Gangs(Run):
    """Gangs come and go among single pods: some start, some wait, some preempt."""

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        for number in range(8):
            labels = {"zone": f"z{number % 3}"}
            world.node(f"n{number}", cpu=self.chance.choice(["4", "8"]), labels=labels)
        async with world.running():
            for number in range(6):
                await self.gang(number)
            async with recording_of(world.cluster, self.file, self.log) as writer:
                self.checkpoint(writer)
                for number in range(6, 40):
                    await self.gang(number)
                await asyncio.sleep(1)

    async def gang(self, number: int) -> None:
        """A gang of two sizes of members, and a single pod; perhaps another one goes."""
        world, chance = self.world, self.chance
        size = chance.randint(2, 6)
        group = PodGroup()
        group.metadata.name, group.metadata.namespace = f"g{number}", "default"
        group.spec.scheduling_policy.gang.min_count = chance.randint(2, size)
        group.spec.priority = chance.choice([0, 0, 10])
        if number % 3 == 0:
            group.spec.scheduling_constraints.topology.add(key="zone")
        world.cluster.create(group)
        parts = {"schedulingGroup": {"podGroupName": f"g{number}"}}
        for member in range(size):
            cpu = f"{chance.choice([500, 1000, 1900])}m"
            world.pod(f"g{number}-{member}", cpu, group.spec.priority, **parts)
            if chance.random() < 0.1:
                await asyncio.sleep(0.01)  # the others come late
        world.pod(f"single-{number}", "700m")
        await asyncio.sleep(chance.choice([0.0, 0.05, 0.4]))
        bound = [pod for pod in world.cluster.objects("Pod") if pod.spec.node_name]  # type: ignore[union-attr]
        if bound and chance.random() < 0.6:
            name = chance.choice(bound).metadata.name.rpartition("-")[0]
            for pod in world.cluster.objects("Pod"):
                if pod.metadata.name.startswith(f"{name}-"):
                    world.cluster.delete("Pod", f"default/{pod.metadata.name}")


class Incomplete(Run):
    """A gang that is being bound loses a member; another one, which fits nowhere, comes."""

    async def record(self) -> None:
        world = self.binding_slowly()
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            gang(world, "g", "", 3, cpu="1")
            await asyncio.sleep(0.5)
            self.checkpoint(writer)
            world.cluster.delete("Pod", "default/g-2")
            world.pod("late", "8", schedulingGroup={"podGroupName": "g"})
            await asyncio.sleep(1.2)
            taint = {"key": "k", "effect": "NoSchedule"}
            world.node("n1", cpu="8", taints=[taint])  # where it would fit
            await asyncio.sleep(1)


class Queues(Run):
    """A gang takes back nodes from another one of its cohort; then a pod without a queue comes."""

    quota = 16

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        flavor(world)
        cluster_queue(world, "lender", {"cpu": self.quota}, cohort="all", reclaim="Any")
        cluster_queue(world, "borrower", {"cpu": 0}, cohort="all")
        for number in range(2):
            world.node(f"n{number}", cpu="4")
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            await asyncio.sleep(0.5)
            self.checkpoint(writer)
            for name in ("borrower", "lender"):
                gang(world, name, name, 2, cpu="3")
                await asyncio.sleep(20)
            world.pod("alone", "500m")
            await asyncio.sleep(1)


class VolumeOfAQueue(Run):
    """A pod finds no volume while that of a pod in a queue is being written; later there is one."""

    async def record(self) -> None:
        world = self.world = TermWorld([self.profile], decisions=self.log)
        flavor(world)
        cluster_queue(world, "queue", {"cpu": 16})
        world.node("n0", cpu="4")
        names = ("queued", "other")
        for made in (storage_class("local"), volume("disk"), *(claim(name) for name in names)):
            world.cluster.create(from_manifest(made).message)
        cluster = world.cluster
        cluster.patch_many = slowly(cluster.patch_many)  # type: ignore[method-assign]
        async with world.running(), recording_of(world.cluster, self.file, self.log) as writer:
            await asyncio.sleep(0.5)
            self.checkpoint(writer)
            for name, labels in zip(names, ({QUEUE: "queue"}, {}), strict=True):
                mounted = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
                await world.pod_and_wait(name, "1", volumes=[mounted], labels=labels)
            await world.pod_and_wait("without", "1")
            await asyncio.sleep(5)
            world.cluster.create(from_manifest(volume("another")).message)
            await asyncio.sleep(20)


class QueuesWithLittleQuota(Queues):
    """It takes back the quota, too."""

    quota = 8


PACKED = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ]
        }
    ]
}


@asynccontextmanager
async def leading(
    cluster: FakeCluster, log: DecisionLog, gates: Mapping[str, bool] = NO_GATES
) -> AsyncIterator[TermRunner]:
    """A replica leads."""
    tasks, informer = TaskSet("the replica"), cluster.informer(watched_kinds(gates))
    parts = RunnerParts(
        "replica", default_config(), SchedulerSettings(audit_period=0.0), None, factories(),
        cluster, informer, NoActors(cluster), None, CycleMeter(MetricRegistry(), Tracer()),
        ControllerMetrics(MetricRegistry()), decisions=log,
    )  # fmt: skip
    runner = TermRunner(parts, tasks)
    tasks.start(informer.run(runner.handle), "informer")
    running = asyncio.create_task(tasks.run())
    fence = cluster.new_term(LOCK)
    runner.start_term(fence, lambda: None)
    cluster.create(node("last"))  # with it the informer has seen the term
    yield runner
    running.cancel()
    await asyncio.wait([running])


async def note_checkpoint(runner: TermRunner, writer: RecordingWriter) -> None:
    await asyncio.sleep(0.5)
    taken = await runner.checkpoint()
    assert taken is not None
    writer.note(0.0, "checkpoint", taken)


async def record_a_reload(file: Path) -> None:
    """A term goes on with another configuration while it is recorded."""
    cluster, log = FakeCluster(), a_log()
    for number in range(4):
        cluster.create(node(f"n{number}"))
    async with leading(cluster, log) as runner, recording_of(cluster, file, log) as writer:
        for part in ("before", "after"):
            await note_checkpoint(runner, writer)
            for number in range(6):
                cluster.create(pod(f"{part}-{number}", PENDING))
                await asyncio.sleep(0.1)
            if part == "before":
                await runner.reconfigure(load_config(PACKED), None)


async def record_a_taint_rule(file: Path, gates: Mapping[str, bool]) -> None:
    """A rule taints the only device, and goes again."""
    cluster, log = FakeCluster(), a_log()
    rule = DeviceTaintRule()
    rule.metadata.name, rule.spec.device_selector.pool = "rule", "last"
    rule.spec.taint.key, rule.spec.taint.effect = "bad", "NoSchedule"
    for made in (device_class(), devices("last", 1), resource_claim("claim"), rule):
        cluster.create(made)
    async with leading(cluster, log, gates) as runner, recording_of(cluster, file, log) as writer:
        await note_checkpoint(runner, writer)
        cluster.create(user("pod", claim="claim", **PENDING))
        await asyncio.sleep(0.5)
        cluster.delete("DeviceTaintRule", "rule")
        await asyncio.sleep(20)


def recorded(tmp_path: Path, kind: type[Run] = Run) -> Recording:
    run = kind(tmp_path / "run.rec", 1, {})
    run_in_virtual_time(run.record())
    return read_recording(run.file)


def by_default(checkpoint: Mapping[str, Any]) -> SchedulerConfiguration:
    return default_config()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Made once: it takes some seconds, of which the decisions are most."""
    return recorded(tmp_path_factory.mktemp("recording"))


def test_every_decision_of_a_run_with_churn_comes_out_the_same(recording: Recording) -> None:
    verdict = repeat(recording, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches[:3]] == []
    assert verdict.pods > 280
    assert verdict.placed > 100
    assert verdict.preempting > 5
    assert verdict.scored > 20
    assert set(verdict.left_out) == {"before the checkpoint"}


@pytest.mark.parametrize("seed", range(3))
def test_decisions_for_gangs_come_out_the_same(tmp_path: Path, seed: int) -> None:
    run = Gangs(tmp_path / "run.rec", seed, {})
    run_in_virtual_time(run.record())
    found = read_recording(run.file)
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches[:3]] == []
    of_gangs = [document for document in found.decisions if document.get("podGroup")]
    assert sum(1 for document in of_gangs if document.get("nodeName")) > 30
    assert sum(1 for document in of_gangs if document.get("outcome") == "Unschedulable") > 10
    assert verdict.repeated > 100
    assert set(verdict.left_out) <= {"before the checkpoint"}


def test_a_gang_that_may_be_incomplete_is_repeated_as_often_as_it_was_decided(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, Incomplete)
    late = [document["outcome"] for document in found.decisions if document["name"] == "late"]
    assert late == ["Unschedulable"] * 2
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert (verdict.repeated, verdict.left_out) == (2, {"before the checkpoint": 3})


#: With it chance decides which nodes a preemptor tries.
FEW_CANDIDATES: dict[str, Any] = {
    "pluginConfig": [
        {
            "name": "DefaultPreemption",
            "args": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2},
        }
    ]
}


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Recording]:
    """Makes a run whose decisions give way to others wherever they can."""

    def recorded(run: Run) -> Recording:
        with monkeypatch.context() as patch:
            patch.setattr(Turn, "is_over", property(lambda turn: True))
            patch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
            patch.setattr(dry_run_cache, "PART", 1)
            run_in_virtual_time(run.record())
        return read_recording(run.file)

    return recorded


def test_a_run_comes_out_the_same_that_was_divided_among_others_wherever_it_can_be(
    tmp_path: Path, divided: Callable[[Run], Recording]
) -> None:
    """Dry runs of preemption among the rest, for which a pod is decided on several times."""
    found = divided(Run(tmp_path / "run.rec", 1, FEW_CANDIDATES))
    config = load_config({"profiles": [FEW_CANDIDATES]})
    verdict = repeat(found, lambda checkpoint: config, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches[:3]] == []
    assert verdict.preempting > 5


@pytest.mark.parametrize("seed", range(2))
def test_decisions_for_gangs_during_which_objects_change_are_the_same_or_left_out(
    tmp_path: Path, divided: Callable[[Run], Recording], seed: int
) -> None:
    found = divided(Gangs(tmp_path / "run.rec", seed, {}))
    changing = sum(1 for document in found.decisions if document.get("beganRevision"))
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches[:3]] == []
    left_out = verdict.left_out["different without the changes that came while they were made"]
    assert 0 < left_out < changing / 5
    assert verdict.repeated > 300


def test_a_preemptor_waits_for_evictions_that_were_under_way_at_the_checkpoint(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, SlowEviction)
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    messages = [document.get("message", "") for document in found.decisions]
    assert any(REASON_TERMINATING in text for text in messages), messages
    assert verdict.repeated == 2


def test_decisions_soon_after_volumes_were_assumed_before_the_checkpoint_are_left_out(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, SlowVolume)
    assert [document.get("nodeName") for document in found.decisions] == ["n0", None]
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert verdict.left_out[_UNKNOWN] == 1


def test_a_pod_that_is_assumed_as_of_the_checkpoint_loses_its_node_when_it_did(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, LateEnd)
    assert [document["outcome"] for document in found.decisions] == ["Gone", "Scheduled"]
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert verdict.placed == 1


def test_a_pod_that_was_deleted_and_is_assumed_as_of_the_checkpoint_makes_what_follows_unsure(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, Gone)
    assert found.checkpoints[0]["assumed"] == {"uid-first": "n0"}
    outcomes = [(document["name"], document["outcome"]) for document in found.decisions]
    told = ["Gone", "Unschedulable", "Scheduled", "Scheduled"]
    assert outcomes == list(zip(["first", "second", "second", "third"], told, strict=True))
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert (verdict.left_out[_UNKNOWN], verdict.placed) == (2, 1)


def test_evictions_end_in_the_repetition_when_they_ended(tmp_path: Path) -> None:
    found = recorded(tmp_path, SlowTermination)
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert [document.get("victims") for document in found.decisions] == [2, None, 1]


def test_a_decision_is_repeated_with_the_configuration_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "reload.rec"
    run_in_virtual_time(record_a_reload(file))
    found = read_recording(file)
    verdict = repeat(found, lambda held: load_config(held["configuration"]), factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert (verdict.repeated, verdict.left_out) == (12, {})
    nodes = {n["name"]: n["nodeName"] for n in found.decisions}
    assert len({nodes[f"before-{number}"] for number in range(5)}) == 5, "spread"
    assert len({nodes[f"after-{number}"] for number in range(6)}) == 1, "packed"


@pytest.mark.parametrize("followed", [True, False])
def test_device_taint_rules_count_if_the_leader_followed_them(
    tmp_path: Path, followed: bool
) -> None:
    file = tmp_path / "rule.rec"
    run_in_virtual_time(record_a_taint_rule(file, {"DRADeviceTaintRules": followed}))
    found = read_recording(file)
    outcomes = [document["outcome"] for document in found.decisions]
    assert outcomes == (["Unschedulable", "Scheduled"] if followed else ["Scheduled"])
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert (verdict.repeated, verdict.left_out) == (len(outcomes), {})


def test_another_configuration_decides_otherwise_and_that_is_told(recording: Recording) -> None:
    packed = load_config(PACKED)
    few = replace(recording, decisions=recording.decisions[:400])
    verdict = repeat(few, lambda checkpoint: packed, factories())
    assert any("node_name" in mismatch.fields for mismatch in verdict.mismatches)
    assert str(verdict.mismatches[0]).startswith("decision ")


def test_a_single_decision_that_was_tampered_with_is_the_only_one_told(
    recording: Recording,
) -> None:
    decisions = list(recording.decisions[:400])
    at = max(n for n, document in enumerate(decisions) if document.get("nodeName"))
    lied = decisions[at] = {**decisions[at], "feasibleNodes": 77}
    verdict = repeat(replace(recording, decisions=decisions), by_default, factories())
    (mismatch,) = verdict.mismatches
    assert mismatch.number == int(lied["number"])
    assert mismatch.fields["feasible_nodes"][0] == 77


def test_what_may_be_based_on_a_decision_that_is_missing_is_left_out(
    recording: Recording,
) -> None:
    decisions = [n for n in recording.decisions if int(n["number"]) < 400]
    gone = next(n for n in decisions[200:] if n.get("nodeName"))
    decisions.remove(gone)
    verdict = repeat(replace(recording, decisions=decisions), by_default, factories())
    assert verdict.mismatches == []
    assert verdict.left_out["soon after a decision that is missing"] > 0


def test_decisions_of_a_term_without_a_checkpoint_are_left_out(recording: Recording) -> None:
    one = recording.checkpoints[0]
    other = {**one, "term": 4711}
    verdict = repeat(replace(recording, checkpoints=[other]), by_default, factories())
    assert verdict.repeated == 0
    assert list(verdict.left_out) == [
        "of a term, or part of one, that the recording has no checkpoint of"
    ]


def test_a_recording_without_decisions_cannot_be_repeated(recording: Recording) -> None:
    with pytest.raises(NotRepeatable, match="no decisions"):
        repeat(replace(recording, decisions=[]), by_default, factories())
    one = recording.checkpoints[0]
    broken = {"term": one["term"], "number": 0}
    with pytest.raises(NotRepeatable):
        repeat(replace(recording, checkpoints=[broken]), by_default, factories())


@pytest.mark.parametrize("part", [{"assumed": []}, {"pods": []}, {"draws": 1 << 62}])
def test_a_checkpoint_of_another_form_is_refused(recording: Recording, part: Any) -> None:
    wrong = {**recording.checkpoints[0], **part}
    with pytest.raises(NotRepeatable, match="the checkpoint does not fit the objects"):
        repeat(replace(recording, checkpoints=[wrong]), by_default, factories())


def test_a_decision_of_another_form_is_refused_in_one_line(recording: Recording) -> None:
    one = recording.decisions[0]
    for part, told in (({"other": 1}, "cannot be read"), ({"draws": 1 << 62}, "random numbers")):
        with pytest.raises(NotRepeatable, match=told) as refused:
            repeat(replace(recording, decisions=[{**one, **part}]), by_default, factories())
        assert "\n" not in str(refused.value)


def test_decisions_that_know_more_than_the_recording_are_left_out(recording: Recording) -> None:
    *before, last = recording.decisions
    more = {**last, "revision": str(recording.last_revision), "beyond": "1"}
    verdict = repeat(replace(recording, decisions=[*before, more]), by_default, factories())
    assert verdict.mismatches == []
    assert verdict.left_out["after the end of the recording"] == 1


def test_decisions_with_claims_soon_after_those_of_a_pod_in_a_queue_are_left_out(
    tmp_path: Path,
) -> None:
    found = recorded(tmp_path, VolumeOfAQueue)
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert (verdict.left_out["on pods in queues"], verdict.left_out[_CLAIMS]) == (1, 2)
    placed = {document["name"] for document in found.decisions if document.get("nodeName")}
    assert placed == {"queued", "other", "without"}
    assert verdict.placed == 2


@pytest.mark.parametrize("kind", [Queues, QueuesWithLittleQuota])
def test_decisions_on_pods_in_queues_are_recorded_and_left_out(
    tmp_path: Path, kind: type[Run]
) -> None:
    found = recorded(tmp_path, kind)
    outcomes = [(document["name"], document["outcome"]) for document in found.decisions]
    assert outcomes[2:4] == [("lender-0", "Unschedulable"), ("lender-1", "Unschedulable")]
    verdict = repeat(found, by_default, factories())
    assert [str(mismatch) for mismatch in verdict.mismatches] == []
    assert verdict.repeated == verdict.placed == 1
    assert verdict.left_out == {"on pods in queues": len(outcomes) - 1}
