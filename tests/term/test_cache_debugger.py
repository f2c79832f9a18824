"""What a scheduler writes to its log when it is asked what it knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from podsched.config.load import default_config
from podsched.lib.event_loop import Turn
from podsched.registry import factories
from podsched.serve.client.informer import Event, EventType
from podsched.term.cache_debugger import NODES_AT_ONCE, CacheDebugger
from podsched.term.state import SchedulingState, build_state
from support.cache_world import make_node, make_pod

Stored = dict[str, dict[str, Any]]


def world(nodes: int = 1) -> tuple[SchedulingState, Stored]:
    """Nodes, a pod on the first, and one that waits: in the state and in the informer's store."""
    state = build_state(default_config(), factories(), seed=1)
    running, waiting = make_pod("running", node="n0"), make_pod("waiting")
    waiting.spec.scheduler_name = "default-scheduler"
    stored: Stored = {
        "Node": {f"n{i}": make_node(f"n{i}") for i in range(nodes)},
        "Pod": {"default/running": running, "default/waiting": waiting},
    }
    for kind, objects in stored.items():
        for key, obj in objects.items():
            state.apply(Event(EventType.ADDED, kind, key, None, obj), now=1.0)
    return state, stored


def debugger(state: SchedulingState, stored: Stored) -> CacheDebugger:
    return CacheDebugger(lambda: state, lambda kind: stored[kind])


def test_a_cache_that_matches_is_said_to_match() -> None:
    state, stored = world()
    with capture_logs() as lines:
        debugger(state, stored).compare()
    (line,) = lines
    assert line["event"] == "Cache matches the informer's store"
    assert (line["nodes"], line["pods"], line["component"]) == (1, 2, "cache-debugger")


def test_what_the_cache_lacks_or_has_too_much_is_named() -> None:
    state, stored = world()
    stored["Node"]["new"] = make_node("new")
    del stored["Pod"]["default/waiting"]
    with capture_logs() as lines:
        debugger(state, stored).compare()
    nodes, pods = lines
    assert nodes["event"] == pods["event"] == "Cache mismatch"
    assert (nodes["missed_nodes"], nodes["redundant_nodes"]) == (("new",), ())
    assert (pods["missed_pods"], pods["redundant_pods"]) == ((), ("default/waiting",))


def test_books_that_contradict_the_nodes_and_pods_are_an_error() -> None:
    state, stored = world()
    state.cache.columns.pod_table.remove(0, next(iter(state.cache.columns.pods(0).values())))
    with capture_logs() as lines:
        debugger(state, stored).check()
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("Cache is inconsistent", "error")


async def test_a_request_compares_and_dumps_and_leaves_room_for_other_tasks() -> None:
    state, stored = world(nodes=NODES_AT_ONCE + 1)
    made = debugger(state, stored)
    with capture_logs() as lines:
        task = asyncio.create_task(made.run())
        made.request()
        await asyncio.sleep(0)
        halfway = len(lines)
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    events = [line["event"] for line in lines]
    assert events[0] == "Cache matches the informer's store"
    assert halfway == 1 + NODES_AT_ONCE
    assert events.count("Dump of cached NodeInfo") == NODES_AT_ONCE + 1
    assert lines[1]["node"] == "n0" and len(lines[1]["pods"]) == 1
    assert events[-1] == "Dump of scheduling queue"
    assert lines[-1]["summary"] == "activeQ:1; backoffQ:0; unschedulablePods:0"
    (text,) = lines[-1]["pods"]
    assert text.startswith("name: waiting, ")
    assert text.endswith(", queue: active, attempts: 0, rejected by: -")


async def test_a_comparison_waits_until_the_decision_for_a_pod_group_is_over() -> None:
    """Meanwhile the cache shows pods on nodes that they may not get."""
    state, stored = world()
    made = debugger(state, stored)
    with capture_logs() as lines:
        task = asyncio.create_task(made.run())
        made.request()
        with state.after_trial.others_run():
            for _ in range(5):
                await asyncio.sleep(0)
            assert lines == []
        await state.after_trial.trial_ended(Turn(), pytest.fail)
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
    assert lines[0]["event"] == "Cache matches the informer's store"


@pytest.mark.parametrize("rounds", [0, 1])
async def test_the_page_shows_nothing_of_the_open_decision_for_a_pod_group(rounds: int) -> None:
    state, stored = world(nodes=NODES_AT_ONCE + 1)
    asking = asyncio.create_task(debugger(state, stored).text())
    for _ in range(rounds):
        await asyncio.sleep(0)
    with state.after_trial.others_run():
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asking.done()
    await state.after_trial.trial_ended(Turn(), pytest.fail)
    assert f"nodes: {NODES_AT_ONCE + 1}\nnode n0: " in await asking
