"""A benchmark waits for pods by watching them."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import Pod
from podsched.lab.bench.cluster import LOOK_EVERY, PodWatch
from podsched.serve.client.informer import Batch, Event, EventType

pytestmark = pytest.mark.looptime


def change(*names: str, node: str = "") -> Batch:
    pod = Pod()
    pod.spec.node_name = node
    events = [Event(EventType.MODIFIED, "Pod", f"default/{name}", None, pod) for name in names]
    return Batch(7, events)


def deletion(name: str) -> Batch:
    return Batch(8, [Event(EventType.DELETED, "Pod", f"default/{name}", Pod(), None)])


async def test_a_change_wakes_what_waits_at_once() -> None:
    pods, clock = PodWatch(), asyncio.get_running_loop().time
    began = clock()
    asyncio.get_running_loop().call_later(2.0, pods.handle, change("a", node="n"))
    await pods.until(lambda: "default/a" in pods.bound, 10.0, "too late")
    assert clock() - began == 2.0


async def test_of_many_pods_a_change_between_two_looks_is_seen_at_the_next_one() -> None:
    pods, loop = PodWatch(), asyncio.get_running_loop()
    pods.handle(change(*(f"p{number}" for number in range(101))))
    began = loop.time()
    loop.call_later(2.0, pods.handle, change("p0", node="n"))
    loop.call_later(2.0 + LOOK_EVERY / 2, pods.handle, change("p1", node="n"))
    await pods.until(lambda: len(pods.bound) == 2, 10.0, "too late")
    assert loop.time() - began == pytest.approx(2.0 + LOOK_EVERY)


async def test_what_does_not_come_true_in_time_is_told() -> None:
    pods, clock = PodWatch(), asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(TimeoutError, match="no pod is bound"):
        await pods.until(lambda: bool(pods.bound), 10.0, "no pod is bound")
    assert clock() - began == 10.0


async def test_waiting_for_pods_ends_without_an_error_when_the_time_is_over() -> None:
    pods = PodWatch()
    pods.handle(change("a", node="n"))
    counts: list[int] = []
    await pods.wait_for(["default/a", "default/b"], 10.0, counts.append)
    assert counts[-1] == 1


async def test_a_pod_counts_as_deleted_once() -> None:
    pods = PodWatch()
    pods.handle(change("a"))
    for _ in range(2):
        pods.handle(deletion("a"))
    assert (pods.there, pods.deleted) == ({}, 1)
