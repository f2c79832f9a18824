"""PreBind: what is skipped, what waits for the cluster, what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode
from podsched.decide.runtime.plugin_metrics import ProfileMeters
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.decide.runtime.run_log import PluginRun
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ObjectPatch, PreBindPlan
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from podsched.lib.tasks import Changes
from podsched.serve.client.errors import Unavailable
from podsched.term.after_trial import AfterTrial
from podsched.term.cycle.pre_bind import (
    PreBindCluster,
    run_pre_bind,
    wants_pre_bind,
)
from podsched.term.writes.object_turns import ObjectTurns
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1
from support.engine_pods import assignment

pytestmark = pytest.mark.looptime

PATCH = ObjectPatch("PersistentVolumeClaim", "default", "c", {"spec": {"volumeName": "v"}}, "42")


class Step:
    """A PreBind plugin that says what the test wants."""

    def __init__(self, plan: PreBindPlan, flight: Status = SUCCESS) -> None:
        self.plan, self.flight = plan, flight
        self.ran_at: list[float] = []

    def pre_bind_pre_flight(self, *_: Any) -> Status:
        return self.flight

    def pre_bind(self, *_: Any) -> PreBindPlan:
        self.ran_at.append(asyncio.get_running_loop().time())
        return self.plan


class World:
    """PreBind plugins in their order, and an API server that takes a second for each call."""

    def __init__(self, **steps: Step) -> None:
        self.steps = steps
        self.changes = Changes()
        self.requests: list[api_pb2.PatchRequest] = []
        self.result = api_pb2.BatchResult()
        self.created: list[str] = []
        self.creation = api_pb2.BatchResult()
        self.fault: Exception | None = None
        self.told: list[tuple[str, str] | None] = []
        self.asked = 0
        self.runs: list[PluginRun] = []
        self.turns = ObjectTurns()

    def get(self, kind: str, namespace: str, name: str) -> None:
        """The cluster has none of the objects that are patched."""

    @property
    def runtime(self) -> ProfileRuntime:
        named = [Named(name, step) for name, step in self.steps.items()]
        return cast(
            ProfileRuntime, SimpleNamespace(pre_bind=named, meter=ProfileMeters.unread().of(""))
        )

    async def patch(self, patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(1)
        if self.fault is not None:
            raise self.fault
        self.requests += patches
        return [self.result] * len(patches)

    async def create(self, items: Sequence[AnyObject]) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(1)
        self.created += [item.metadata.name for item in items]
        return [self.creation] * len(items)

    async def run(self) -> Status:
        view = cast(ClusterView, self)
        cluster = PreBindCluster(
            view, self.changes, self.create, self.patch, self.turns, AfterTrial()
        )
        return await run_pre_bind(
            self.runtime, assignment("a"), cluster, self.runs, self.told.append
        )

    def until(self, *answers: Status) -> Any:
        """A wait that gets these answers, the last for ever."""

        def wait(cluster: ClusterView) -> Status:
            self.asked += 1
            return answers[min(self.asked, len(answers)) - 1]

        return wait


PENDING = Status(Code.PENDING, ("not bound yet",))


async def test_plugins_run_one_after_another_in_their_order() -> None:
    first, second = Step(PreBindPlan(patches=(PATCH,))), Step(PreBindPlan())
    assert (await World(First=first, Second=second).run()).ok
    assert second.ran_at[0] - first.ran_at[0] == pytest.approx(1)


async def test_others_have_their_turn_between_the_steps_in_which_a_plan_is_made() -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    def steps() -> Iterator[PreBindPlan | None]:
        others.append(asyncio.create_task(other()))
        yield None
        turns.append("plan")
        yield PreBindPlan(error("no luck"))

    others: list[asyncio.Task[None]] = []
    status = await World(Long=Step(PreBindPlan(steps=steps()))).run()
    assert turns == ["other", "plan"]
    assert status.message == 'running PreBind plugin "Long": no luck'


async def test_a_plugin_that_skips_is_not_run() -> None:
    step = Step(PreBindPlan(error("never asked")), SKIP)
    world = World(Lazy=step)
    assert (await world.run()).ok
    assert not step.ran_at
    assert not wants_pre_bind(world.runtime, assignment("a"))


async def test_one_plugin_with_something_to_do_is_enough_to_want_pre_bind() -> None:
    world = World(Lazy=Step(PreBindPlan(), SKIP), Busy=Step(PreBindPlan()))
    assert wants_pre_bind(world.runtime, assignment("a"))


async def test_the_first_failure_ends_it_in_kube_schedulers_words() -> None:
    late = Step(PreBindPlan())
    status = await World(Bad=Step(PreBindPlan(error("no luck"))), Late=late).run()
    assert (status.code, status.plugin) == (Code.ERROR, "Bad")
    assert status.message == 'running PreBind plugin "Bad": no luck'
    assert not late.ran_at


async def test_a_refusal_stays_a_refusal() -> None:
    status = await World(Bad=Step(PreBindPlan(unschedulable("the claim is gone")))).run()
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "the claim is gone")


async def test_patches_are_written_as_merge_patches_of_the_version_that_was_seen() -> None:
    world = World(Binder=Step(PreBindPlan(patches=(PATCH,))))
    assert (await world.run()).ok
    [request] = world.requests
    assert (request.kind, request.namespace, request.name) == (
        "PersistentVolumeClaim",
        "default",
        "c",
    )
    assert request.merge_patch == b'{"spec": {"volumeName": "v"}}'
    assert request.resource_version == 42


@pytest.mark.parametrize("how", ["refused", "unavailable"])
async def test_a_patch_that_fails_ends_it_without_waiting(how: str) -> None:
    world = World()
    world.steps["Binder"] = Step(
        PreBindPlan(patches=(PATCH,), wait=world.until(SUCCESS), timeout=60)
    )
    if how == "refused":
        world.result = api_pb2.BatchResult(code=10, reason="CONFLICT", message="it has changed")
    else:
        world.fault = Unavailable("it has changed")
    status = await world.run()
    assert status.message == 'running PreBind plugin "Binder": it has changed'
    assert not world.asked


async def test_it_waits_until_a_change_of_the_cluster_makes_it_content() -> None:
    world = World()
    plan = PreBindPlan(wait=world.until(PENDING, PENDING, SUCCESS), timeout=60)
    world.steps["Binder"] = Step(plan)
    running = asyncio.create_task(world.run())
    await asyncio.sleep(5)
    assert world.asked == 1
    world.changes.notify()
    await asyncio.sleep(5)
    assert (world.asked, running.done()) == (2, False)
    world.changes.notify()
    await asyncio.sleep(0)
    assert (await running).ok


async def test_time_is_up_at_the_timeout_however_much_changes() -> None:
    world = World()
    world.steps["Binder"] = Step(PreBindPlan(wait=world.until(PENDING), timeout=3))
    began = asyncio.get_running_loop().time()
    running = asyncio.create_task(world.run())
    for _ in range(20):
        await asyncio.sleep(0.25)
        world.changes.notify()
    status = await running
    assert status.message.endswith('"Binder": not bound yet: context deadline exceeded')
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    assert world.asked <= 14


async def test_a_wait_that_turns_it_down_ends_it_at_once() -> None:
    world = World()
    refusal = unschedulable("the volume went to somebody else")
    world.steps["Binder"] = Step(PreBindPlan(wait=world.until(PENDING, refusal), timeout=60))
    running = asyncio.create_task(world.run())
    await asyncio.sleep(1)
    world.changes.notify()
    assert (await running).message == "the volume went to somebody else"


class SharedClaim(World):
    """A claim that pods patch; a new version of it is seen after 50 ms."""

    def __init__(self) -> None:
        super().__init__(Binder=Step(PreBindPlan()))
        self.stored = self.seen = 1
        self.refused = 0

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return v1.ResourceClaim(metadata=v1.ObjectMeta(name=name, resource_version=str(self.seen)))

    def plan(self) -> PreBindPlan:
        patch = ObjectPatch("ResourceClaim", "default", "c", {}, resource_version=str(self.seen))
        return PreBindPlan(patches=(patch,), plans_again=True)

    async def patch(self, patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(0.01)
        if patches[0].resource_version != self.stored:
            self.refused += 1
            return [api_pb2.BatchResult(code=StatusCode.ABORTED, message="it has changed")]
        self.stored += 1
        asyncio.get_running_loop().call_later(0.05, self.see)
        return [api_pb2.BatchResult()]

    def see(self) -> None:
        self.seen = self.stored
        self.changes.notify()


async def test_pods_that_share_a_claim_reserve_it_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SharedClaim()
    monkeypatch.setattr(world.steps["Binder"], "pre_bind", lambda *_: world.plan())
    for number in range(200):  # of other objects
        asyncio.get_running_loop().call_later(number / 100, world.changes.notify)
    results = await asyncio.gather(*(world.run() for _ in range(30)))
    assert all(status.ok for status in results)
    assert (world.stored, world.refused) == (31, 0)
    assert len(world.turns) == 0


async def test_after_a_conflict_the_next_plan_waits_for_the_version_that_was_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SharedClaim()
    monkeypatch.setattr(world.steps["Binder"], "pre_bind", lambda *_: world.plan())
    world.stored = 2
    loop = asyncio.get_running_loop()
    for number in range(20):  # of other objects
        loop.call_later(number / 100, world.changes.notify)
    loop.call_later(0.3, world.see)
    assert (await world.run()).ok
    assert (world.stored, world.refused) == (3, 1)


async def test_new_objects_are_stored_before_the_patches_are_written() -> None:
    new = v1.ResourceClaim(metadata=v1.ObjectMeta(name="c"))
    world = World(Maker=Step(PreBindPlan(creates=(new,), patches=(PATCH,))))
    running = asyncio.create_task(world.run())
    await asyncio.sleep(1.5)
    assert (world.created, world.requests) == (["c"], [])
    assert (await running).ok
    assert len(world.requests) == 1


async def test_an_object_that_is_not_stored_ends_the_plan_before_the_patches() -> None:
    new = v1.ResourceClaim(metadata=v1.ObjectMeta(name="c"))
    world = World(Maker=Step(PreBindPlan(creates=(new,), patches=(PATCH,), plans_again=True)))
    world.creation = api_pb2.BatchResult(code=StatusCode.ALREADY_EXISTS, message="it is there")
    status = await world.run()
    assert status.message == 'running PreBind plugin "Maker": it is there'
    assert (len(world.created), world.requests) == (1, [])


async def test_a_wait_for_changes_that_timed_out_leaves_no_waiter() -> None:
    changes = Changes()
    await changes.next(timeout=1)
    assert len(changes) == 0


async def test_the_run_of_a_plugin_lasts_until_its_plan_is_carried_out() -> None:
    lazy = Step(PreBindPlan(), SKIP)
    writes = Step(PreBindPlan(patches=(PATCH,)))
    refuses = Step(PreBindPlan(unschedulable("the claim is gone")))
    world = World(Lazy=lazy, Writes=writes, Refuses=refuses)
    await world.run()
    assert [(run.plugin, round(run.ended - run.began, 3), run.status) for run in world.runs] == [
        ("Writes", 1.0, "Success"),
        ("Refuses", 0.0, "Unschedulable"),
    ]


@pytest.mark.parametrize(("answers", "events"), [([PENDING, PENDING, SUCCESS], 1), ([SUCCESS], 0)])
async def test_that_the_pod_waits_is_told_once_if_it_does(
    answers: list[Status], events: int
) -> None:
    world = World()
    waits = ("Waits", "for a device")
    world.steps["Binder"] = Step(PreBindPlan(wait=world.until(*answers), timeout=60, waits=waits))
    running = asyncio.create_task(world.run())
    for _ in answers:
        await asyncio.sleep(1)
        world.changes.notify()
    assert (await running).ok
    assert world.told == [waits] * events


async def test_a_plan_is_told_that_its_time_is_over() -> None:
    world, over = World(), []
    plan = PreBindPlan(wait=world.until(PENDING), timeout=6, timed_out=lambda: over.append(1))
    world.steps["Binder"] = Step(plan)
    assert not (await world.run()).ok
    assert over == [1]
