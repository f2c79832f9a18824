"""Pods that differ in their requests alone are decided on together, and go where each would go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.engine.cycle import placement
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

PODS = [f"p{number}" for number in range(40)]


async def decided(requests: list[int], **settings: Any) -> tuple[list[str], list[int]]:
    """The pods' nodes, and how many pods were decided on together each time."""
    world, together = TermWorld(**settings), []
    for number in range(5):
        world.node(f"n{number}", cpu=str(2 + number))
    for name, request in zip(PODS, requests, strict=True):
        world.pod(name, cpu=f"{request}m")
    decide = world.placer.decide

    def counted(*args: Any, **more: Any) -> Any:
        decisions = decide(*args, **more)
        together.append(len(decisions))
        return decisions

    world.placer.decide = counted  # type: ignore[method-assign]
    async with world.running():
        await asyncio.sleep(1)
        world.check()
        return world.nodes_of(*PODS), together


@pytest.mark.parametrize("distinct", [40, 7, 3])
async def test_pods_with_requests_of_their_own_go_where_they_would_go_one_by_one(
    distinct: int,
) -> None:
    # More than there is room for, so that the last ones fit nowhere; some come in pairs.
    requests = [50 + 17 * (number * number % distinct) for number in range(40)]
    alone, _ = await decided(requests, max_batch=1)
    assert (await decided(requests))[0] == alone


async def test_a_few_of_them_are_decided_on_at_a_time() -> None:
    nodes, together = await decided([100 + number for number in range(40)])
    assert all(nodes)
    # The first one is what the others are variants of.
    assert together == [1, placement.MAX_VARIANTS, placement.MAX_VARIANTS, 7]


async def test_the_more_rows_there_are_the_fewer_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    size = TermWorld().state.cache.columns.size
    monkeypatch.setattr(placement, "MAX_VARIANT_ROWS", 3 * (size + 20))
    _, together = await decided([100 + number for number in range(40)])
    assert max(together) <= 3
