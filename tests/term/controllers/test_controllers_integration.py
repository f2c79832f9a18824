"""Controllers and an agent against a real API server over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import ConfigMap, Node, ObjectMeta, Pod
from podsched.config.settings import ControllerSettings
from podsched.serve.client.errors import FenceLost, Forbidden, NotFound
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.manager import ControllerManager
from support.agent_world import AgentWorld, started_world
from support.api_objects import LOCK, budget, node, pod
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration
SETTINGS = ControllerSettings(node_monitor_period=0.5, node_monitor_grace_period=3)


class _Silent:
    """Records no events."""

    def record(self, about: ObjectMeta, **_: Any) -> None: ...


@pytest.fixture
async def world() -> AsyncIterator[AgentWorld]:
    """An agent that plays all nodes, three of them, and the controllers of one term."""
    async for world in started_world():
        fence = await world.new_term(LOCK)
        cluster = world.client
        informer = cluster.informer(WATCHED_KINDS)
        metrics = ControllerMetrics(MetricRegistry())
        manager = ControllerManager(cluster, informer, SETTINGS, fence, _Silent(), metrics=metrics)
        tasks = [
            asyncio.create_task(informer.run(manager.handle)),
            asyncio.create_task(manager.run(), name="controllers' term"),
        ]
        await world.play(adopt=True, heartbeat_period=0.5)
        for name in ("n1", "n2", "n3"):
            await world.client.create(node(name))
        yield world
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def put(world: AgentWorld, name: str, **spec: Any) -> None:
    item = pod(name, app="web")
    item.spec.node_name = "n1"
    item.spec.termination_grace_period_seconds = spec.get("grace", 0)
    if "seconds" in spec:
        item.spec.tolerations.add(
            key="node.kubernetes.io/unreachable",
            operator="Exists",
            effect="NoExecute",
            toleration_seconds=spec["seconds"],
        )
    await world.client.create(item)

    await eventually("the pod runs", lambda: world.phase(name), "Running")


async def taints(world: AgentWorld, name: str) -> set[str]:
    found = await world.client.get("Node", name)
    assert isinstance(found, Node)
    return {taint.effect for taint in found.spec.taints if "unreachable" in taint.key}


async def silence(world: AgentWorld, name: str, on: bool = True) -> None:
    annotations = {"podsched.io/silence": "true" if on else None}
    await world.client.patch("Node", name, {"metadata": {"annotations": annotations}})


async def test_a_silent_node_loses_the_pods_that_do_not_tolerate_it_and_recovers(
    world: AgentWorld,
) -> None:
    await put(world, "short", seconds=1)
    await put(world, "forever", seconds=None)
    await put(world, "graceful", seconds=1, grace=1)
    await silence(world, "n1")

    both = {"NoSchedule", "NoExecute"}
    await eventually("the node is tainted", lambda: taints(world, "n1"), both)

    async def driven_out() -> bool:
        graceful = await world.pod("graceful")
        going = graceful is not None and graceful.metadata.HasField("deletion_timestamp")
        return going and await world.pod("short") is None

    await eventually("the pods are driven out", driven_out)
    await asyncio.sleep(1.5)
    assert await world.pod("graceful") is not None
    forever = await world.pod("forever")
    assert isinstance(forever, Pod)
    assert not forever.metadata.HasField("deletion_timestamp")
    await silence(world, "n1", on=False)

    async def recovered() -> bool:
        found = await world.pod("forever")
        assert found is not None
        ready = {c.type: c.status for c in found.status.conditions}["Ready"] == "True"
        clean = not await taints(world, "n1")
        return clean and ready and await world.pod("graceful") is None

    await eventually("the node has recovered", recovered)


async def test_a_budget_says_how_many_may_be_disrupted(world: AgentWorld) -> None:
    item = budget("web", app="web")
    item.spec.ClearField("max_unavailable")
    item.spec.min_available = "1"
    await world.client.create(item)
    await put(world, "a")
    await put(world, "b")

    async def healthy_and_allowed() -> tuple[int, int]:
        found: Any = await world.client.get("PodDisruptionBudget", "web")
        return found.status.current_healthy, found.status.disruptions_allowed

    await eventually("the budget allows one", healthy_and_allowed, (2, 1))


async def test_a_term_that_is_over_is_noticed(world: AgentWorld) -> None:
    term = next(task for task in asyncio.all_tasks() if task.get_name() == "controllers' term")
    await world.new_term(LOCK)
    await world.client.patch("Node", "n2", {"spec": {"unschedulable": True}})
    done, _ = await asyncio.wait({term}, timeout=PATIENCE)
    assert done
    assert isinstance(term.exception(), FenceLost)
    found = await world.client.get("Node", "n2")
    assert isinstance(found, Node)
    assert not found.spec.taints


async def test_a_namespace_goes_with_owners_dependents_and_running_pods(world: AgentWorld) -> None:
    """Of all kinds; the pod gets its grace period, and nothing new comes in meanwhile."""
    client = world.client
    created = await client.create(config_map("owner"))
    dependent = config_map("dependent")
    dependent.metadata.owner_references.add(
        api_version="v1", kind="ConfigMap", name="owner", uid=created.metadata.uid
    )
    await client.create(dependent)
    await client.delete("ConfigMap", "owner", "shop", propagation_policy="Foreground")

    async def settings() -> int:
        return len((await client.list("ConfigMap", "shop")).items)

    await eventually("the dependent goes with its owner", settings, 0)
    await client.create(config_map("left"))
    item = pod("a", "shop")
    item.spec.node_name = "n1"
    item.spec.termination_grace_period_seconds = 1
    await client.create(item)
    await client.delete("Namespace", "shop")
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await client.create(pod("b", "shop"))

    async def is_there() -> bool:
        try:
            await client.get("Namespace", "shop")
        except NotFound:
            return False
        return True

    await eventually("the namespace is gone", is_there, False)
    assert not (await client.list("Pod", "shop")).items
    assert not await settings()


def config_map(name: str) -> ConfigMap:
    item = ConfigMap()
    item.metadata.name, item.metadata.namespace = name, "shop"
    return item
