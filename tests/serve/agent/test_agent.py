"""The agent's tasks: one that ends unexpectedly ends the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from podsched.api.reasons import StatusCode
from podsched.config.settings import AgentSettings
from podsched.serve.agent.agent import Agent
from podsched.serve.agent.nodes import AgentError
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


class Registering(Client):
    """An API server that answers the first call with these results; to all later ones it agrees."""

    def __init__(self, *codes: int) -> None:
        self.codes = codes
        self.batches: list[list[str]] = []

    async def create_many(self, items: Any, **_: Any) -> list[BatchResult]:
        self.batches.append([item.metadata.name for item in items])
        codes = self.codes if len(self.batches) == 1 else [StatusCode.OK] * len(items)
        return [BatchResult(code=code) for code in codes]


def idle_agent(client: Client | None = None, nodes: int = 0) -> Agent:
    settings = AgentSettings(volume_controller=False, nodes=nodes)
    metrics = AgentMetrics(MetricRegistry())
    return Agent(cast(ApiClient, client or Client()), settings, metrics=metrics)


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


@pytest.mark.looptime
async def test_an_agent_waits_for_the_store_to_take_its_nodes() -> None:
    client = Registering(StatusCode.OK, StatusCode.UNAVAILABLE, StatusCode.ALREADY_EXISTS)
    agent = idle_agent(client, nodes=3)
    starting = asyncio.create_task(agent.start())
    await asyncio.sleep(10)
    assert not starting.done()
    assert client.batches == [["node-0000", "node-0001", "node-0002"]] * 2
    starting.cancel()
    await agent.stop()


@pytest.mark.looptime
async def test_an_agent_whose_node_is_rejected_does_not_start() -> None:
    agent = idle_agent(Registering(StatusCode.OK, StatusCode.INVALID_ARGUMENT), nodes=2)
    with pytest.raises(AgentError, match='node "node-0001" was rejected'):
        await agent.start()
    await agent.stop()
