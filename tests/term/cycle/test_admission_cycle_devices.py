"""Devices of DRA as quota of queues, counted by class, on a cluster in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from podsched.api.queue_labels import BACKFILL, MAX_EXEC_TIME
from podsched.term.admission.reservation_text import RESERVATION, stored_reservation
from support.device_cluster import Cluster, a_cluster
from support.queues import QUEUE, bound, cluster_queue, flavor, message, usage

pytestmark = pytest.mark.looptime

GPUS = {"resources": {"deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu"]}]}}
FOUR = ["0", "1", "2", "3"]


async def two_nodes(quota: int = 8, **queues: Any) -> Cluster:
    """Two nodes with four devices each, and a queue with a quota of devices."""
    world = await a_cluster(Cluster(queues=queues or GPUS), n1=FOUR, n2=FOUR)
    flavor(world)
    cluster_queue(world, "team", {"cpu": 100, "gpus": quota})
    return world


def user(world: Cluster, name: str, *claims: str, **spec: Any) -> None:
    world.user(name, *claims, labels={QUEUE: "team"}, cpu="0", **spec)


async def test_a_claim_that_no_node_has_room_for_uses_no_quota() -> None:
    """Two nodes with four devices each, a quota of eight, and a claim for eight."""
    world = await two_nodes()
    async with world.running():
        world.claim("wide", 8)
        user(world, "wide", "wide")
        await asyncio.sleep(5)
        assert bound(world) == []
        assert usage(world, "team") == {}
        assert "cannot allocate all claims" in message(world, "wide")
        world.claim("narrow", 4)
        user(world, "narrow", "narrow")
        await asyncio.sleep(5)
        assert bound(world) == ["narrow"]
        assert usage(world, "team") == {"default/gpus": 4}


async def test_a_claim_waits_for_quota_of_its_devices() -> None:
    world = await two_nodes(quota=5)
    async with world.running():
        for name in ("a", "b"):
            world.claim(name, 3)
            user(world, name, name)
            await asyncio.sleep(1)
        assert bound(world) == ["a"]
        assert message(world, "b") == (
            "couldn't assign flavors to pod set main: insufficient unused quota for gpus in "
            "flavor default, 1 more needed"
        )
        world.cluster.delete("Pod", "default/a")
        world.cluster.delete("ResourceClaim", "default/a")
        await asyncio.sleep(5)
        assert bound(world) == ["b"]


async def test_a_claim_whose_class_counts_as_no_resource_does_not_run_uncounted() -> None:
    world = await two_nodes(requireQueue=[])
    async with world.running():
        world.claim("c", 1)
        user(world, "p", "c")
        await asyncio.sleep(5)
        assert bound(world) == []
        assert message(world, "p") == (
            "DeviceClass gpu of ResourceClaim c counts as no resource of quotas: give it an "
            "extendedResourceName, or map it in queues.resources.deviceClassMappings"
        )


async def test_a_class_counts_as_its_extended_resource_unless_it_is_mapped() -> None:
    world = Cluster()
    world.make("DeviceClass", "gpu", {"extendedResourceName": "example.com/gpu"})
    world.gpus("n1", *FOUR)
    flavor(world)
    cluster_queue(world, "team", {"cpu": 100, "gpu": 2})
    async with world.running():
        for name in ("a", "b"):
            world.claim(name, 2)
            user(world, name, name)
            await asyncio.sleep(1)
        assert bound(world) == ["a"]
        assert usage(world, "team") == {"default/example.com/gpu": 2}


async def test_devices_of_claims_count_beside_those_that_a_pod_requests() -> None:
    world = Cluster()
    world.make("DeviceClass", "gpu", {"extendedResourceName": "example.com/gpu"})
    world.gpus("n1", *FOUR)
    flavor(world)
    cluster_queue(world, "team", {"cpu": 100, "gpu": 2})
    async with world.running():
        world.claim("c", 1)
        two = {"example.com/gpu": "2"}
        resources = {"requests": two, "limits": two}
        user(world, "p", "c", containers=[{"name": "c", "image": "x", "resources": resources}])
        await asyncio.sleep(2)
        assert bound(world) == []
        assert "current podset request (3) > maximum capacity (2)" in message(world, "p")


async def test_a_request_for_all_devices_cannot_be_counted() -> None:
    world = await two_nodes()
    async with world.running():
        exactly = {"deviceClassName": "gpu", "allocationMode": "All"}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        world.make("ResourceClaim", "all", spec)
        user(world, "p", "all")
        await asyncio.sleep(5)
        assert bound(world) == []
        assert message(world, "p").startswith("request r of ResourceClaim all cannot be counted")


async def test_a_claim_of_several_pods_counts_once_until_the_last_is_gone() -> None:
    world = await two_nodes()
    async with world.running():
        world.claim("shared", 2)
        for name in ("a", "b", "c"):
            user(world, name, "shared")
            await asyncio.sleep(1)
        assert bound(world) == ["a", "b", "c"]
        assert usage(world, "team") == {"default/gpus": 2}
        for name in ("a", "b"):
            await world.delete_and_wait(name)
            assert usage(world, "team") == {"default/gpus": 2}
        await world.delete_and_wait("c")
        assert usage(world, "team") == {}


async def test_pods_that_wait_together_for_a_shared_claim_need_its_quota_once() -> None:
    world = await two_nodes(quota=2)
    async with world.running():
        world.claim("shared", 2)
        for name in ("a", "b", "c"):
            user(world, name, "shared")
        await asyncio.sleep(2)
        assert bound(world) == ["a", "b", "c"]


async def test_a_pod_needs_the_quota_of_a_shared_claim_once_no_other_pod_has_it() -> None:
    world = await two_nodes()
    async with world.running():
        world.claim("shared", 2)
        user(world, "a", "shared")
        user(world, "waits", "shared", nodeSelector={"x": "y"})
        await asyncio.sleep(2)
        workloads = world.state.admission.turns.workloads
        assert workloads["default/pod:waits"].requests["gpus"] == 0
        await world.delete_and_wait("a")
        assert workloads["default/pod:waits"].requests["gpus"] == 2


async def test_a_pod_waits_until_its_claim_is_made() -> None:
    world = await two_nodes()
    async with world.running():
        user(world, "p", "late")
        await asyncio.sleep(5)
        assert bound(world) == []
        world.claim("late", 4)
        await asyncio.sleep(1)
        assert bound(world) == ["p"]
        assert usage(world, "team") == {"default/gpus": 4}


async def test_a_claim_that_is_made_again_waits_for_quota_of_its_new_devices() -> None:
    world = await two_nodes(quota=3)
    async with world.running():
        for name in ("a", "b"):
            world.claim(name, 2)
            user(world, name, name)
            await asyncio.sleep(1)
        assert bound(world) == ["a"]
        world.cluster.delete("ResourceClaim", "default/b")
        world.claim("b", 4)
        await world.delete_and_wait("a")
        assert bound(world) == []
        assert "insufficient quota for gpus" in message(world, "b")


async def test_devices_are_kept_for_a_promised_start() -> None:
    """Quota and CPU suffice for all; it is the four devices of a node that are promised."""
    world = await a_cluster(Cluster(queues=GPUS), n1=FOUR)
    flavor(world)
    annotations = {BACKFILL: "EASY"}
    cluster_queue(world, "team", {"cpu": 100, "gpus": 100}, annotations=annotations)

    def job(name: str, count: int, seconds: int) -> None:
        world.claim(name, count)
        limit = {QUEUE: "team", MAX_EXEC_TIME: str(seconds)}
        world.user(name, name, labels=limit, cpu="0", terminationGracePeriodSeconds=0)

    async with world.running():
        job("long", 3, 100)
        await asyncio.sleep(2)
        job("wide", 4, 50)
        await asyncio.sleep(2)
        assert "it starts at 2027-01-15T08:01:45Z at the latest" in message(world, "wide")
        job("late", 1, 200)
        await asyncio.sleep(2)
        assert bound(world) == ["long"]
        assert "devices of pool gpu.example.com/n1 are kept for default/pod:wide" in message(
            world, "late"
        )
        job("short", 1, 60)
        await asyncio.sleep(2)
        assert bound(world) == ["long", "short"]
    async with Cluster(cluster=world.cluster, queues=GPUS).running() as after:
        # The claims of pods that are gone go, too; nothing else in this test sees to that.
        await asyncio.sleep(64)
        after.cluster.delete("ResourceClaim", "default/short")
        await asyncio.sleep(5)
        assert bound(after) == ["long"]
        await asyncio.sleep(25)
        after.cluster.delete("ResourceClaim", "default/long")
        await asyncio.sleep(5)
        assert bound(after) == ["wide"]


async def test_a_user_cannot_have_more_devices_kept_than_the_claims_ask_for() -> None:
    world = await a_cluster(Cluster(queues=GPUS), n1=FOUR)
    flavor(world)
    annotations = {BACKFILL: "EASY"}
    cluster_queue(world, "team", {"cpu": 100, "gpus": 100}, annotations=annotations)
    async with world.running():
        for name, count in (("long", 3), ("waits", 2)):
            world.claim(name, count)
            world.user(name, name, labels={QUEUE: "team", MAX_EXEC_TIME: "100"}, cpu="0")
            await asyncio.sleep(2)
        assert "it starts at" in message(world, "waits")

        def keep_all(pod: Any) -> None:
            made = json.loads(pod.metadata.annotations[RESERVATION])
            made["devices"] += [["gpu.example.com", "n1", name] for name in FOUR]
            pod.metadata.annotations[RESERVATION] = json.dumps(made)

        world.change("waits", keep_all)
        await asyncio.sleep(1)
        admission, key = world.state.admission, "default/pod:waits"
        unit, workload = admission.units[key], admission.turns.workloads[key]
        made = stored_reservation(admission.cluster, unit, workload)
        assert made is not None
        assert len(made.devices) == 2
