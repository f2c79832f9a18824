"""The agent against a real API server over gRPC."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest

from podsched.agent.agent import Agent
from podsched.api.objects import Pod
from podsched.client.api_client import ApiClient
from podsched.client.errors import NotFound
from podsched.config.settings import AgentSettings
from podsched.server.server import serve
from podsched.server.settings import ServerSettings
from podsched.store.memory import MemoryStore
from support.api_objects import binding, node, pod

pytestmark = pytest.mark.integration


class World(NamedTuple):
    client: ApiClient
    agents: list[Agent]

    async def play(self, **settings: Any) -> Agent:
        agent = Agent(self.client, AgentSettings(**settings))
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


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store = MemoryStore()
    server = await serve(ServerSettings(bookmark_seconds=0.2), store)
    world = World(ApiClient(server.address), [])
    yield world
    for agent in world.agents:
        await agent.stop()
    await world.client.close()
    await server.stop(0)
    await store.close()


async def eventually(check: Callable[[], Any], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not await check():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.02)


async def test_nodes_are_registered_ready_and_keep_their_leases_fresh(world: World) -> None:
    agent = await world.play(nodes=3, heartbeat_period=0.5, zones=("a", "b"))
    assert agent.ready
    nodes = (await world.client.list("Node")).items
    assert [n.metadata.labels["topology.kubernetes.io/zone"] for n in nodes] == ["a", "b", "a"]
    assert all(c.status == "True" for n in nodes for c in n.status.conditions if c.type == "Ready")

    async def renewed() -> bool:
        leases = (await world.client.list("Lease", "kube-node-lease")).items
        return len(leases) == 3 and all(
            lease.spec.renew_time.ToNanoseconds() > time.time_ns() - 5e8 for lease in leases
        )

    began = time.monotonic()
    await eventually(renewed)
    await asyncio.sleep(max(0.0, began + 1.2 - time.monotonic()))
    assert await renewed()


async def test_a_bound_pod_runs_and_leaves_when_its_grace_is_over(world: World) -> None:
    await world.play(nodes=1)
    item = pod("web")
    item.spec.termination_grace_period_seconds = 1
    await world.client.create(item)
    await world.client.bind(binding("web", "node-0000"))

    async def running() -> bool:
        return await world.phase("web") == "Running"

    await eventually(running)
    found = await world.pod("web")
    assert found is not None and found.status.HasField("start_time")
    ready = {c.type: c.status for c in found.status.conditions}
    assert ready["Ready"] == ready["PodScheduled"] == "True"
    began = time.monotonic()
    await world.client.delete("Pod", "web")
    await eventually(lambda: gone(world, "web"))
    assert time.monotonic() - began >= 0.9


async def gone(world: World, name: str) -> bool:
    return await world.pod(name) is None


async def test_a_pod_that_says_how_long_it_runs_ends(world: World) -> None:
    await world.play(nodes=1)
    for name, code in (("good", "0"), ("bad", "3")):
        item = pod(name)
        item.spec.node_name = "node-0000"
        item.metadata.annotations["podsched.io/run-seconds"] = "0.2"
        item.metadata.annotations["podsched.io/exit-code"] = code
        await world.client.create(item)

    async def ended() -> bool:
        return [await world.phase(n) for n in ("good", "bad")] == ["Succeeded", "Failed"]

    await eventually(ended)


async def test_pods_of_other_nodes_are_left_alone(world: World) -> None:
    await world.client.create(node("other"))
    await world.play(nodes=1)
    for name, where in (("theirs", "other"), ("ours", "node-0000")):
        item = pod(name)
        item.spec.node_name = where
        await world.client.create(item)

    async def running() -> bool:
        return await world.phase("ours") == "Running"

    await eventually(running)
    assert await world.phase("theirs") == "Pending"


async def test_an_agent_that_starts_again_goes_on(world: World) -> None:
    first = await world.play(nodes=1)
    await first.stop()
    item = pod("web")
    item.spec.node_name = "node-0000"
    await world.client.create(item)
    await world.play(nodes=1)

    async def running() -> bool:
        return await world.phase("web") == "Running"

    await eventually(running)


async def test_a_silent_node_does_nothing_until_it_resumes(world: World) -> None:
    await world.play(adopt=True)
    await world.client.create(node("n1"))
    silence = {"metadata": {"annotations": {"podsched.io/silence": "true"}}}
    await world.client.patch("Node", "n1", silence)
    item = pod("web")
    item.spec.node_name = "n1"
    await world.client.create(item)
    await asyncio.sleep(0.5)
    assert await world.phase("web") == "Pending"
    await world.client.patch("Node", "n1", {"metadata": {"annotations": None}})

    async def running() -> bool:
        return await world.phase("web") == "Running"

    await eventually(running)
