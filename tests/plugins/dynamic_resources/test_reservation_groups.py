"""Members of a gang share claims that are not allocated before the gang is placed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.framework.plugin import PreBindPlan
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.plugins.dynamic_resources import reservation
from podsched.serve.client.errors import Unavailable
from podsched.v1 import objects_pb2 as v1
from support.device_cluster import Cluster, a_cluster
from support.gangs import gang

pytestmark = pytest.mark.looptime

PENDING = Status(Code.PENDING, ("not yet",))


def make_gang(
    world: Cluster, name: str, minimum: int, *claims: list[str], cpu: str = "1"
) -> list[str]:
    """Create a gang with a member for each list of claims; return their names."""
    group, members = gang(name, minimum, len(claims), priority=0)
    world.cluster.create(group)
    for member, names in zip(members, claims, strict=True):
        member.spec.scheduler_name = "default-scheduler"
        member.spec.containers[0].resources.requests["cpu"] = cpu
        for claim in names:
            member.spec.resource_claims.add(name=claim, resource_claim_name=claim)
        world.cluster.create(member)
    return [member.metadata.name for member in members]


async def test_members_share_a_claim_that_the_first_of_them_gets_allocated() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"], n3=["d0"])
    world.claim("shared")
    names = make_gang(world, "g", 3, ["shared"], ["shared"], ["shared"])
    await world.run_for(10)
    assert len(set(world.nodes_of(*names))) == 1
    assert world.nodes_of(*names)[0]
    assert sorted(world.users_of("shared")) == names
    assert len(world.devices_of("shared")) == 1
    world.check()


async def test_members_have_a_shared_claim_and_claims_of_their_own() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0", "d1", "d2"])
    for name in ("shared", "a", "b"):
        world.claim(name)
    names = make_gang(world, "g", 2, ["shared", "a"], ["shared", "b"])
    await world.run_for(10)
    assert world.nodes_of(*names) == ["n2", "n2"]
    assert sorted(world.devices_of("shared") + world.devices_of("a") + world.devices_of("b")) == [
        "n2/d0", "n2/d1", "n2/d2",
    ]  # fmt: skip


async def test_a_gang_that_does_not_fit_leaves_the_shared_claim_unallocated() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("shared")
    names = make_gang(world, "g", 2, ["shared"], ["shared"], cpu="9")
    async with world.running(seconds=5):
        assert world.nodes_of(*names) == ["", ""]
        assert world.devices_of("shared") == []
        world.claim("other")
        world.user("p", "other")
        await asyncio.sleep(5)
    assert world.nodes_of("p") == ["n1"]


async def test_a_gang_that_does_not_fit_keeps_no_devices_that_nobody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a patch was written is in doubt for a while; that may end while a gang is tried."""
    world = await a_cluster(n1=["d0"])
    for name in ("lost", "a", "b", "other"):
        world.claim(name)
    patch_many = world.cluster.patch_many

    async def patched(patches: Any, *, fence: Any) -> Any:
        if patches[0].name == "lost":
            raise Unavailable("no answer")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    world.user("gone", "lost")
    async with world.running(seconds=0.2):
        world.cluster.delete("Pod", "default/gone")
        await asyncio.sleep(1)
        monkeypatch.setattr(reservation, "DOUBT", 0.0)
        names = make_gang(world, "g", 2, ["a"], ["b"])
        await asyncio.sleep(5)
        world.user("p", "other")
        await asyncio.sleep(5)
    assert world.nodes_of(*names, "p") == ["", "", "n1"]


async def test_a_pod_of_another_group_waits_for_a_claim_that_is_being_allocated() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("shared")
    gate = asyncio.Event()
    world.script.on_pre_bind = lambda pod: PreBindPlan(
        wait=lambda _: SUCCESS if gate.is_set() else PENDING, timeout=60
    )
    names = make_gang(world, "g", 2, ["shared"], ["shared"])
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: Any) -> Any:
        if any(b"allocation" in patch.merge_patch for patch in patches):
            await asyncio.sleep(3)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    async with world.running(seconds=1):
        world.user("p", "shared")
        await asyncio.sleep(1)
        assert "is in the process of being allocated" in world.scheduled("p").message
        gate.set()
        await asyncio.sleep(30)
    assert set(world.nodes_of("p", *names)) == {"n1"}
    assert sorted(world.users_of("shared")) == [*names, "p"]


async def test_many_members_share_a_claim() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("shared")
    names = make_gang(world, "g", 12, *[["shared"]] * 12)
    await world.run_for(10)
    assert set(world.nodes_of(*names)) == {"n1"}
    assert sorted(world.users_of("shared")) == sorted(names)


