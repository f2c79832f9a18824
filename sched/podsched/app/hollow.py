"""Run the agent process, which plays hollow nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podsched.api.objects import Node
from podsched.app.process import Process
from podsched.config.settings import AgentSettings
from podsched.serve.agent.agent import Agent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.telemetry.health import Probe
from podsched.telemetry.metrics import AgentMetrics


async def run_hollow_nodes(
    process: Process,
    settings: AgentSettings,
    nodes: Sequence[Node],
    client_options: ClientOptions | None = None,
) -> None:
    """Run an agent until the process is asked to stop. Raises the error of a bug in the agent."""
    client = ApiClient(settings.api_endpoints, client_options)
    metrics = AgentMetrics(process.registry)
    agent = Agent(client, settings, nodes, metrics=metrics, tracer=process.tracer)
    process.checks.add(
        "registered",
        lambda: "" if agent.ready else "not all nodes are registered",
        {Probe.READYZ},
    )
    health = await process.serve_health()
    starting = asyncio.create_task(agent.start(), name="start the agent")
    stopping = asyncio.create_task(process.stopping.wait(), name="wait for stop")
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            waiting = asyncio.create_task(agent.wait(), name="run the agent")
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
    finally:
        starting.cancel()
        await agent.stop()
        await health.stop()
        await client.close()
