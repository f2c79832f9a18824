"""A replica's state and terms: what a term leaves behind, and what ends one."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import Lease
from podsched.app import state_filling, state_freeing, term_runner
from podsched.app.term_runner import TermRunner
from podsched.app.term_work import ControllerParts, RunnerParts
from podsched.config.load import default_config, load_config
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.extenders.calls import ExtenderClient, Extenders
from podsched.decide.extenders.wire import NodeTexts
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.lib.memory import collect_everything
from podsched.lib.tasks import TaskSet
from podsched.queue.attempts import Attempts
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.registry import factories
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ControllerMetrics
from podsched.telemetry.tracing import Tracer
from podsched.term.controllers.manager import ControllerManager
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.scheduling_cycle import SchedulingCycle
from podsched.term.faulty_pods import PodFault
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.extender_world import ScriptedExtender
from support.no_actors import NoActors

pytestmark = pytest.mark.looptime

PENDING = {"schedulerName": "default-scheduler", "priority": 0}
LOCK = "kube-system/kube-scheduler"


@pytest.fixture(autouse=True)
def garbage_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collecting all of it takes half a second in a process that has all the tests."""
    monkeypatch.setattr(state_freeing, "collect_everything", lambda: None)


@pytest.fixture
def collections(garbage_may_stay: None, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each time that all garbage was to be collected."""
    counted: list[None] = []
    monkeypatch.setattr(state_freeing, "collect_everything", lambda: counted.append(None))
    return counted


class World:
    """A runner that follows a cluster in memory."""

    def __init__(self, cluster: FakeCluster | None = None, tracer: Tracer | None = None) -> None:
        self.cluster = cluster or FakeCluster()
        self.informer = self.cluster.informer(WATCHED_KINDS)
        self.actors = NoActors(self.cluster)
        self.tasks = TaskSet("the replica")
        parts = RunnerParts(
            "replica-1",
            default_config(),
            SchedulerSettings(identity="replica-1"),
            ControllerParts(ControllerSettings(), self.cluster),
            factories(),
            self.cluster,
            self.informer,
            self.actors,
            None,
            CycleMeter(MetricRegistry(), tracer or Tracer()),
            ControllerMetrics(MetricRegistry()),
        )
        self.runner = TermRunner(parts, self.tasks)
        self.tasks.start(self.informer.run(self.runner.handle), "informer")
        self.running = asyncio.create_task(self.tasks.run())
        self.lost: list[int] = []

    async def lead(self, seconds: float = 1) -> None:
        """Begin a term, and let some seconds of it pass."""
        fence = self.cluster.new_term(LOCK)
        self.runner.start_term(fence, lambda: self.lost.append(fence.term))
        # The informer sees the term with the record that every acquisition writes.
        record = Lease()
        record.metadata.namespace, record.metadata.name = "kube-system", f"term-{fence.term}"
        self.cluster.create(record)
        if seconds:
            await asyncio.sleep(seconds)

    def node_of(self, name: str) -> str:
        stored = self.cluster.object("Pod", f"default/{name}")
        assert isinstance(stored, v1.Pod)
        return stored.spec.node_name


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.running.cancel()
    await asyncio.gather(made.running, return_exceptions=True)


async def test_a_term_goes_on_with_another_configuration_and_loses_no_pod(world: World) -> None:
    cluster = world.cluster
    cluster.create(node("n1", labels={"zone": "a"}))
    cluster.create(node("n2", labels={"zone": "b"}))
    await world.lead(0.5)
    for number in range(3):
        cluster.create(pod(f"before-{number}", PENDING))
    cluster.create(pod("other", {**PENDING, "schedulerName": "other"}))
    added = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
        ]}}}  # fmt: skip
    args = [{"name": "NodeAffinity", "args": added}]
    config = load_config(
        {
            "profiles": [
                {"schedulerName": "default-scheduler", "pluginConfig": args},
                {"schedulerName": "other"},
            ]
        }
    )
    await asyncio.sleep(0)
    state = world.runner.state
    await world.runner.reconfigure(config, None)
    assert [world.node_of(f"before-{n}") != "" for n in range(3)] == [True] * 3, "under way"
    await asyncio.sleep(0.1)
    assert world.runner.state is not state
    for number in range(5):
        cluster.create(pod(f"after-{number}", PENDING))
    await asyncio.sleep(1)
    assert [world.node_of(f"after-{n}") for n in range(5)] == ["n2"] * 5, "as the new one says"
    assert world.node_of("other"), "a profile that is new finds its pods"
    bound = [key for key, _ in cluster.bound]
    assert len(bound) == len(set(bound)) == 9
    assert not world.running.done()


async def test_events_about_the_lock_tell_who_became_leader_and_who_stopped(world: World) -> None:
    world.tasks.start(world.runner.recorder.run(), "events")
    await world.lead(0.5)
    world.runner.end_term()
    await asyncio.sleep(0.5)
    world.runner.end()
    await asyncio.sleep(0.5)
    events = [one for one in world.cluster.objects("Event") if isinstance(one, v1.Event)]
    assert [one.message for one in events] == [
        "replica-1 became leader",
        "replica-1 stopped leading",
    ]
    for one in events:
        about = one.involved_object
        assert (about.kind, f"{about.namespace}/{about.name}") == ("Lease", LOCK)
        assert (one.type, one.reason) == ("Normal", "LeaderElection")
        assert one.reporting_controller == "default-scheduler"


async def test_a_standby_leads_with_the_configuration_that_it_was_given(world: World) -> None:
    world.cluster.create(node("n1"))
    await asyncio.sleep(0.1)
    await world.runner.reconfigure(load_config({"profiles": [{"schedulerName": "other"}]}), None)
    world.cluster.create(pod("a", {**PENDING, "schedulerName": "other"}))
    await world.lead()
    assert world.node_of("a") == "n1"


async def test_what_was_assumed_is_forgotten_and_what_is_known_is_all_there_again(
    world: World,
) -> None:
    cluster = world.cluster
    cluster.create(node("n1"))
    nominee = pod("nominee", {**PENDING, "priority": 10, "schedulingGates": [{"name": "g"}]})
    nominee.status.nominated_node_name = "n1"
    for item in (
        pod("running", {**PENDING, "nodeName": "n1"}),
        pod("theirs", {"schedulerName": "theirs"}),
        nominee,
    ):
        cluster.create(item)
    await world.lead()
    cluster.create(pod("assumed", {**PENDING, "priority": 5}))
    cluster.create(pod("waiting", PENDING))
    await asyncio.sleep(0)
    state = world.runner.state
    queued = state.queue.attempts.pop(0.0)
    assert queued is not None and queued.info.uid == "uid-assumed"
    state.cache.assume(queued.info, "n1")
    state.queue.in_flight.done("uid-assumed")
    world.runner.end_term()
    await asyncio.sleep(0.25)
    assert world.runner.state is not state
    cache, queue = world.runner.state.cache, world.runner.state.queue
    assert len(cache.assumed) == 0
    assert (len(cache.columns.node_table), len(cache.held)) == (1, 1)
    assert queue.place("uid-assumed") == queue.place("uid-waiting") == "active"
    assert queue.place("uid-nominee") == "gated"
    assert queue.place("uid-theirs") == ""
    assert cache.cluster.nominator.node_of("uid-nominee") == "n1"
    queue.check_invariants()
    # The informer goes on where it was.
    cluster.create(pod("new", PENDING))
    await asyncio.sleep(0.05)
    assert world.runner.state.queue.place("uid-new") == "active"


async def test_the_pods_of_a_term_that_ended_are_freed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_freeing, "collect_everything", collect_everything)
    world.cluster.create(node("n1"))
    world.cluster.create(pod("running", {**PENDING, "nodeName": "n1"}))
    await world.lead()
    (info,) = world.runner.state.cache.cluster.pods.values()
    gone = weakref.ref(info.cls)
    del info
    gc.freeze()  # as after a while
    world.runner.end_term()
    await asyncio.sleep(2)
    gc.freeze()  # again what lasts as long as all tests
    assert gone() is None


async def test_a_leader_lets_the_pods_of_its_old_configuration_go_without_a_collection(
    world: World,
) -> None:
    world.cluster.create(node("n1"))
    world.cluster.create(pod("running", {**PENDING, "nodeName": "n1"}))
    world.cluster.create(pod("gated", {**PENDING, "schedulingGates": [{"name": "later"}]}))
    world.cluster.create(pod("elsewhere", {**PENDING, "nodeSelector": {"zone": "z"}}))
    await world.lead(0)
    world.cluster.create(pod("bound", PENDING))
    await asyncio.sleep(2)
    assert world.node_of("bound")
    pods = world.runner.state.cache.cluster.pods
    before = [weakref.ref(info.cls) for info in pods.values()]
    assert len(before) == 4
    del pods
    gc.disable()
    try:
        await world.runner.reconfigure(default_config(), None)
        await asyncio.sleep(2)
        assert not any(of_pod() for of_pod in before)
    finally:
        gc.enable()


async def test_only_a_replica_that_does_not_lead_collects_all_garbage(
    world: World, collections: list[None]
) -> None:
    await world.lead()
    await world.runner.reconfigure(default_config(), None)
    await asyncio.sleep(2)
    assert not collections
    world.runner.end_term()
    await asyncio.sleep(2)
    assert collections


async def test_a_standby_collects_no_garbage_while_pods_wait_for_a_decision(
    world: World, collections: list[None]
) -> None:
    """It would notice the end of the leader, on which these pods depend, half a second later."""
    await world.lead()
    world.runner.end_term()
    world.cluster.create(pod("waiting", PENDING))
    world.cluster.create(pod("gated", {**PENDING, "schedulingGates": [{"name": "later"}]}))
    await asyncio.sleep(500)
    assert not collections
    world.cluster.delete("Pod", "default/waiting")
    await asyncio.sleep(2)
    assert len(collections) == 1


async def test_a_standby_in_which_pods_always_wait_collects_garbage_after_all(
    world: World, collections: list[None]
) -> None:
    await world.lead()
    world.cluster.create(pod("fits-nowhere", PENDING))
    world.runner.end_term()
    await asyncio.sleep(1200)
    assert len(collections) == 1


async def test_what_comes_while_the_state_is_built_anew_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_filling, "_TURN", 2)
    for number in range(5):  # more than one turn
        world.cluster.create(pod(f"p{number}", PENDING))
    await world.lead()
    world.runner.end_term()
    world.cluster.delete("Pod", "default/p0")
    await asyncio.sleep(0)
    world.cluster.delete("Pod", "default/p1")
    world.cluster.create(pod("new", PENDING))
    world.cluster.create(node("n1"))
    await world.lead(5)
    state = world.runner.state
    known = {f"default/p{number}" for number in range(2, 5)} | {"default/new"}
    assert set(state.cache.cluster.pods) == known
    assert len(state.cache.held) > 0
    state.queue.check_invariants()


@pytest.fixture
def parts_take_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each two objects that are put into a new state take a second of processor time."""
    monkeypatch.setattr(state_filling, "_TURN", 2)
    monkeypatch.setattr(state_filling, "processor_clock", lambda: itertools.count().__next__)


@pytest.mark.usefixtures("parts_take_a_second")
async def test_a_former_leader_pauses_while_it_builds_its_state_anew(world: World) -> None:
    """Because another replica is the new leader, perhaps on the same machine."""
    for number in range(4):
        world.cluster.create(pod(f"p{number}", PENDING))
    await world.lead()
    world.runner.end_term()
    await asyncio.sleep(4.1)
    assert world.runner.whole_state is None
    await asyncio.sleep(0.2)
    assert world.runner.whole_state is not None


async def test_a_former_leader_first_has_time_to_release_the_lock(world: World) -> None:
    await world.lead()
    before = world.runner.state
    world.runner.end_term()
    await asyncio.sleep(0.19)
    assert world.runner.state is before
    await asyncio.sleep(0.02)
    assert world.runner.state is not before


@pytest.mark.usefixtures("parts_take_a_second")
async def test_a_replica_that_leads_again_builds_its_state_without_pauses(world: World) -> None:
    for number in range(4):
        world.cluster.create(pod(f"p{number}", PENDING))
    await world.lead()
    world.runner.end_term()
    await world.lead(0.1)
    assert world.runner.whole_state is not None


async def test_a_new_leader_schedules_before_its_controllers_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has waited during a takeover comes first; the controllers follow within a second."""
    began: list[float] = []

    async def run(controllers: ControllerManager) -> None:
        began.append(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    monkeypatch.setattr(ControllerManager, "run", run)
    world.cluster.create(node("n1"))
    world.cluster.create(pod("a", PENDING))
    await asyncio.sleep(1)
    leads_since = asyncio.get_running_loop().time()
    await world.lead(0.9)
    assert (world.node_of("a"), began) == ("n1", [])
    await asyncio.sleep(0.2)
    assert began == [pytest.approx(leads_since + 1.0, abs=0.05)]


async def test_a_term_that_ended_by_its_fence_leaves_the_replica_in_standby(world: World) -> None:
    world.cluster.create(node("n1"))
    await world.lead(0)
    term = world.cluster.revision - 1
    await asyncio.sleep(1)
    world.cluster.new_term(LOCK)
    world.cluster.create(pod("a", PENDING))
    await asyncio.sleep(5)
    assert world.actors.ended
    assert not world.running.done()
    assert world.node_of("a") == ""
    assert world.lost == [term], "the elector is told"
    world.actors.failure = asyncio.get_running_loop().create_future()
    await world.lead(5)
    assert world.node_of("a") == "n1"
    assert world.lost == [term]


async def test_what_keeps_the_actors_of_a_term_does_not_fail_unnoticed(world: World) -> None:
    await world.lead()
    world.actors.failure.set_exception(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError) as raised:
        await world.running
    task, term = raised.value.__notes__
    assert task.startswith('in task "actors" of term ')
    assert term.endswith(" of the replica")


async def test_the_tasks_of_a_term_end_with_it(world: World) -> None:
    await world.lead()
    assert not world.actors.ended
    world.runner.end_term()
    await asyncio.sleep(2)  # and what it kept has been let go
    assert world.actors.ended
    assert len(world.tasks) == 1, "the informer"


def break_decisions(monkeypatch: pytest.MonkeyPatch, name: str) -> list[float]:
    """From now on decisions that concern one pod raise; return when they raised."""
    schedule, raised = SchedulingCycle.schedule, list[float]()

    async def broken(cycle: SchedulingCycle, batch: Sequence[QueuedPodInfo], now: float) -> None:
        if any(queued.info.name == name for queued in batch):
            raised.append(asyncio.get_running_loop().time())
            raise IndexError("a bug")
        await schedule(cycle, batch, now)

    monkeypatch.setattr(SchedulingCycle, "schedule", broken)
    return raised


async def test_a_pod_on_which_terms_keep_ending_is_set_aside_and_the_others_are_scheduled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = break_decisions(monkeypatch, "bad")
    world.cluster.create(node("n1"))
    await world.lead(0)
    for name in ("a", "bad", "c"):
        world.cluster.create(pod(name, PENDING))
    await asyncio.sleep(60)
    assert not world.running.done()
    assert [world.node_of(name) for name in ("a", "bad", "c")] == ["n1", "", "n1"]
    assert len(raised) <= 4, "together with others, and three times alone"
    stored = world.cluster.object("Pod", "default/bad")
    assert isinstance(stored, v1.Pod)
    (condition,) = stored.status.conditions
    assert (condition.type, condition.reason) == ("PodScheduled", "SchedulerError")
    assert "3 terms ended on it: IndexError('a bug')" in condition.message
    assert len(world.runner.state.set_aside) == 1
    world.runner.end_term()
    world.actors.failure = asyncio.get_running_loop().create_future()
    await world.lead(0)
    world.cluster.create(pod("later", PENDING))
    await asyncio.sleep(5)
    assert world.node_of("later") == "n1"
    assert len(raised) <= 4, "the next term knows"


async def test_a_term_that_a_bug_ended_starts_over_after_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    await world.runner.reconfigure(default_config(), None)
    raised = break_decisions(monkeypatch, "bad")
    world.cluster.create(pod("bad", PENDING))
    await asyncio.sleep(60)
    pauses = [after - before for before, after in itertools.pairwise(raised)]
    assert len(pauses) == 2
    assert min(pauses) >= term_runner._FIRST_PAUSE / 2, "though the term had begun anew before"


async def test_a_paused_leader_decides_nothing_and_goes_on_with_the_same_term(
    world: World,
) -> None:
    """What was decided before stays bound; what came meanwhile is bound afterwards."""
    world.cluster.create(node("n1"))
    await world.lead(0)
    world.cluster.create(pod("before", PENDING))
    await asyncio.sleep(1)
    assert world.node_of("before") == "n1"
    world.runner.pause(True)
    world.runner.pause(True)
    await asyncio.sleep(0.1)
    world.cluster.create(pod("meanwhile", PENDING))
    await asyncio.sleep(60)
    assert world.node_of("meanwhile") == ""
    world.runner.pause(False)
    await asyncio.sleep(1)
    assert world.node_of("meanwhile") == "n1"


class LateBinder:
    """Binds when a second has passed, even if no caller waits for the answer any more."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._late: set[asyncio.Future[Sequence[api_pb2.BatchResult]]] = set()

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        late = asyncio.ensure_future(self._bind(bindings, fence))
        self._late.add(late)
        return await asyncio.shield(late)

    async def _bind(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence
    ) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(1)
        return await self._cluster.bind_pods(bindings, fence=fence)


def whole_cpu(name: str, priority: int = 0) -> v1.Pod:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    others = {"priority": priority, "preemptionPolicy": "Never", "containers": [container]}
    return pod(name, {**PENDING, **others})


async def bind_late(world: World) -> None:
    """Return while the pod "first" is being bound to a node that has room for no other."""
    world.cluster.create(node("n1", allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"}))
    world.actors.binder = LateBinder(world.cluster)
    await world.lead(0.5)
    world.cluster.create(whole_cpu("first"))
    await asyncio.sleep(0.1)


async def test_a_leader_that_goes_on_soon_knows_what_was_being_bound(world: World) -> None:
    """Its new state would have room on the node otherwise, for a pod of higher priority."""
    await bind_late(world)
    world.runner.pause(True)
    world.cluster.create(whole_cpu("more-important", priority=10))
    world.runner.pause(False)
    await asyncio.sleep(10)
    assert (world.node_of("first"), world.node_of("more-important")) == ("n1", "")
    world.cluster.create(node("n2"))
    await asyncio.sleep(10)
    assert world.node_of("more-important") == "n2"


async def test_a_term_begins_when_what_the_one_before_it_did_has_ended(world: World) -> None:
    world.cluster.create(node("n1"))
    await world.lead()
    world.actors.ending = 5.0
    world.cluster.create(pod("a", PENDING))
    await asyncio.sleep(0)
    assert world.runner.busy
    world.runner.end_term()
    assert not world.runner.busy
    waiting = asyncio.create_task(world.runner.reconfigure(default_config(), None))
    await asyncio.sleep(0.1)
    world.actors.ending = 0.0
    world.actors.failure = asyncio.get_running_loop().create_future()
    await world.lead(4)
    assert (world.node_of("a"), waiting.done()) == ("", False)
    await asyncio.sleep(2)
    assert (world.node_of("a"), waiting.done()) == ("n1", True)


async def test_a_pause_that_comes_just_as_the_work_has_ended_is_no_failure(world: World) -> None:
    await world.lead()
    work = world.runner._work
    assert work is not None
    work.loop.fail(PodFault([]))
    for _ in range(20):
        if not work.over:
            await asyncio.sleep(0)
    assert work.over
    assert world.runner._work is work, "its end has not been told"
    world.runner.pause(True)
    await asyncio.sleep(10)
    assert not world.running.done()


def break_queue(monkeypatch: pytest.MonkeyPatch, method: str, name: str) -> list[str]:
    """From now on a method of the queue raises for one pod; return the pods it raised for."""
    original, raised = getattr(SchedulingQueue, method), []

    def broken(queue: SchedulingQueue, info: PodInfo, *rest: object, **more: object) -> object:
        if info.name == name:
            raised.append(name)
            raise IndexError("a bug in the queue")
        return original(queue, info, *rest, **more)

    monkeypatch.setattr(SchedulingQueue, method, broken)
    return raised


@pytest.mark.parametrize("leads", [True, False])
async def test_a_pod_that_the_queue_cannot_take_is_set_aside_and_the_others_are_scheduled(
    world: World, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    """Also while the state is built anew, and whether the replica leads or not."""
    raised = break_queue(monkeypatch, "add", "bad")
    world.cluster.create(node("n1"))
    if leads:
        await world.lead()
    for name in ("a", "bad", "c"):
        world.cluster.create(pod(name, PENDING))
    await asyncio.sleep(30)
    if not leads:
        await world.lead(30)
    assert not world.running.done()
    assert [world.node_of(name) for name in ("a", "bad", "c")] == ["n1", "", "n1"]
    assert len(raised) == 3
    assert len(world.runner.state.set_aside) == 1


async def meet(world: World, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    """Have the term meet a bug while "first" is being bound, which then has the room."""
    broken = {
        "in the queue": lambda: break_queue(monkeypatch, "add", "bad"),
        "in a decision": lambda: break_decisions(monkeypatch, "bad"),
    }
    raised = broken[bug]()
    world.cluster.create(pod("bad", PENDING))
    world.cluster.create(whole_cpu("more-important", priority=10))
    await asyncio.sleep(0.5)
    assert raised
    assert (world.node_of("first"), world.node_of("more-important")) == ("", "")
    await asyncio.sleep(30)
    assert (world.node_of("first"), world.node_of("more-important")) == ("n1", "")


@pytest.mark.parametrize("bug", ["in the queue", "in a decision"])
async def test_a_term_that_starts_over_after_a_bug_knows_what_was_being_bound(
    world: World, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    """Whether the bug is met on what the informer reports or on a decision."""
    await bind_late(world)
    await meet(world, monkeypatch, bug)
    world.cluster.create(node("n2"))
    await asyncio.sleep(10)
    assert world.node_of("more-important") == "n2"
    assert not world.running.done()


class LateExtender(ScriptedExtender):
    """Binds when a second has passed, even if no caller waits for the answer any more."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self.delay = 1.0
        self.answers["bind"] = self._bind
        self._cluster = cluster
        self._late: set[asyncio.Future[bytes]] = set()

    async def send(self, verb: str, body: bytes) -> bytes:
        late = asyncio.ensure_future(super().send(verb, body))
        self._late.add(late)
        return await asyncio.shield(late)

    def _bind(self, args: dict[str, Any]) -> dict[str, Any]:
        bound = self._cluster.object("Pod", f"default/{args['PodName']}")
        assert isinstance(bound, v1.Pod)
        bound.spec.node_name = args["Node"]
        self._cluster.update(bound)
        return {}


async def test_a_term_that_starts_over_after_a_bug_knows_what_extenders_were_binding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the new state has room on the node, for a pod of higher priority."""
    config = load_config({"extenders": [{"urlPrefix": "http://late", "bindVerb": "bind"}]})
    client = ExtenderClient(config.extenders[0], LateExtender(world.cluster), NodeTexts())
    await world.runner.reconfigure(config, Extenders([client]))
    await bind_late(world)
    await meet(world, monkeypatch, "in a decision")
    assert not world.running.done()


async def test_a_queue_that_cannot_give_out_pods_ends_neither_term_nor_replica(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is built anew, with a pause in between."""
    pop_batch, raised = Attempts.pop_batch, 0

    def broken(attempts: Attempts, *rest: object, **more: object) -> object:
        nonlocal raised
        if world.runner.state.queue.pending.counts()["active"] and raised < 5:
            raised += 1
            raise IndexError("a bug in the queue")
        return pop_batch(attempts, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Attempts, "pop_batch", broken)
    world.cluster.create(node("n1"))
    await world.lead(0)
    world.cluster.create(pod("a", PENDING))
    await asyncio.sleep(60)
    assert not world.running.done()
    assert raised == 5
    assert world.node_of("a") == "n1"


class LateCluster(FakeCluster):
    """A cluster in which some calls take a second; they go on when nobody waits any more."""

    def __init__(self, late: str) -> None:
        super().__init__()
        self._late = late

    async def evict_pods(self, *args: Any, **more: Any) -> Sequence[api_pb2.BatchResult]:
        return await self._call("evictions", super().evict_pods(*args, **more))

    async def patch_pod_statuses(self, *args: Any, **more: Any) -> Sequence[api_pb2.BatchResult]:
        return await self._call("statuses", super().patch_pod_statuses(*args, **more))

    async def _call(
        self, name: str, call: Awaitable[Sequence[api_pb2.BatchResult]]
    ) -> Sequence[api_pb2.BatchResult]:
        async def later() -> Sequence[api_pb2.BatchResult]:
            await asyncio.sleep(self._late == name)
            return await call

        return await asyncio.shield(asyncio.ensure_future(later()))


def victim_on(world: World, name: str, victim: str, priority: int) -> None:
    """Make a node that has room for one pod, and this pod on it."""
    world.cluster.create(node(name, allocatable={"cpu": "1", "pods": "10"}))
    made = whole_cpu(victim, priority)
    made.spec.node_name, made.spec.termination_grace_period_seconds = name, 60
    world.cluster.create(made)


@pytest.mark.parametrize("late", ["evictions", "statuses"])
async def test_a_leader_that_goes_on_soon_preempts_no_other_pods_for_the_same_pod(
    late: str,
) -> None:
    """Though another victim would be chosen by now."""
    world = World(LateCluster(late))
    try:
        victim_on(world, "n1", "first", 5)
        await world.lead()
        urgent = whole_cpu("urgent", 10)
        urgent.spec.preemption_policy = "PreemptLowerPriority"
        victim_on(world, "n2", "second", 7)
        world.cluster.create(urgent)
        await asyncio.sleep(0.1)
        victim_on(world, "n3", "third", 0)
        world.runner.pause(True)
        world.runner.pause(False)
        await asyncio.sleep(10)
        names = ("first", "second", "third")
        found = (world.cluster.object("Pod", f"default/{name}") for name in names)
        assert [one.metadata.HasField("deletion_timestamp") for one in found] == [
            True, False, False,
        ]  # fmt: skip
    finally:
        world.running.cancel()
        await asyncio.gather(world.running, return_exceptions=True)


async def test_a_replica_forgets_the_preemptions_of_a_term_whose_outcome_it_does_not_see(
    world: World,
) -> None:
    def spec(priority: int, **more: Any) -> dict[str, Any]:
        requests = {"cpu": "1"}
        containers = [{"name": "c", "image": "x", "resources": {"requests": requests}}]
        return {**PENDING, "priority": priority, "containers": containers, **more}

    world.cluster.create(node("n1", allocatable={"cpu": "1", "pods": "10"}))
    world.cluster.create(pod("victim", spec(0, nodeName="n1", terminationGracePeriodSeconds=30)))
    await world.lead()
    world.cluster.create(pod("urgent", spec(10)))
    await asyncio.sleep(1)
    freed_for = world.runner._parts.meter.preemption.freed_for
    assert freed_for == {"uid-urgent": "n1"}
    world.runner.end_term()
    await asyncio.sleep(1)
    assert freed_for == {}


async def test_the_traces_of_attempts_end_with_the_term() -> None:
    """Those that were kept would stay in memory, a few more after each term."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    world = World(tracer=Tracer(provider))
    try:
        await bind_late(world)
        world.runner.end_term()
        await asyncio.sleep(1)
        spans = {span.name: span for span in exporter.get_finished_spans()}
        attempt = spans["scheduling attempt"]
        assert (attempt.attributes or {})["pod"] == "default/first"
        assert attempt.status.description == "the term ended"
    finally:
        world.running.cancel()
        await asyncio.gather(world.running, return_exceptions=True)
