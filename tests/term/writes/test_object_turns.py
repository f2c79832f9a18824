"""One task at a time writes an object."""

from __future__ import annotations

import asyncio

import pytest

from podsched.term.writes.object_turns import ObjectKey, ObjectTurns

pytestmark = [pytest.mark.looptime]

A, B = ("Claim", "default", "a"), ("Claim", "default", "b")


class World:
    def __init__(self) -> None:
        self.turns = ObjectTurns()
        self.log: list[str] = []

    async def write(self, name: str, *keys: ObjectKey) -> None:
        async with self.turns.of(keys) as waited:
            self.log.append(f"{name} waited" if waited else name)
            await asyncio.sleep(1)
            self.log.append(f"{name} ended")


async def test_the_next_begins_when_the_one_before_has_ended_and_knows_that_it_waited() -> None:
    world = World()
    await asyncio.gather(world.write("x", A), world.write("y", A), world.write("z", B))
    assert world.log == ["x", "z", "x ended", "z ended", "y waited", "y ended"]
    assert len(world.turns) == 0


async def test_tasks_that_write_the_same_objects_do_not_wait_for_each_other_for_ever() -> None:
    world = World()
    async with asyncio.timeout(10):
        await asyncio.gather(world.write("x", A, B), world.write("y", B, A))
    assert world.log[-1] == "y ended"


async def test_a_task_that_is_cancelled_gives_its_turn_to_the_next() -> None:
    world = World()
    first = asyncio.create_task(world.write("x", A))
    second = asyncio.create_task(world.write("y", A, B))
    third = asyncio.create_task(world.write("z", A))
    await asyncio.sleep(0.5)
    second.cancel()
    first.cancel()
    await third
    assert world.log == ["x", "z waited", "z ended"]
    assert len(world.turns) == 0


async def test_it_tells_whether_others_wait() -> None:
    world = World()
    async with world.turns.of([A]):
        assert not world.turns.others_wait([A, B])
        waiting = asyncio.create_task(world.write("y", A))
        await asyncio.sleep(0)
        assert world.turns.others_wait([A])
        assert not world.turns.others_wait([B])
    await waiting
