"""The pods of simulated nodes, in the order in which a kubelet takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from podsched.api.objects import Node, Pod
from podsched.config.settings import AgentSettings
from podsched.serve.agent.simulated_pods import SimulatedPods
from podsched.serve.agent.timers import Timers
from podsched.serve.client.informer import Event, EventType
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import AgentMetrics
from podsched.telemetry.tracing import DISABLED
from podsched.v1.api_pb2 import BatchResult, PatchRequest

NOW = 1_700_000_000.0


class Cluster:
    """What an informer has, and the pods whose phases were written, in this order."""

    def __init__(self, *objects: Node | Pod) -> None:
        self.synced = asyncio.Event()
        self.written: list[str] = []
        self._objects = {item.metadata.name: item for item in objects}

    def get(self, kind: str, key: str) -> Any:
        return self._objects.get(key.rpartition("/")[2])

    async def patch_many(self, patches: Sequence[PatchRequest], **_: Any) -> list[BatchResult]:
        self.written += [
            f"{patch.name} fails" if b"OutOf" in patch.merge_patch else f"{patch.name} runs"
            for patch in patches
        ]
        return [BatchResult() for _ in patches]

    evict_pods = patch_many


def node() -> Node:
    made = Node()
    made.metadata.name = "n1"
    made.status.allocatable["pods"] = "2"
    return made


def bound(name: str, age: int, phase: str = "Pending") -> Pod:
    made = Pod()
    made.metadata.name, made.metadata.namespace, made.metadata.uid = name, "default", name
    made.metadata.creation_timestamp.seconds = int(NOW) - age
    made.spec.node_name, made.status.phase = "n1", phase
    return made


def simulated_pods(world: Cluster, timers: Timers) -> SimulatedPods:
    return SimulatedPods(
        cast(Any, world),
        cast(Any, world),
        AgentSettings(),
        {"n1": False},
        timers,
        AgentMetrics(MetricRegistry()),
        DISABLED,
    )


@pytest.mark.looptime
async def test_of_the_pods_that_wait_when_the_agent_starts_the_oldest_come_first() -> None:
    pods = [bound("a", 1), bound("b", -3600), bound("c", 60), bound("d", 1, "Running")]
    world = Cluster(node(), *pods)
    timers = Timers(lambda: NOW)
    simulated = simulated_pods(world, timers)
    for item in pods:
        key = f"default/{item.metadata.name}"
        simulated.changed(Event(EventType.ADDED, "Pod", key, None, item))
    world.synced.set()
    running = asyncio.gather(
        simulated.statuses.run(),
        timers.run(world.synced, lambda _, key: simulated.handle(key, world.get("Pod", key))),
    )
    await asyncio.sleep(1)
    running.cancel()
    assert world.written == ["c runs", "a fails", "b fails"]


@pytest.mark.looptime
async def test_of_a_pod_that_is_gone_no_time_is_left() -> None:
    pod = bound("a", 1, "Running")
    pod.metadata.annotations["podsched.io/run-seconds"] = "60"
    world = Cluster(node(), pod)
    world.synced.set()
    clock = asyncio.get_running_loop().time
    timers = Timers(lambda: NOW + clock())
    simulated, handled = simulated_pods(world, timers), list[str]()
    simulated.changed(Event(EventType.ADDED, "Pod", "default/a", None, pod))
    simulated.changed(Event(EventType.DELETED, "Pod", "default/a", pod, None))
    running = asyncio.create_task(timers.run(world.synced, lambda _, key: handled.append(key)))
    await asyncio.sleep(100)
    running.cancel()
    assert not handled