async def test_a_member_that_is_not_bound_leaves_the_claim_to_the_others() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("shared")
    failing = {"g-1": 2}

    def answer(pod: Any) -> PreBindPlan:
        failing[pod.name] = failing.get(pod.name, 0) - 1
        return PreBindPlan(error("no") if failing[pod.name] >= 0 else SUCCESS)

    world.script.on_pre_bind = answer
    names = make_gang(world, "g", 2, ["shared"], ["shared"])
    await world.run_for(60)
    assert set(world.nodes_of(*names)) == {"n1"}
    assert sorted(world.users_of("shared")) == names


async def test_a_claim_that_keeps_a_waiting_gang_from_nodes_is_moved() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    on_n1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_n1]}]},
        },
        "reservedFor": [
            {"resource": "pods", "name": f"g-{n}", "uid": f"uid-g-{n}"} for n in range(2)
        ],
    }
    world.claim("shared", status=status)
    world.cordon("n1")
    names = make_gang(world, "g", 2, ["shared"], ["shared"])
    await world.run_for(30)
    assert world.nodes_of(*names) == ["n2", "n2"]
    assert world.devices_of("shared") == ["n2/d0"]


async def test_members_get_devices_for_extended_resources() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    names = make_gang(world, "g", 2, [], [])
    for name in names:
        world.change(name, ask_for_a_gpu)
    await world.run_for(10)
    assert sorted(world.nodes_of(*names)) == ["n1", "n2"]
    found = world.cluster.objects("ResourceClaim")
    assert len(found) == 2


def ask_for_a_gpu(pod: v1.Pod) -> None:
    requests = pod.spec.containers[0].resources.requests
    requests["deviceclass.resource.kubernetes.io/gpu"] = "1"


def group_claim(world: Cluster, name: str, *claims: str) -> None:
    """Let a group have claims."""
    group = world.cluster.object("PodGroup", f"default/{name}")
    assert isinstance(group, v1.PodGroup)
    for claim in claims:
        group.spec.resource_claims.add(name=claim, resource_claim_name=claim)
    world.cluster.update(group)


def consumers(world: Cluster, claim: str) -> list[tuple[str, str, str]]:
    return [
        (of.api_group, of.resource, of.name) for of in world.stored_claim(claim).status.reserved_for
    ]


async def test_a_claim_of_the_group_is_reserved_for_the_group() -> None:
    world = await a_cluster(n1=["d0", "d1"])
    world.claim("shared")
    world.claim("own")
    names = make_gang(world, "g", 2, ["shared", "own"], ["shared"])
    group_claim(world, "g", "shared")
    await world.run_for(10)
    assert world.nodes_of(*names) == ["n1", "n1"]
    assert consumers(world, "shared") == [("scheduling.k8s.io", "podgroups", "g")]
    assert consumers(world, "own") == [("", "pods", "g-0")]


async def test_more_members_than_a_claim_has_room_for_share_the_claim_of_their_group() -> None:
    world = await a_cluster(n1=["d0"], n2=[])
    world.claim("shared")
    names = make_gang(world, "g", 100, *[["shared"]] * 100, cpu="10m")
    group_claim(world, "g", "shared")
    await world.run_for(20)
    assert set(world.nodes_of(*names)) == {"n1"}
    assert consumers(world, "shared") == [("scheduling.k8s.io", "podgroups", "g")]


async def test_a_group_without_bound_members_gives_its_claim_back() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    on_n1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_n1]}]},
        },
        "reservedFor": [
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
        ],
    }
    world.claim("shared", status=status)
    world.cordon("n1")
    names = make_gang(world, "g", 2, ["shared"], ["shared"])
    group_claim(world, "g", "shared")
    await world.run_for(30)
    assert world.nodes_of(*names) == ["n2", "n2"]
    assert world.devices_of("shared") == ["n2/d0"]


async def test_members_use_the_claim_that_was_generated_for_their_group() -> None:
    world = await a_cluster(n1=["d0"])
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "uid-g",
        "controller": True,
    }  # fmt: skip
    world.claim("g-c-abcde", metadata={"ownerReferences": [owner]})
    group, members = gang("g", 2, 2, priority=0)
    group.spec.resource_claims.add(name="c", resource_claim_template_name="t")
    world.cluster.create(group)
    for member in members:
        member.spec.scheduler_name = "default-scheduler"
        member.spec.resource_claims.add(name="c", resource_claim_template_name="t")
        member.status.resource_claim_statuses.add(name="c", resource_claim_name="g-c-abcde")
        world.cluster.create(member)
    await world.run_for(10)
    assert world.nodes_of("g-0", "g-1") == ["n1", "n1"]
    assert consumers(world, "g-c-abcde") == [("scheduling.k8s.io", "podgroups", "g")]
