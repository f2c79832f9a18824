"""Creates of names that are taken are refused without a write."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.serve.server.errors import ApiError
from podsched.serve.store.protocol import Write, WriteOutcome
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World


def count_writes(world: World) -> list[int]:
    """From now on: how many writes come in one call of the store."""
    counts: list[int] = []
    write_many = world.store.write_many

    async def counted(writes: Sequence[Write]) -> list[WriteOutcome]:
        counts.append(len(writes))
        return await write_many(writes)

    world.store.write_many = counted  # type: ignore[method-assign]
    return counts


async def test_only_what_is_new_goes_to_the_store(world: World) -> None:
    """Two of three exist; the outcomes come in the order of the items."""
    await world.core.creator.create_many([pod("a"), pod("c")])
    await world.core.reflector.wait_until_fresh()
    counts = count_writes(world)
    outcomes = await world.core.creator.create_many([pod("a"), pod("b"), pod("c")])
    assert [isinstance(outcome, ApiError) for outcome in outcomes] == [True, False, True]
    assert str(outcomes[0]) == 'pods "a" already exists'
    assert counts == [1]


async def test_a_name_that_is_free_again_is_not_refused_because_the_cache_lags(
    world: World,
) -> None:
    """Deleted through another server just before."""
    other = await world.another()
    await world.core.creator.create(pod("a"))
    for core in (world.core, other):
        await core.reflector.wait_until_fresh()
    gone = v1.DeleteRequest(kind="Pod", name="a", grace_period_seconds=0)
    await other.deleter.delete(gone)
    await world.core.creator.create(pod("a"))
