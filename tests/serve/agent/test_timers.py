from __future__ import annotations

import asyncio

import pytest

from podsched.serve.agent.timers import Timers


@pytest.mark.looptime
async def test_what_becomes_due_while_the_agent_lists_again_is_handled_afterwards() -> None:
    """Until then, what waits for the list would be due again and again, and the list never end."""
    timers = Timers(asyncio.get_running_loop().time)
    synced = asyncio.Event()
    synced.set()
    handled: list[str] = []
    running = asyncio.create_task(timers.run(synced, lambda _, key: handled.append(key)))
    timers.set("Pod", "default/web", timers.now() + 1)
    await asyncio.sleep(0.5)
    synced.clear()
    await asyncio.sleep(5)
    assert handled == []
    synced.set()
    await asyncio.sleep(0.5)
    assert handled == ["default/web"]
    running.cancel()


@pytest.mark.looptime
async def test_an_object_is_handled_at_the_earliest_of_its_times() -> None:
    """It sets the next time then; each change of a pod sets a time, too."""
    timers = Timers(asyncio.get_running_loop().time)
    synced = asyncio.Event()
    synced.set()
    handled: list[str] = []
    for at in (9, 3, 5):
        timers.set("Pod", "default/web", timers.now() + at)
    timers.set("Node", "n1", timers.now() + 4)
    timers.set("Pod", "default/gone", timers.now() + 4)
    timers.drop("Pod", "default/gone")
    running = asyncio.create_task(
        timers.run(synced, lambda kind, key: handled.append(f"{kind} {key} {timers.now():.0f}"))
    )
    await asyncio.sleep(20)
    assert handled == ["Pod default/web 3", "Node n1 4"]
    running.cancel()
