"""With shards trying nodes, preemption comes to what the leader alone comes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.actors.evaluator_actor import EvaluatorActor, NotCurrent
from podsched.actors.named_actor import NamedActor
from podsched.actors.packing import (
    MOST_BUDGETS,
    MOST_STATE,
    dump,
    load,
    pack_dry_run_request,
    pack_rows,
    unpack_rows,
)
from podsched.actors.ray_evaluator import RayDryRun
from podsched.actors.shard_sync import Shards, ShardSync
from podsched.actors.terms import StaleTerm
from podsched.cache.delta_encoder import DeltaEncoder
from podsched.cache.deltas import shard_of
from podsched.decide.evaluation.dry_run import DryRunRequest, DryRunResult
from podsched.framework.plugin import CycleState
from podsched.framework.pods import QueuedPodInfo
from podsched.plugins.default_preemption import dry_run_cache
from support.deciding import decide
from support.eventually import eventually
from support.examples import examples
from support.fake_ray import FakeRay
from support.preemption_world import PreemptionWorld

TERM = 7


@asynccontextmanager
async def shards(
    ray: FakeRay, world: PreemptionWorld, count: int, from_nodes: int = 1
) -> AsyncIterator[RayDryRun]:
    """The world's remote decider asks so many shards."""
    made = []
    for shard in range(count):
        name = f"evaluator-{shard}"
        arguments = (name, (world.local[0].profile,))
        actor = NamedActor(ray, name, EvaluatorActor, arguments, TERM)  # type: ignore[arg-type]
        encoder = DeltaEncoder(
            world.cache.columns, lambda node, own=shard: shard_of(node, count) == own
        )
        made.append(ShardSync(ray, actor, encoder, 0.0))  # type: ignore[arg-type]
    dry_run = RayDryRun(Shards(made), from_nodes, 1.0)
    world.remote = world.decider(dry_run)
    tasks = [asyncio.create_task(shard.run()) for shard in made]
    try:
        await eventually(
            "the shards are current", lambda: all(shard.current for shard in made), pause=0
        )
        yield dry_run
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_world(seed: int, count: int) -> FakeRay:
    world, ray = PreemptionWorld(seed, wanted=seed % 5 + 1), FakeRay()
    world.fill()

    async def changes(most: int) -> None:
        for _ in range(world.random.randrange(most)):
            world.change()
            await asyncio.sleep(0)

    async with shards(ray, world, count):
        for _ in range(8):
            for _ in range(world.random.choice((0, 1, 3))):
                world.change()
            # Half of the time things change while the shards are at it.
            meanwhile = asyncio.create_task(changes(world.random.choice((1, 6))))
            found, alone, _ = await world.both()
            assert found == alone
            await meanwhile
    return ray


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_with_shards_preemption_comes_to_what_the_leader_finds_alone(seed: int, count: int) -> None:
    asyncio.run(run_world(seed, count))


async def test_shards_do_try_nodes_and_find_victims() -> None:
    world, ray = PreemptionWorld(4), FakeRay()
    world.fill()
    async with shards(ray, world, 2):
        found, _, asked = await world.both()
    assert asked and ray.metrics.calls["dry_run_rows", "ok"] >= 2
    assert found is not None and found.victims is not None and found.victims.pods


async def test_what_shards_have_found_the_leader_does_not_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, ray = PreemptionWorld(4), FakeRay()
    world.fill()
    tried: list[int] = []
    original = dry_run_cache.dry_run

    def counting(state: Any, pod: Any, nodes: Any, rows: Any, *others: Any) -> Any:
        tried.append(len(rows))
        return original(state, pod, nodes, rows, *others)

    async with shards(ray, world, 2):
        monkeypatch.setattr(dry_run_cache, "dry_run", counting)
        runtime, decider = world.remote
        queued = QueuedPodInfo(world.pending(3), 0.0)
        [decision] = decide(world.cache, decider, runtime, [queued])
        assert await decider.prepare_post_filter(runtime, decision)
        [decision] = decide(world.cache, decider, runtime, [queued])
        result = decider.post_filter(runtime, decision)
    assert result is not None and result.status.ok
    assert tried == [1], "only the decisive dry run is made again"


