"""An API server over gRPC on a store in memory, and agents that play against it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from podsched.api.etcd_keys import term_key
from podsched.api.objects import Pod
from podsched.config.settings import AgentSettings
from podsched.serve.agent.agent import Agent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import NotFound
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import AgentMetrics
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import Fence
from support.api_servers import start_api_server
from support.eventually import PATIENCE


class AgentWorld(NamedTuple):
    client: ApiClient
    agents: list[Agent]
    store: MemoryStore

    async def new_term(self, lock: str) -> Fence:
        """A leader takes the lock."""
        result = await self.store.txn([], [Put(term_key(lock), b"me")])
        return Fence(lock=lock, term=result.revision)

    async def play(self, **settings: Any) -> Agent:
        metrics = AgentMetrics(MetricRegistry())
        agent = Agent(self.client, AgentSettings(**settings), metrics=metrics)
        self.agents.append(agent)
        await agent.start()
        return agent

    async def pod(self, name: str) -> Pod | None:
        try:
            found = await self.client.get("Pod", name)
        except NotFound:
            return None
        assert isinstance(found, Pod)
        return found

    async def phase(self, name: str) -> str:
        found = await self.pod(name)
        return found.status.phase if found is not None else "gone"


async def started_world() -> AsyncIterator[AgentWorld]:
    """A world, taken down after it has been used."""
    store = MemoryStore()
    server = await start_api_server(ServerSettings(bookmark_seconds=0.2), store)
    world = AgentWorld(ApiClient(server.address, ClientOptions(timeout=PATIENCE)), [], store)
    yield world
    for agent in world.agents:
        await agent.stop()
    await world.client.close()
    await server.stop(0)
    await store.close()
