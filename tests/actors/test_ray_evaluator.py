"""What the shards and the leader find together is what the leader alone finds."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podsched.actors import shard_sync
from podsched.actors.evaluator_actor import EvaluatorActor, NotCurrent
from podsched.actors.named_actor import NamedActor
from podsched.actors.packing import dump
from podsched.actors.ray_evaluator import RayEvaluator
from podsched.actors.shard_sync import Shards, ShardSync
from podsched.actors.term_actors import ActorOptions, TermActors, wants_ray
from podsched.actors.terms import Adoption, StaleTerm
from podsched.cache.delta_encoder import DeltaEncoder
from podsched.cache.deltas import shard_of
from podsched.config.settings import EvaluatorSettings
from podsched.decide.accelerators.sharding import EvaluationRequest
from podsched.framework.plugin import CycleState
from podsched.telemetry.tracing import Tracer
from support.engine_world import World
from support.evaluations import seen
from support.eventually import eventually
from support.examples import examples
from support.fake_ray import FakeRay

TERM = 7

#: Prints how many objects a full collection looks at in a process with an evaluator.
_COLLECTED = """
import gc
from podsched.actors.evaluator_actor import EvaluatorActor
actor = EvaluatorActor("f", "evaluator-0", ())
print(len(gc.get_objects()))
"""


def test_collections_in_an_evaluators_process_ignore_its_modules() -> None:
    """They took a tenth of a second after each change of leader."""
    command = [sys.executable, "-c", _COLLECTED]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(printed) < 5_000


def shards_of(ray: FakeRay, world: World, count: int, term: int = TERM) -> list[ShardSync]:
    made = []
    for shard in range(count):
        name = f"evaluator-{shard}"
        arguments = (name, (world.runtime.profile,))
        actor = NamedActor(ray, name, EvaluatorActor, arguments, term)  # type: ignore[arg-type]
        encoder = DeltaEncoder(
            world.cache.columns, lambda node, own=shard: shard_of(node, count) == own
        )
        made.append(ShardSync(ray, actor, encoder, 0.0))  # type: ignore[arg-type]
    return made


@asynccontextmanager
async def running(shards: list[ShardSync]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(shard.run()) for shard in shards]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def all_current(shards: list[ShardSync], pause: float = 0) -> None:
    await eventually(
        "the shards are current", lambda: all(shard.current for shard in shards), pause=pause
    )


async def compare(world: World, evaluator: RayEvaluator, changes: int) -> bool:
    """Evaluates a pod both ways; whether shards took part."""
    pending = world.pending()
    evaluation = world.evaluation(pending)
    waited = await evaluator.prepare(evaluation, pending)
    for _ in range(changes):
        world.mutate()
    assert seen(evaluation, pending) == seen(world.evaluation(pending), pending)
    return waited


def with_relations(world: World) -> None:
    """Lets pods be spread and keep apart: what these plugins put into CycleState has to travel."""
    everyone = {"labelSelector": {}, "topologyKey": "zone"}
    hard = {**everyone, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**everyone, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    apart = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    world.templates[0]["topologySpreadConstraints"] = [hard]
    world.templates[1]["topologySpreadConstraints"] = [hard, soft]
    world.templates[2]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    }


async def run_world(seed: int, count: int) -> None:
    world, ray = World(seed), FakeRay()
    with_relations(world)
    shards = shards_of(ray, world, count)
    evaluator = RayEvaluator(Shards(shards), 1.0, ray.metrics)
    for _ in range(10):
        world.mutate()
    async with running(shards):
        await all_current(shards)
        for _ in range(6):
            for _ in range(world.random.choice((0, 1, 4))):
                world.mutate()
            await compare(world, evaluator, world.random.choice((0, 0, 2)))
            if world.random.random() < 0.5:
                await asyncio.sleep(0)


@examples(30)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_shards_find_what_the_leader_finds_alone(seed: int, shards: int) -> None:
    asyncio.run(run_world(seed, shards))


async def test_shards_do_take_part() -> None:
    world, ray = World(3), FakeRay()
    shards = shards_of(ray, world, 2)
    evaluator = RayEvaluator(Shards(shards), 1.0, ray.metrics)
    async with running(shards):
        await all_current(shards)
        took_part = [await compare(world, evaluator, 0) for _ in range(8)]
    assert any(took_part) and ray.metrics.calls["evaluate", "ok"]
    assert ray.metrics.modes == ["local", "ray"]


async def test_a_shard_that_gets_all_rows_leaves_the_event_loop_time_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = itertools.count(0.0, 0.01)  # so that each delta takes 0.01 s
    monkeypatch.setattr(shard_sync, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(shard_sync, "ROWS_PER_DELTA", 1)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def record(pause: float) -> None:
        pauses.append(pause)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    (shard,) = shards_of(FakeRay(), World(3), 1)
    async with running([shard]):
        await all_current([shard])
    assert any(pause == pytest.approx(shard_sync.PAUSE * 0.01) for pause in pauses)


async def test_a_killed_actor_is_replaced_and_meanwhile_the_leader_evaluates() -> None:
    world, ray = World(5), FakeRay()
    shards = shards_of(ray, world, 2)
    evaluator = RayEvaluator(Shards(shards), 1.0, ray.metrics)
    async with running(shards):
        await all_current(shards)
        ray.kill_all()
        for _ in range(4):
            await compare(world, evaluator, 1)
        await all_current(shards, pause=0.001)
        await compare(world, evaluator, 0)
    assert ray.metrics.replaced == ["evaluator", "evaluator"]


async def test_without_a_cluster_the_leader_evaluates_alone() -> None:
    world, ray = World(5), FakeRay()
    ray.joined.clear()
    shards = shards_of(ray, world, 2)
    evaluator = RayEvaluator(Shards(shards), 1.0, ray.metrics)
    async with running(shards):
        await asyncio.sleep(0)
        assert not await compare(world, evaluator, 0)
    assert ray.metrics.modes == ["local"]


async def test_a_new_leader_takes_the_actors_over_and_the_old_one_is_refused() -> None:
    world, ray = World(5), FakeRay()
    old, new = shards_of(ray, world, 1), shards_of(ray, world, 1, TERM + 1)
    async with running(old):
        await all_current(old)
    actor = ray.actors["evaluator-0"]
    async with running(new):
        await all_current(new)
        assert ray.actors["evaluator-0"] is actor and ray.created == ["evaluator-0"]
        evaluator = RayEvaluator(Shards(old), 1.0, ray.metrics)
        await compare(world, evaluator, 0)
        assert not old[0].current and new[0].current


async def test_an_actor_of_another_configuration_is_replaced() -> None:
    world, ray = World(5), FakeRay()
    foreign = EvaluatorActor("other", "evaluator-0", ())
    ray.actors["evaluator-0"] = foreign
    shards = shards_of(ray, world, 1)
    async with running(shards):
        await all_current(shards, pause=0.001)
    assert ray.actors["evaluator-0"] is not foreign


def test_an_actor_refuses_calls_of_an_older_term() -> None:
    actor = EvaluatorActor("f", "evaluator-0", ())
    assert actor.adopt(5, "f") is Adoption.ADOPTED
    assert actor.adopt(4, "f") is Adoption.STALE
    assert actor.sync(4, b"") == StaleTerm(5)
    assert actor.evaluate(4, 0, b"") == StaleTerm(5)
    assert actor.evaluate(5, 0, b"") == NotCurrent()


def test_a_shards_evaluation_is_a_span_of_the_attempt() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    world = World(2)
    actor = EvaluatorActor("f", "evaluator-0", (world.runtime.profile,))
    actor.tracer = Tracer(provider)
    actor.adopt(5, "f")
    encoder = DeltaEncoder(world.cache.columns, lambda node: True)
    actor.sync(5, dump(encoder.encode()))
    name, plugins = world.runtime.scheduler_name, ("NodeUnschedulable",)
    request = dump(EvaluationRequest(name, b"", CycleState(), plugins, ()))
    attempt = f"00-{'a' * 32}-{'b' * 16}-01"
    for traceparent in ("", attempt):
        actor.evaluate(5, encoder.next_number, request, traceparent)
    (run, span) = exporter.get_finished_spans()
    assert span.name == "evaluate shard" and span.parent is not None
    assert f"{span.parent.span_id:x}" == "b" * 16
    assert run.name == "NodeUnschedulable" and run.parent is not None
    assert run.parent.span_id == span.context.span_id
    assert span.start_time <= run.start_time <= run.end_time <= span.end_time  # type: ignore[operator]


def test_a_shard_without_the_last_delta_does_not_answer() -> None:
    world = World(2)
    actor = EvaluatorActor("f", "evaluator-0", (world.runtime.profile,))
    actor.adopt(5, "f")
    encoder = DeltaEncoder(world.cache.columns, lambda node: True)
    assert actor.sync(5, dump(encoder.encode())) is None
    world.mutate()
    lost = encoder.encode()
    while lost is None:
        world.mutate()
        lost = encoder.encode()
    assert actor.evaluate(5, encoder.next_number, b"") == NotCurrent()


@pytest.mark.parametrize(
    ("evaluator", "nodes", "wanted"),
    [("local", 10**6, False), ("ray", 0, True), ("auto", 49_999, False), ("auto", 50_000, True)],
)
def test_auto_uses_ray_from_a_number_of_nodes_on(evaluator: str, nodes: int, wanted: bool) -> None:
    settings = EvaluatorSettings(evaluator=evaluator)  # type: ignore[arg-type]
    assert wants_ray(settings, nodes) is wanted


async def test_the_actors_of_a_term_are_made_when_ray_is_there() -> None:
    world, ray = World(5), FakeRay()
    options = ActorOptions(
        EvaluatorSettings(evaluator="ray", shards=3), (world.runtime.profile,), ("127.0.0.1:1",)
    )
    actors = TermActors(ray, options, TERM, world.cache.columns, None)  # type: ignore[arg-type]
    task = asyncio.create_task(actors.run())
    await eventually(
        "Ray evaluates", lambda: actors.evaluator.mode == "ray" and len(ray.actors) == 5, pause=0
    )
    assert sorted(ray.actors) == ["binder-0", "binder-1", *(f"evaluator-{i}" for i in range(3))]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
