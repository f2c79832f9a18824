"""Run the agent process, which plays hollow nodes."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.objects import Node
from podsched.app.process import Process
from podsched.config.settings import AgentSettings
from podsched.lib.tasks import TaskSet
from podsched.serve.agent.agent import Agent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.telemetry.health import Probe
from podsched.telemetry.metrics import AgentMetrics


async def run_hollow_nodes(
    process: Process,
    settings: AgentSettings,
    nodes: Sequence[Node],
    client_options: ClientOptions,
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
    tasks = TaskSet("the agent's process")
    health = await process.serve_health()
    try:
        tasks.start(_play(agent), "play hollow nodes", endless=True)
        tasks.start(process.end_when_asked(tasks), "wait for the stop")
        await tasks.run()
    finally:
        await agent.stop()
        await health.stop()
        await client.close()


async def _play(agent: Agent) -> None:
    await agent.start()
    await agent.wait()
