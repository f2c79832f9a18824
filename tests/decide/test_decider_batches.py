"""Pods of one class are decided on together as long as they find nodes, else one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podsched.decide.accelerators.selection import Selector
from podsched.framework.pods import PodInfo
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def test_after_a_pod_without_a_node_only_the_next_one_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looked_at = TermWorld(), []
    select = Selector.select_batch

    def counted(self: Selector, pods: Sequence[PodInfo], *more: Any) -> Any:
        looked_at.append(len(pods))
        return select(self, pods, *more)

    monkeypatch.setattr(Selector, "select_batch", counted)
    world.node("n", cpu="4")
    for number in range(10):
        world.pod(f"early-{number}", cpu="1")
    async with world.running(seconds=0.5):
        # A plugin reserves for each of the four that are placed, so each is decided alone after the
        # first has shown it; the fifth finds no room.
        assert looked_at == [10, *[1] * 9]
        world.node("wide", cpu="32")
        await asyncio.sleep(20)
        assert looked_at[10:] == [1] * 6
        assert all(world.nodes_of(*(f"early-{number}" for number in range(10))))
        world.check()
