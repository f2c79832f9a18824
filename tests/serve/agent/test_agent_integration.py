"""The agent against a real API server over gRPC."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from support.agent_world import AgentWorld
from support.api_objects import binding, node, pod
from support.eventually import eventually

pytestmark = pytest.mark.integration


async def test_nodes_are_registered_ready_and_keep_their_leases_fresh(world: AgentWorld) -> None:
    agent = await world.play(nodes=3, heartbeat_period=0.5, zones=("a", "b"))
    assert agent.ready
    nodes = (await world.client.list("Node")).items
    assert [n.metadata.labels["topology.kubernetes.io/zone"] for n in nodes] == ["a", "b", "a"]
    assert all(c.status == "True" for n in nodes for c in n.status.conditions if c.type == "Ready")

    async def renewed() -> bool:
        leases = (await world.client.list("Lease", "kube-node-lease")).items
        return len(leases) == 3 and all(
            lease.spec.renew_time.ToNanoseconds() > after for lease in leases
        )

    for _ in range(3):
        after = time.time_ns()
        await eventually("all leases are renewed", renewed)


async def test_a_bound_pod_runs_and_leaves_when_its_grace_is_over(world: AgentWorld) -> None:
    await world.play(nodes=1)
    item = pod("web")
    item.spec.termination_grace_period_seconds = 1
    await world.client.create(item)
    await world.client.bind(binding("web", "node-0000"))

    await eventually("the pod runs", lambda: world.phase("web"), "Running")
    found = await world.pod("web")
    assert found is not None and found.status.HasField("start_time")
    ready = {c.type: c.status for c in found.status.conditions}
    assert ready["Ready"] == ready["PodScheduled"] == "True"
    began = time.monotonic()
    await world.client.delete("Pod", "web")
    await eventually("the pod is gone", lambda: world.phase("web"), "gone")
    assert time.monotonic() - began >= 0.9


async def test_a_pod_that_says_how_long_it_runs_ends(world: AgentWorld) -> None:
    await world.play(nodes=1)
    for name, code in (("good", "0"), ("bad", "3")):
        item = pod(name)
        item.spec.node_name = "node-0000"
        item.metadata.annotations["podsched.io/run-seconds"] = "0.2"
        item.metadata.annotations["podsched.io/exit-code"] = code
        await world.client.create(item)

    await eventually("one ends well", lambda: world.phase("good"), "Succeeded")
    await eventually("one fails", lambda: world.phase("bad"), "Failed")


async def test_pods_of_other_nodes_are_left_alone(world: AgentWorld) -> None:
    await world.client.create(node("other"))
    await world.play(nodes=1)
    for name, where in (("theirs", "other"), ("ours", "node-0000")):
        item = pod(name)
        item.spec.node_name = where
        await world.client.create(item)

    await eventually("the pod runs", lambda: world.phase("ours"), "Running")
    assert await world.phase("theirs") == "Pending"


async def test_an_agent_that_starts_again_goes_on(world: AgentWorld) -> None:
    first = await world.play(nodes=1)
    await first.stop()
    item = pod("web")
    item.spec.node_name = "node-0000"
    await world.client.create(item)
    await world.play(nodes=1)

    await eventually("the pod runs", lambda: world.phase("web"), "Running")


async def test_a_silent_node_does_nothing_until_it_resumes(world: AgentWorld) -> None:
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

    await eventually("the pod runs", lambda: world.phase("web"), "Running")


async def test_a_pod_for_which_its_node_has_no_room_is_refused(world: AgentWorld) -> None:
    """Two of three fit; the third fails, as on a kubelet, and its end makes no room."""
    await world.play(nodes=1, node_cpu="2")
    for name, phase in (("a", "Running"), ("b", "Running"), ("c", "Failed")):
        item = pod(name)
        item.spec.node_name = "node-0000"
        item.spec.containers[0].resources.requests["cpu"] = "1"
        await world.client.create(item)
        await eventually("it is decided", partial(world.phase, name), phase)
    found = await world.pod("c")
    assert found is not None and found.status.reason == "OutOfcpu"
    assert found.status.message.endswith("cpu, requested: 1000, used: 2000, capacity: 2000")
