"""Bind plugins: asked in the profile's order, the default binder last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status, error, unschedulable
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


def profile(*binders: str) -> dict[str, Any]:
    """A profile that binds by these plugins alone."""
    return {
        "plugins": {
            "bind": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name} for name in binders],
            },
            "reserve": {"enabled": [{"name": "Script"}]},
        }
    }


def world_of(*binders: str) -> TermWorld:
    world = TermWorld([profile(*binders)])
    world.node("n1")
    return world


def fail(pod: PodInfo) -> Status:
    raise ValueError("a bug")


async def test_a_plugin_that_skips_hands_the_pod_on_until_one_takes_it() -> None:
    world = world_of("Script", "SecondScript", "DefaultBinder")
    world.second.on_bind = lambda pod: SUCCESS
    async with world.running():
        await world.pod_and_wait("a")
        assert world.log == ["Script.reserve a", "Script.bind a", "SecondScript.bind a"]
        assert world.nodes_of("a") == ["n1"]
        world.check()


async def test_the_default_binder_takes_what_the_others_skip() -> None:
    async with world_of("Script", "DefaultBinder").running() as world:
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == ["n1"]
        assert world.events("a", "Scheduled") == ["Successfully assigned default/a to n1"]


async def test_plugins_after_one_that_binds_every_pod_are_not_asked() -> None:
    async with world_of("DefaultBinder", "Script").running() as world:
        await world.pod_and_wait("a")
        assert world.nodes_of("a") == ["n1"]
        assert "Script.bind a" not in world.log


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (lambda pod: error("no room"), "SchedulerError", 'running Bind plugin "Script": no room'),
        (fail, "SchedulerError", 'running Bind plugin "Script": a bug'),
        (lambda pod: unschedulable("not now"), "Unschedulable", "not now"),
    ],
)
async def test_a_pod_that_a_plugin_does_not_bind_is_undone_and_tried_again(
    answer: Callable[[PodInfo], Status], reason: str, message: str
) -> None:
    world = world_of("Script", "DefaultBinder")
    world.script.on_bind = answer
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
        condition = world.scheduled("a")
        assert (condition.reason, condition.message) == (reason, message)
        assert world.events("a", "FailedScheduling") == [message]
        assert "Script.unreserve a" in world.log
        assert "uid-a" not in world.state.cache.assumed
        world.script.on_bind = lambda pod: SKIP
        world.change("a", lambda pod: pod.metadata.labels.update({"touched": "yes"}))
        await asyncio.sleep(30)
        assert world.nodes_of("a") == ["n1"]
        world.check()


async def test_a_pod_that_no_plugin_takes_is_an_error() -> None:
    async with world_of("Script", "SecondScript").running() as world:
        await world.pod_and_wait("a", seconds=0.5)
        condition = world.scheduled("a")
        assert (condition.reason, condition.message) == ("SchedulerError", "bind status: Skip, ")
        assert "uid-a" not in world.state.cache.assumed
        assert world.place("a") == "backoff"
