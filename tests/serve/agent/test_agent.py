"""The agent's tasks: one that ends unexpectedly ends the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from podsched.config.settings import AgentSettings
from podsched.serve.agent.agent import Agent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import AgentMetrics
from podsched.v1.api_pb2 import BatchResult


class Client:
    """An API server that accepts everything and has no changes to report."""

    async def create_many(self, items: Any, **_: Any) -> list[BatchResult]:
        return [BatchResult() for _ in items]

    patch_many = evict_pods = create_many

    async def watch_stream(self, request: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield


def idle_agent() -> Agent:
    settings, metrics = AgentSettings(volume_controller=False), AgentMetrics(MetricRegistry())
    return Agent(cast(ApiClient, Client()), settings, metrics=metrics)


@pytest.mark.looptime
async def test_a_task_that_returns_ends_the_agent_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def return_at_once(outbox: Outbox[Any]) -> None:
        return

    monkeypatch.setattr(Outbox, "run", return_at_once)
    agent = idle_agent()
    with pytest.raises(RuntimeError, match="the task has ended"):
        async with asyncio.timeout(60):
            await agent.start()
    await agent.stop()


@pytest.mark.looptime
async def test_an_agent_that_is_stopped_ends_without_an_error() -> None:
    agent = idle_agent()
    starting = asyncio.create_task(agent.start())
    await asyncio.sleep(1)
    starting.cancel()
    await agent.stop()
    await agent.wait()
