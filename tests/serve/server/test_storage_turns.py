"""A batch of changes does not keep others from the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.kinds import KINDS
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server import registry
from podsched.serve.server.entries import Entry
from podsched.serve.server.mutations import Mutation, Step
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World


async def test_a_long_batch_of_changes_lets_others_on_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change takes 0.7 of a round of the event loop."""
    names = [f"pod-{number}" for number in range(4)]
    entries = await world.core.creator.create_many([pod(name) for name in names])
    await world.core.reflector.wait_until_fresh()
    now = 0.0
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)
    seen: list[str] = []

    def change(entry: Entry) -> Step:
        nonlocal now
        now += 0.7 * ROUND
        seen.append("change")
        return Step(entry.value)

    async def other() -> None:
        seen.append("other")

    mutations = [
        Mutation(KINDS["Pod"], entry.key, change) for entry in entries if isinstance(entry, Entry)
    ]
    waiting = asyncio.create_task(other())
    await world.core.storage.mutate(mutations, None)
    await waiting
    assert seen == ["change", "change", "other", "change", "change"]


async def test_a_long_batch_of_patches_is_read_in_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read each takes 0.7 of a round of the event loop."""
    names = [f"pod-{number}" for number in range(4)]
    await world.core.creator.create_many([pod(name) for name in names])
    await world.core.reflector.wait_until_fresh()
    now = 0.0
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)
    seen: list[str] = []
    parse = registry.parse_patch

    def parsed(request: v1.PatchRequest) -> dict[str, Any]:
        nonlocal now
        now += 0.7 * ROUND
        seen.append("patch")
        return parse(request)

    async def other() -> None:
        seen.append("other")

    monkeypatch.setattr(registry, "parse_patch", parsed)
    patch = b'{"metadata": {"labels": {"a": "b"}}}'
    patches = [v1.PatchRequest(kind="Pod", name=name, merge_patch=patch) for name in names]
    waiting = asyncio.create_task(other())
    outcomes = await world.core.registry.patch(patches, None)
    await waiting
    assert all(isinstance(outcome, Entry) for outcome in outcomes)
    assert seen == ["patch", "patch", "other", "patch", "patch"]
