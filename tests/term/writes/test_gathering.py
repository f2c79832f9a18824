"""When gathered items are released."""

from __future__ import annotations

import asyncio

import pytest

from podsched.term.writes.gathering import ENOUGH, GATHER_FOR, INTERVAL, Gathering

pytestmark = pytest.mark.looptime


class World:
    """A gathering, and the groups in which it has released its items."""

    def __init__(self) -> None:
        self.released: list[list[str]] = []
        self.gathering: Gathering[str] = Gathering(lambda items: self.released.append([*items]))

    def add(self, *items: str, others_follow: bool = False, others_wait: bool = False) -> None:
        self.gathering.add(items, others_follow=others_follow, others_wait=others_wait)


@pytest.fixture
async def world() -> World:
    return World()


async def test_items_that_others_follow_wait_for_them_but_not_for_long(world: World) -> None:
    for item in "abc":
        world.add(item, others_follow=True)
        await asyncio.sleep(GATHER_FOR / 4)
    assert not world.released and len(world.gathering) == 3
    await asyncio.sleep(GATHER_FOR)
    assert world.released == [["a", "b", "c"]] and not len(world.gathering)


async def test_the_last_of_several_items_takes_those_before_it_along_at_once(world: World) -> None:
    world.add("a", others_follow=True)
    world.add("b")
    assert world.released == [["a", "b"]]
    await asyncio.sleep(GATHER_FOR)
    assert world.released == [["a", "b"]]


async def test_single_items_in_quick_succession_are_released_together(world: World) -> None:
    world.add("first")
    for item in "abc":
        await asyncio.sleep(INTERVAL / 5)
        world.add(item)
    assert world.released == [["first"]]
    await asyncio.sleep(INTERVAL)
    assert world.released == [["first"], ["a", "b", "c"]]


async def test_an_item_that_nothing_follows_shortens_the_wait_of_those_before_it(
    world: World,
) -> None:
    world.add("first")
    world.add("a", others_follow=True)
    world.add("b")
    await asyncio.sleep(INTERVAL)
    assert world.released == [["first"], ["a", "b"]]


async def test_enough_items_wait_for_no_others(world: World) -> None:
    items = [f"p{i}" for i in range(ENOUGH)]
    world.add(*items, others_follow=True)
    assert world.released == [items]


async def test_nothing_is_gathered_while_released_items_wait(world: World) -> None:
    world.add("a", others_follow=True, others_wait=True)
    assert world.released == [["a"]]
