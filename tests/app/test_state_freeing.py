"""When the memory of a replaced state is freed, and when garbage is collected."""

from __future__ import annotations

import asyncio

import pytest

from podsched.app import state_freeing
from podsched.app.state_freeing import free
from podsched.config.load import default_config
from podsched.registry import factories
from podsched.term.state import SchedulingState, build_state

pytestmark = pytest.mark.looptime


class World:
    """A state that was replaced, in a standby that has no pods to decide."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state: SchedulingState = build_state(default_config(), factories(), seed=1)
        self.stands_by, self.is_calm = True, True
        self.collected = 0
        monkeypatch.setattr(state_freeing, "collect_everything", self._collect)

    def _collect(self) -> None:
        assert not hasattr(self.state.queue, "pending"), "though the state was not dropped yet"
        self.collected += 1

    async def free(self) -> None:
        await free(
            self.state,
            None,
            stands_by=lambda: self.stands_by,
            is_calm=lambda: self.is_calm,
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_calm_standby_collects_the_garbage_once(world: World) -> None:
    await world.free()
    assert world.collected == 1


async def test_a_leader_drops_the_state_without_a_collection(world: World) -> None:
    world.stands_by = False
    await world.free()
    assert not hasattr(world.state.queue, "pending")
    assert not world.collected


async def test_a_standby_collects_once_no_pods_wait(world: World) -> None:
    world.is_calm = False
    freeing = asyncio.create_task(world.free())
    await asyncio.sleep(100)
    assert not world.collected
    world.is_calm = True
    await asyncio.sleep(2)
    assert freeing.done()
    assert world.collected == 1


async def test_a_standby_that_becomes_the_leader_collects_nothing_any_more(world: World) -> None:
    world.is_calm = False
    freeing = asyncio.create_task(world.free())
    await asyncio.sleep(100)
    world.stands_by, world.is_calm = False, True
    await freeing
    assert not world.collected


async def test_pods_that_fit_nowhere_put_off_the_collection_only_for_some_time(
    world: World,
) -> None:
    world.is_calm = False
    freeing = asyncio.create_task(world.free())
    await asyncio.sleep(1000)
    freeing.cancel()
    assert world.collected == 1