class Liar(EvaluatorActor):
    """Says of every candidate that one pod, the first there, would do."""

    def dry_run_rows(self, *arguments: Any) -> Any:
        answer = super().dry_run_rows(*arguments)
        result: DryRunResult = load(answer)
        found = result.candidates
        pods = self._decoder.columns.pods
        return dump(DryRunResult({r: ((next(iter(pods(r))),), 0) for r in found}, ()))


async def test_what_a_shard_gets_wrong_is_noticed_and_the_leader_does_it_all() -> None:
    world, ray = PreemptionWorld(4), FakeRay()
    world.fill()
    async with shards(ray, world, 1):
        actor = ray.actors["evaluator-0"]
        actor.__class__ = Liar
        for _ in range(5):
            found, alone, _ = await world.both(honest=False)
            assert found == alone
            world.change()


async def test_without_an_answer_the_leader_tries_alone_in_the_same_attempt() -> None:
    world, ray = PreemptionWorld(4), FakeRay()
    world.fill()
    async with shards(ray, world, 2):
        ray.silent = True
        found, alone, asked = await world.both()
        assert asked and found == alone and found is not None and found.status.ok
        found, alone, asked = await world.both()
        assert not asked and found == alone


async def test_shards_are_asked_from_a_number_of_nodes_on() -> None:
    world, ray = PreemptionWorld(4), FakeRay()
    async with shards(ray, world, 1) as dry_run:
        assert dry_run.worth(1) and not dry_run.worth(0)
    async with shards(ray, world, 1, from_nodes=100) as dry_run:
        assert dry_run.worth(100) and not dry_run.worth(99)
    assert not RayDryRun(Shards(), 1, 1.0).worth(10**6)


def test_an_actor_tries_nothing_for_an_older_term_or_without_the_last_delta() -> None:
    world = PreemptionWorld(2)
    actor = EvaluatorActor("f", "evaluator-0", (world.local[0].profile,))
    actor.adopt(5, "f")
    assert actor.dry_run_rows(4, 0, b"", b"") == StaleTerm(5)
    assert actor.dry_run_rows(5, 0, b"", b"") == NotCurrent()
    encoder = DeltaEncoder(world.cache.columns, lambda node: True)
    actor.sync(5, dump(encoder.encode()))
    assert actor.dry_run_rows(5, encoder.next_number + 1, b"", b"") == NotCurrent()


def request(state: CycleState, budgets: tuple[bytes, ...] = ()) -> DryRunRequest:
    return DryRunRequest("default-scheduler", b"", state, budgets, ("NodePorts",))


def test_a_request_whose_filters_need_much_state_does_not_travel() -> None:
    much = np.zeros(MOST_STATE)
    assert pack_dry_run_request(request(CycleState({"NodePorts": much}))) is None
    assert pack_dry_run_request(request(CycleState({"NodePorts": lambda: 0}))) is None
    packed = pack_dry_run_request(request(CycleState({"NodePorts": 1, "ImageLocality": much})))
    assert packed is not None
    assert load(packed).state.data == {"NodePorts": 1}, "what no filter reads stays here"


def test_a_request_with_very_many_budgets_does_not_travel() -> None:
    assert pack_dry_run_request(request(CycleState(), (b"x" * MOST_BUDGETS,))) is not None
    assert pack_dry_run_request(request(CycleState(), (b"x" * MOST_BUDGETS, b"x"))) is None


@given(st.sets(st.integers(0, 500), min_size=1))
def test_rows_travel(rows: set[int]) -> None:
    shuffled = np.array(list(rows), dtype=np.intp)
    assert unpack_rows(pack_rows(shuffled)).tolist() == sorted(rows)
