"""When a leader hands over without being asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podsched.app.giving_way import (
    CUT_OFF_AFTER,
    PREFER_AFTER,
    PREFER_AGAIN_AFTER,
    give_way,
)
from podsched.app.leader_requests import StandbyReplica

pytestmark = pytest.mark.looptime

PREFERRED, EQUAL = StandbyReplica("b_1", 5), StandbyReplica("c_1", 1)


class World:
    """A replica of priority 1, what it knows of the others, and to whom it has handed over."""

    def __init__(self) -> None:
        self.leads = True
        self.successor: StandbyReplica | None = None
        self.unheard = 0.0
        self.handed_over: list[str] = []

    async def run(self) -> None:
        await give_way(
            1,
            is_leader=lambda: self.leads,
            successor=lambda: self.successor,
            unheard=lambda: self.unheard,
            hand_over=self.handed_over.append,
        )

    async def checks(self, number: int, successor: StandbyReplica | None) -> None:
        self.successor = successor
        await asyncio.sleep(number * PREFER_AFTER)


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    """A replica between two of its checks."""
    world = World()
    task = asyncio.create_task(world.run())
    await asyncio.sleep(PREFER_AFTER / 2)
    try:
        yield world
    finally:
        task.cancel()


async def test_a_standby_of_higher_priority_is_preferred_at_the_second_check_that_finds_it() -> (
    None
):
    async with running() as world:
        await world.checks(1, PREFERRED)
        await world.checks(1, None)
        await world.checks(1, PREFERRED)
        assert world.handed_over == []
        await world.checks(1, PREFERRED)
        assert world.handed_over == ["b_1"]


async def test_a_standby_that_does_not_take_the_lock_is_preferred_again_after_a_minute() -> None:
    """It may be cut off from etcd alone; without a pause, nobody would lead every few seconds."""
    async with running() as world:
        await world.checks(2, PREFERRED)
        assert world.handed_over == ["b_1"]
        await asyncio.sleep(PREFER_AGAIN_AFTER - PREFER_AFTER)
        assert world.handed_over == ["b_1"]
        await world.checks(2, PREFERRED)
        assert world.handed_over == ["b_1", "b_1"]


async def test_another_standby_is_preferred_though_one_has_not_taken_the_lock() -> None:
    async with running() as world:
        await world.checks(2, PREFERRED)
        await world.checks(2, StandbyReplica("d_1", 9))
        assert world.handed_over == ["b_1", "d_1"]


async def test_a_standby_of_equal_priority_is_not_preferred() -> None:
    async with running() as world:
        await world.checks(5, EQUAL)
        assert world.handed_over == []


async def test_a_leader_that_reaches_no_api_server_lets_any_other_try() -> None:
    async with running() as world:
        world.unheard = CUT_OFF_AFTER
        await world.checks(1, EQUAL)
        assert world.handed_over == []
        world.unheard += 0.1
        await world.checks(1, EQUAL)
        assert world.handed_over == [""]


async def test_a_standby_hands_nothing_over() -> None:
    async with running() as world:
        world.leads, world.unheard = False, CUT_OFF_AFTER + 1
        await world.checks(5, PREFERRED)
        assert world.handed_over == []
