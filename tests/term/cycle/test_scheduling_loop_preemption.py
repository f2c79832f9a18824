"""Preemption end to end, on a cluster in memory: decided, carried out, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podsched.api.objects import object_key
from podsched.framework.plugin import PermitResult, PostFilterResult, PreBindPlan, Victims
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, unschedulable
from podsched.v1 import api_pb2
from support.engine_world import container, node
from support.term_world import TermWorld, world_of_nodes

pytestmark = pytest.mark.looptime

GRACE = 30


def pods(world: TermWorld) -> list[str]:
    return [pod.metadata.name for pod in world.cluster.objects("Pod")]


async def test_a_preemptor_gets_its_node_from_a_pod_of_lower_priority() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1")
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        assert pods(world) == ["high"]
        assert world.nodes_of("high") == ["n1"]
        assert world.events("low", "Preempted") == ["Preempted by pod uid-high on node n1"]
        assert world.related("low", "Preempted") == "v1 Pod default/high"
        world.check()


async def test_the_preemptor_waits_out_the_victims_grace_period_with_its_node_nominated() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        victim = world.stored("low")
        assert victim.metadata.HasField("deletion_timestamp")
        [condition] = [c for c in victim.status.conditions if c.type == "DisruptionTarget"]
        assert condition.reason == "PreemptionByScheduler"
        assert world.stored("high").status.nominated_node_name == "n1"
        assert world.nodes_of("high") == [""]
        await asyncio.sleep(GRACE)
        await world.delete_and_wait("low", seconds=0.1)
        assert world.nodes_of("high") == ["n1"]
        assert world.stored("high").status.nominated_node_name == ""


async def test_no_lower_pod_takes_the_room_that_is_made_for_the_nominee() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        await world.pod_and_wait("thief", cpu="3", priority=5, seconds=0.5)
        # Both events at once, the thief's turn first or not: the room is the nominee's.
        await world.delete_and_wait("low", seconds=20)
        assert world.nodes_of("high", "thief") == ["n1", ""]


async def test_a_nominee_that_finds_another_node_leaves_the_nominated_one_to_others() -> None:
    world = world_of_nodes(n2="3")
    parts = {"cpu": "4", "memory": "32Gi", "pods": "110", "example.com/gpu": "1"}
    world.cluster.create(node("n1", allocatable=parts))
    world.pod("low", cpu="3", on="n1", terminationGracePeriodSeconds=GRACE)
    world.pod("higher", cpu="3", priority=20, on="n2")
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10)
        small = container({"cpu": "1", "example.com/gpu": "1"})
        await world.pod_and_wait("small", priority=5, containers=[small])
        assert world.nodes_of("high", "small") == ["", ""]
        await world.delete_and_wait("higher", seconds=15)
        assert world.nodes_of("high", "small") == ["n2", "n1"]


async def test_a_node_that_comes_during_the_evictions_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="4")
    for number in (1, 2):
        world.pod(f"low-{number}", cpu="2", on="n1", terminationGracePeriodSeconds=GRACE)
    evict = world.cluster.evict_pods

    async def slowly(*args: Any, **more: Any) -> Sequence[api_pb2.BatchResult]:
        await asyncio.sleep(1)
        return await evict(*args, **more)

    monkeypatch.setattr(world.cluster, "evict_pods", slowly)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        world.node("n2")
        await asyncio.sleep(15)
        assert world.nodes_of("high") == ["n2"]


async def test_while_its_victim_terminates_a_preemptor_preempts_no_other_pod() -> None:
    world = world_of_nodes(n1="4", n2="4")
    for number in (1, 2):
        world.pod(f"low-{number}", cpu="3", on=f"n{number}", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        world.change("high", lambda pod: pod.metadata.labels.update({"touched": "yes"}))
        await asyncio.sleep(5)
        going = [
            name
            for name in ("low-1", "low-2")
            if world.stored(name).metadata.HasField("deletion_timestamp")
        ]
        assert len(going) == 1


async def test_a_higher_preemptor_ends_the_nomination_of_a_lower_one() -> None:
    world = world_of_nodes(n1="4")
    for name in ("v1", "v2"):
        world.pod(name, cpu="2", on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", cpu="2", priority=10, seconds=0.5)
        assert world.stored("high").status.nominated_node_name == "n1"
        world.pod("top", cpu="4", priority=100)
        await asyncio.sleep(2)
        assert world.stored("top").status.nominated_node_name == "n1"
        assert world.stored("high").status.nominated_node_name == ""
        for name in ("v1", "v2"):
            world.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(5)
        assert world.nodes_of("top", "high") == ["n1", ""]
        world.check()


async def test_a_pod_that_loses_its_nomination_to_a_higher_one_preempts_another_pod() -> None:
    world = world_of_nodes(n1="4")
    for name in ("v1", "v2", "v3", "v4"):
        world.pod(name, on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", priority=10)
        assert world.stored("high").status.nominated_node_name == "n1"
        await world.pod_and_wait("top", cpu="2", priority=100)
        # When it is tried again, its status may still have the nomination.
        assert world.stored("high").status.nominated_node_name == "n1"
        for victim in world.cluster.objects("Pod"):
            if victim.metadata.HasField("deletion_timestamp"):
                world.cluster.delete("Pod", object_key(victim))
        await asyncio.sleep(5)
        assert world.nodes_of("top", "high") == ["n1", "n1"]
        world.check()


async def test_a_budget_is_violated_only_where_no_other_node_would_do() -> None:
    world = world_of_nodes(n1="4", n2="4")
    world.pod("guarded", cpu="3", on="n1", labels={"app": "db"})
    world.pod("free", cpu="3", on="n2")
    world.budget("db", 0, app="db")
    async with world.running():
        await world.pod_and_wait("first", cpu="3", priority=10)
        assert world.nodes_of("first") == ["n2"]
        await world.pod_and_wait("second", cpu="3", priority=10)
        assert world.nodes_of("second") == ["n1"]
        assert "guarded" not in pods(world)


async def test_while_evictions_fail_the_preemptor_tries_again_after_its_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1")
    real, failures = world.cluster.evict_pods, [1, 2, 3]

    async def flaky(
        evictions: Sequence[api_pb2.EvictRequest], *, fence: api_pb2.Fence
    ) -> Sequence[api_pb2.BatchResult]:
        if failures:
            failures.pop()
            return [api_pb2.BatchResult(code=14, reason="UNAVAILABLE", message="no")]
        return await real(evictions, fence=fence)

    monkeypatch.setattr(world.cluster, "evict_pods", flaky)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        assert failures == [1, 2]
        await asyncio.sleep(12)
        assert world.nodes_of("high") == ["n1"]


async def test_a_victim_waiting_at_permit_loses_its_place_and_stays_pending() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(
        Status(Code.WAIT) if pod.name == "low" else SUCCESS, timeout=600
    )
    async with world.running():
        await world.pod_and_wait("low", cpu="3")
        await world.pod_and_wait("high", cpu="3", priority=10)
        assert world.nodes_of("low", "high") == ["", "n1"]
        assert not world.stored("low").metadata.HasField("deletion_timestamp")
        assert world.events("low", "Preempted") == [
            "Preempted by pod uid-high on node n1 (in kube-scheduler memory)."
        ]
        text = "waiting on permit for pod: preempted"
        assert text in world.events("low", "FailedScheduling")
        assert len(world.state.waiting) == 0
        world.check()


@pytest.mark.parametrize("waits_at", ["permit", "pre_bind"])
async def test_a_victim_that_was_not_bound_yet_is_tried_again_after_its_backoff(
    waits_at: str,
) -> None:
    world = world_of_nodes(n1="4")

    def permit(pod: PodInfo) -> PermitResult:
        waits = pod.name == "low" and waits_at == "permit"
        return PermitResult(Status(Code.WAIT) if waits else SUCCESS, timeout=600)

    def plan(pod: PodInfo) -> PreBindPlan:
        if pod.name != "low" or waits_at != "pre_bind":
            return PreBindPlan()
        return PreBindPlan(wait=lambda cluster: Status(Code.PENDING), timeout=600)

    world.script.on_permit, world.script.on_pre_bind = permit, plan
    async with world.running():
        await world.pod_and_wait("low", cpu="3")
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        assert world.nodes_of("low", "high") == ["", "n1"]
        # No pod is deleted meanwhile, so no event helps it.
        waits_at = ""
        world.node("n2")
        assert world.place("low") == "backoff"
        await asyncio.sleep(3)
        assert world.nodes_of("low") == ["n2"]


async def test_a_victim_in_pre_bind_loses_its_place_and_stays_pending() -> None:
    world = world_of_nodes(n1="4")

    def plan(pod: PodInfo) -> PreBindPlan:
        if pod.name == "high":
            return PreBindPlan()
        return PreBindPlan(wait=lambda cluster: Status(Code.PENDING), timeout=600)

    world.script.on_pre_bind = plan
    async with world.running():
        await world.pod_and_wait("low", cpu="3")
        await world.pod_and_wait("high", cpu="3", priority=10)
        assert world.nodes_of("low", "high") == ["", "n1"]
        assert "Script.unreserve low" in world.log
        assert world.place("low") != ""
        world.check()


async def test_a_pod_that_may_not_preempt_says_so_and_evicts_no_pod() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1")
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, preemptionPolicy="Never")
        assert world.scheduled("high").message == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never."
        )
        assert pods(world) == ["high", "low"]


async def test_a_preemptor_deleted_meanwhile_lets_its_room_go() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10, seconds=0.5)
        world.cluster.delete("Pod", "default/high")
        world.cluster.delete("Pod", "default/low")
        await world.pod_and_wait("other", cpu="3", priority=1, seconds=0.5)
        assert world.nodes_of("other") == ["n1"]
        world.check()


#: A profile that preempts by the test's own plugins alone.
OWN_POST_FILTER = {
    "plugins": {
        "preEnqueue": {"disabled": [{"name": "DefaultPreemption"}]},
        "postFilter": {
            "enabled": [{"name": "Script"}, {"name": "SecondScript"}],
            "disabled": [{"name": "DefaultPreemption"}],
        },
        "permit": {"enabled": [{"name": "Script"}]},
        "preBind": {"enabled": [{"name": "Script"}]},
    }
}


def world_with_own_post_filter(*victims_of_second: str) -> TermWorld:
    """The second plugin wants these pods evicted from n1; the first finds nothing."""
    world = TermWorld([OWN_POST_FILTER])

    def post_filter(pod: PodInfo) -> PostFilterResult:
        known = world.state.cache.cluster.pods
        if pod.name in victims_of_second:
            return PostFilterResult(unschedulable())
        going = tuple(known[f"default/{name}"] for name in victims_of_second)
        return PostFilterResult(SUCCESS, "n1", Victims(going))

    world.second.on_post_filter = post_filter
    return world


async def test_the_preemption_for_a_pod_that_is_deleted_before_it_is_bound_is_forgotten() -> None:
    world = world_of_nodes(n1="4")
    world.pod("low", cpu="3", on="n1")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=600)
    async with world.running():
        await world.pod_and_wait("high", cpu="3", priority=10)
        assert len(world.state.waiting) == 1
        await world.delete_and_wait("high")
        assert not world.term.preemption_meter.freed_for


async def test_victims_of_a_users_plugin_are_evicted_when_nothing_else_preempts() -> None:
    world = world_with_own_post_filter("low")
    world.node("n1")
    world.pod("low", cpu="3", on="n1")
    async with world.running():
        world.pod("high", cpu="3")
        await asyncio.sleep(30)
        assert pods(world) == ["high"]
        assert world.nodes_of("high") == ["n1"]
        world.check()
