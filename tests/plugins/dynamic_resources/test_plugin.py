"""DynamicResources in a term of leadership: pods get the devices of their claims, each once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched import registry
from podsched.api import device_selectors
from podsched.api.reasons import StatusCode
from podsched.framework.plugin import PreBindPlan
from podsched.framework.status import SUCCESS, error
from podsched.plugins.dynamic_resources import claim_binding, reservation
from podsched.serve.client.errors import Unavailable
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1
from support.device_cluster import Cluster, a_cluster
from support.examples import examples

pytestmark = pytest.mark.looptime

ON_NODE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


async def test_a_pod_gets_a_device_on_its_node() -> None:
    world = await a_cluster(n1=["d0"])
    world.node("n0", cpu="16")
    world.claim("c")
    world.user("p", "c")
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    claim = world.stored_claim("c")
    assert world.devices_of("c") == ["n1/d0"]
    assert world.users_of("c") == ["p"]
    assert list(claim.metadata.finalizers) == ["resource.kubernetes.io/delete-protection"]
    assert claim.status.allocation.HasField("allocation_timestamp")
    assert "n1" in str(claim.status.allocation.node_selector)
    world.check()


async def test_the_claims_of_a_pod_with_many_are_written_in_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_binding, "_CLAIMS_PER_PAUSE", 2)
    world = await a_cluster(n1=["d0", "d1", "d2", "d3", "d4"])
    names = [f"c{number}" for number in range(5)]
    for name in names:
        world.claim(name)
    world.user("p", *names)
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    assert [world.devices_of(name) for name in names] == [[f"n1/d{n}"] for n in range(5)]
    assert all(world.users_of(name) == ["p"] for name in names)
    world.check()


async def test_a_claim_that_requests_nothing_is_allocated_beside_another() -> None:
    world = await a_cluster(n1=["d0"])
    world.make("ResourceClaim", "nothing", {"devices": {}})
    world.claim("c")
    world.user("p", "nothing", "c")
    await world.run_for(5)
    assert world.nodes_of("p") == ["n1"]
    assert world.devices_of("c") == ["n1/d0"]
    assert world.users_of("nothing") == ["p"]


async def test_no_device_is_given_twice() -> None:
    world = await a_cluster(n1=["d0", "d1"], n2=["d0"])
    for number in range(5):
        world.claim(f"c{number}")
        world.user(f"p{number}", f"c{number}")
    await world.run_for(5)
    given = [device for number in range(5) for device in world.devices_of(f"c{number}")]
    assert sorted(given) == ["n1/d0", "n1/d1", "n2/d0"]
    waiting = [f"p{number}" for number in range(5) if not world.nodes_of(f"p{number}")[0]]
    assert len(waiting) == 2
    for name in waiting:
        assert "cannot allocate all claims" in world.scheduled(name).message
        assert world.scheduled(name).reason == "Unschedulable"
    world.check()


async def test_a_device_that_is_given_back_goes_to_a_waiting_pod() -> None:
    world = await a_cluster(n1=["d0"])
    for name in "ab":
        world.claim(name)
    world.user("pa", "a")
    async with world.running(seconds=1):
        world.user("pb", "b")
        await asyncio.sleep(1)
        assert world.nodes_of("pa", "pb") == ["n1", ""]
        claim = world.stored_claim("a")
        claim.ClearField("status")
        world.cluster.update(claim)
        await asyncio.sleep(15)
    assert world.nodes_of("pb") == ["n1"]
    assert world.devices_of("b") == ["n1/d0"]


async def test_a_claim_that_is_deleted_before_its_allocation_is_written_frees_its_device() -> None:
    world = await a_cluster(n1=["d0"])
    for name in "ab":
        world.claim(name)
    patch_many = world.cluster.patch_many

    async def slow(patches: Any, *, fence: Any) -> Any:
        if patches[0].name == "a":
            await asyncio.sleep(2)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = slow  # type: ignore[method-assign]
    world.user("pa", "a")
    async with world.running(seconds=0.5):
        world.user("pb", "b")
        await asyncio.sleep(0.5)
        assert world.nodes_of("pa", "pb") == ["", ""]
        world.cluster.delete("ResourceClaim", "default/a")
        await asyncio.sleep(20)
    assert world.nodes_of("pa", "pb") == ["", "n1"]


async def test_pods_share_a_claim_on_its_node() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"], n3=["d0"])
    world.claim("c")
    async with world.running():
        world.user("first", "c")
        await asyncio.sleep(1)
        for number in range(8):
            world.user(f"p{number}", "c")
        await asyncio.sleep(20)
    names = [f"p{number}" for number in range(8)]
    assert set(world.nodes_of(*names)) == set(world.nodes_of("first")) != {""}
    assert sorted(world.users_of("c")) == ["first", *names]
    assert len(world.devices_of("c")) == 1
    world.check()


async def test_pods_that_share_a_new_claim_are_bound_one_after_the_other() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    world.claim("c")
    for number in range(4):
        world.user(f"p{number}", "c")
    async with world.running(seconds=0.1):
        texts = [text for n in range(4) for text in world.events(f"p{n}", "FailedScheduling")]
        assert any("claim default/c is in the process of being allocated" in t for t in texts)
        await asyncio.sleep(30)
    nodes = world.nodes_of(*(f"p{number}" for number in range(4)))
    assert len(set(nodes)) == 1 and nodes[0]
    assert len(world.users_of("c")) == 4


async def test_an_allocated_claim_restricts_the_nodes() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [ON_NODE]},
    }
    world.claim("c", status={"allocation": allocation})
    world.claim("other")
    for number in range(3):
        world.user(f"p{number}", "c", cpu="1")
    world.user("q", "other")
    world.user("elsewhere", "c", nodeSelector={"absent": "x"})
    await world.run_for(20)
    assert world.nodes_of("p0", "p1", "p2") == ["n1"] * 3
    assert world.nodes_of("q", "elsewhere") == ["n2", ""]


async def test_a_node_that_is_relabelled_reaches_other_devices() -> None:
    """Also where nothing is remembered but that the claim did not fit there."""
    world = await a_cluster()
    term = {"key": "zone", "operator": "In", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    world.slice("s", "rack", "d0", nodeSelector=selector)
    world.node("n1")
    world.node("n2")
    world.claim("c")
    world.user("p", "c")
    async with world.running(seconds=2):
        assert world.nodes_of("p") == [""]
        node = world.cluster.object("Node", "n2")
        assert isinstance(node, v1.Node)
        node.metadata.labels["zone"] = "a"
        world.cluster.update(node)
        await asyncio.sleep(20)
    assert world.nodes_of("p") == ["n2"]


async def test_a_pod_waits_for_its_claim_without_a_condition() -> None:
    world = await a_cluster(n1=["d0"])
    world.user("p", "c")
    async with world.running(seconds=1):
        assert not world.stored("p").status.conditions
        world.claim("c")
        await asyncio.sleep(5)
    assert world.nodes_of("p") == ["n1"]


async def test_a_generated_claim_must_be_the_pods_own() -> None:
    world = await a_cluster(n1=["d0"])
    refs = [{"name": "t", "resourceClaimTemplateName": "t"}]
    world.pod("p", resourceClaims=refs)
    world.claim("p-t-1")
    async with world.running(seconds=1):
        assert not world.stored("p").status.conditions

        def generated(pod: v1.Pod) -> None:
            pod.status.resource_claim_statuses.add(name="t", resource_claim_name="p-t-1")

        world.change("p", generated)
        await asyncio.sleep(2)
        assert world.nodes_of("p") == [""]
        claim = world.stored_claim("p-t-1")
        owner = claim.metadata.owner_references.add(kind="Pod", name="p")
        owner.uid, owner.controller = world.stored("p").metadata.uid, True
        world.cluster.delete("ResourceClaim", "default/p-t-1")
        claim.metadata.uid = "another"
        world.cluster.create(claim)
        await asyncio.sleep(5)
    assert world.nodes_of("p") == ["n1"]


async def test_a_class_that_does_not_exist_is_named() -> None:
    world = await a_cluster(n1=["d0"])
    world.cluster.delete("DeviceClass", "gpu")
    world.claim("c")
    world.user("p", "c")
    async with world.running(seconds=1):
        message = world.scheduled("p").message
        world.make("DeviceClass", "gpu", {})
        await asyncio.sleep(15)
    assert "request r: device class gpu does not exist" in message
    assert world.nodes_of("p") == ["n1"]


async def test_a_slice_that_goes_may_complete_its_pool() -> None:
    world = await a_cluster(n1=["d0"])
    world.slice("left-over", "n1", "d1", nodeName="n1")
    world.claim("c")
    world.user("p", "c")
    async with world.running(seconds=1):
        assert world.nodes_of("p") == [""]
        world.cluster.delete("ResourceSlice", "left-over")
        await asyncio.sleep(15)
    assert world.nodes_of("p") == ["n1"]


async def test_a_failing_bind_leaves_the_device_with_the_claim() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("a")
    world.claim("b")
    world.user("pa", "a")
    refused = ["pa"]
    bind = world.cluster._bind

    def once(binding: Any) -> Any:
        if binding.name in refused:
            refused.remove(binding.name)
            raise Unavailable("no")
        return bind(binding)

    world.cluster._bind = once  # type: ignore[method-assign]
    async with world.running(seconds=0.5):
        world.user("pb", "b")
        await asyncio.sleep(20)
    assert world.devices_of("a") == ["n1/d0"]
    assert world.devices_of("b") == []
    assert world.nodes_of("pa", "pb") == ["n1", ""]


async def test_a_pod_that_is_not_reserved_gives_the_devices_back() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("a")
    world.claim("b")
    world.script.on_reserve = lambda pod: error("no") if pod.name == "pa" else SUCCESS
    world.user("pa", "a", priority=10)
    world.user("pb", "b")
    await world.run_for(20)
    assert world.devices_of("a") == []
    assert world.nodes_of("pa", "pb") == ["", "n1"]


async def test_a_patch_without_an_answer_keeps_its_devices() -> None:
    """It was written, so the device is the claim's, even before the informer shows it."""
    world = await a_cluster(n1=["d0"])
    world.claim("a")
    world.claim("b")
    patch_many = world.cluster.patch_many
    lost = []

    async def patched(patches: Any, *, fence: Any) -> Any:
        if not lost:
            lost.extend(patches)
            raise Unavailable("no answer")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    world.user("pa", "a", priority=10)
    async with world.running(seconds=0.2):
        assert lost
        world.user("pb", "b")
        await asyncio.sleep(0.3)
        assert world.devices_of("b") == []
        await patch_many(lost, fence=world.fence)  # it arrives late
        await asyncio.sleep(20)
    assert world.devices_of("a") == ["n1/d0"]
    assert world.nodes_of("pa", "pb") == ["n1", ""]


def lose_patches_of(world: Cluster, name: str) -> None:
    """Let patches of a claim have no answer; they are not written."""
    patch_many = world.cluster.patch_many

    async def patched(patches: Any, *, fence: Any) -> Any:
        if patches[0].name == name:
            raise Unavailable("no answer")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]


async def a_cluster_in_doubt(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A device that two claims want; no patch of the first, which a pod uses, is answered."""
    monkeypatch.setattr(registry, "time", SimpleNamespace(time=asyncio.get_running_loop().time))
    world = await a_cluster(n1=["d0"])
    world.claim("a")
    world.claim("b")
    lose_patches_of(world, "a")
    world.user("pa", "a")
    return world


async def test_a_patch_without_an_answer_keeps_its_devices_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often its pod is tried again, if no other patch is sent."""
    world = await a_cluster_in_doubt(monkeypatch)
    async with world.running(seconds=0.2):
        world.script.on_reserve = lambda pod: error("no") if pod.name == "pa" else SUCCESS
        await asyncio.sleep(2 * reservation.DOUBT)
        world.user("pb", "b")
        await asyncio.sleep(5)
    assert world.nodes_of("pa", "pb") == ["", "n1"]


async def test_a_pod_that_lacks_a_device_in_doubt_is_woken_once_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await a_cluster_in_doubt(monkeypatch)
    async with world.running(seconds=0.2):
        world.cluster.delete("Pod", "default/pa")
        world.user("pb", "b")
        await asyncio.sleep(reservation.DOUBT - 5)
        assert world.nodes_of("pb") == [""]
        await asyncio.sleep(20)
    assert world.nodes_of("pb") == ["n1"]


async def test_a_device_that_another_scheduler_got_first_is_replaced() -> None:
    """The API server refuses the write; nothing of it is in doubt, so no device is held back."""
    world = await a_cluster(n1=["d0", "d1", "d2"])
    world.claim("theirs")
    world.claim("mine")
    patch_many = world.cluster.patch_many
    refused = []

    async def patched(patches: Any, *, fence: Any) -> Any:
        if b'"d0"' not in patches[0].merge_patch:
            return await patch_many(patches, fence=fence)
        if not refused:
            world.allocate("theirs", "n1/d0")
        refused.append(patches)
        return [api_pb2.BatchResult(code=StatusCode.ABORTED, message="it is theirs")]

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    world.user("p", "mine")
    async with world.running(seconds=5):
        assert world.nodes_of("p") == ["n1"]
        world.claim("next")
        world.user("q", "next")
        await asyncio.sleep(5)
    assert len(refused) == 1
    assert world.devices_of("theirs") == ["n1/d0"]
    assert sorted(world.devices_of("mine") + world.devices_of("next")) == ["n1/d1", "n1/d2"]
    world.check()


async def test_a_change_of_a_claim_does_not_free_what_is_assumed_for_it() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("a")
    world.claim("b")
    patch_many = world.cluster.patch_many

    async def patched(patches: Any, *, fence: Any) -> Any:
        if patches[0].name == "a" and not world.stored_claim("a").metadata.labels:
            claim = world.stored_claim("a")
            claim.metadata.labels["changed"] = "meanwhile"
            world.cluster.update(claim)
            world.user("pb", "b")
            await asyncio.sleep(0.5)
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    world.user("pa", "a")
    await world.run_for(20)
    assert world.devices_of("b") == []
    assert world.devices_of("a") == ["n1/d0"]
    assert world.nodes_of("pa", "pb") == ["n1", ""]


# ---------------------------------------------------------------------- never twice

pods = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([0.0, 0.0, 0.05, 0.3]),
        st.sampled_from(["fine", "fine", "touched", "refused", "lost", "late", "deleted"]),
    ),
    min_size=2,
    max_size=8,
)


@examples(40)
@given(
    nodes=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    counts=st.lists(st.sampled_from([1, 1, 1, 2]), min_size=8, max_size=8),
    made=pods,
)
def test_no_device_belongs_to_two_claims_whatever_fails(
    nodes: list[int], counts: list[int], made: list[Any]
) -> None:
    """Patches are refused, lost, or arrive late; pods are deleted and claims deallocated."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(_run(nodes, counts, made))


async def _run(nodes: list[int], counts: list[int], made: list[Any]) -> None:
    world = await a_cluster(
        **{f"n{at}": [f"d{n}" for n in range(count)] for at, count in enumerate(nodes)}
    )
    for number, count in enumerate(counts):
        world.claim(f"c{number}", count)
    # The first claim is shared by some pods.
    claims = [
        [number, 0] if shares and number else [number] for number, (shares, _, _) in enumerate(made)
    ]
    patch_many, late = world.cluster.patch_many, []
    fates = {f"p{number}": fate for number, (_, _, fate) in enumerate(made)}

    async def patched(patches: Any, *, fence: Any) -> Any:
        written = b"".join(patch.merge_patch for patch in patches)
        whose = {name for name in fates if f'"name": "{name}"'.encode() in written}
        for name in sorted(whose):
            fate = fates.pop(name, "fine")
            if fate == "deleted":
                world.cluster.delete("Pod", f"default/{name}")
                late.append(patches)
                await asyncio.sleep(0.1)
            if fate == "touched":
                for patch in patches:
                    claim = world.stored_claim(patch.name)
                    claim.metadata.labels["touched"] = name
                    world.cluster.update(claim)
                await asyncio.sleep(0.1)
            if fate in ("refused", "lost"):
                if fate == "lost":
                    await patch_many(patches, fence=fence)
                raise Unavailable("no answer")
            if fate == "late":
                late.append(patches)
                raise Unavailable("no answer")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    async with world.running():
        for number, (_, pause, _) in enumerate(made):
            world.user(f"p{number}", *(f"c{claim}" for claim in claims[number]))
            await asyncio.sleep(pause)
            _check_given_once(world)
        for number in range(8):
            # Each new pod would take what looks free.
            world.claim(f"new{number}")
            world.user(f"new{number}", f"new{number}")
            await asyncio.sleep(0.05 * number)
            _check_given_once(world)
        for patches in late:
            await patch_many(patches, fence=world.fence)
        for _ in range(10):
            await asyncio.sleep(4)
            _check_given_once(world)
    for number, mine in enumerate(claims):
        found = [
            item for item in world.cluster.objects("Pod") if item.metadata.name == f"p{number}"
        ]
        if found and world.nodes_of(f"p{number}") != [""]:
            for claim in mine:
                assert len(world.devices_of(f"c{claim}")) == counts[claim]
                assert f"p{number}" in world.users_of(f"c{claim}")
                where = {device.partition("/")[0] for device in world.devices_of(f"c{claim}")}
                assert where == set(world.nodes_of(f"p{number}"))
    world.check()


def _check_given_once(world: Cluster) -> None:
    given = [
        device
        for item in world.cluster.objects("ResourceClaim")
        for device in world.devices_of(item.metadata.name)
    ]
    assert len(given) == len(set(given)), given


def taint_first_devices(world: Cluster) -> None:
    selector = {"driver": "gpu.example.com", "device": "d0"}
    spec = {"deviceSelector": selector, "taint": {"key": "sick", "effect": "NoSchedule"}}
    world.make("DeviceTaintRule", "rule", spec, apiVersion="resource.k8s.io/v1beta2")


async def test_a_device_taint_rule_keeps_devices_from_pods_while_it_exists() -> None:
    world = await a_cluster(Cluster(gates={"DRADeviceTaintRules": True}), n1=["d0", "d1"])
    taint_first_devices(world)
    for name in "ab":
        world.claim(name)
        world.user(f"p{name}", name)
    async with world.running(seconds=5):
        assert world.devices_of("a") + world.devices_of("b") == ["n1/d1"]
        world.cluster.delete("DeviceTaintRule", "rule")
        await asyncio.sleep(15)
    assert sorted(world.devices_of("a") + world.devices_of("b")) == ["n1/d0", "n1/d1"]


async def test_a_device_taint_rule_does_nothing_while_its_gate_is_off() -> None:
    world = await a_cluster(n1=["d0"])
    taint_first_devices(world)
    world.claim("c")
    world.user("p", "c")
    await world.run_for(5)
    assert world.devices_of("c") == ["n1/d0"]


# ---------------------------------------------------------------------- moving and giving back

ATTACHED = {"bindsToNode": True, "bindingConditions": ["attached"]}
FAILS = {**ATTACHED, "bindingFailureConditions": ["failed"]}


def allocated_on(node: str) -> Any:
    """The status of a claim that has a device of a node."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "d0"}
    return {
        "allocation": {
            "devices": {"results": [result]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
            "nodeSelector": {"nodeSelectorTerms": [ON_NODE]},
        }
    }


def told(world: Cluster, claim_name: str, condition: str) -> None:
    """Let the driver report a condition of the claim's device."""
    claim = world.stored_claim(claim_name)
    [result] = claim.status.allocation.devices.results
    status = claim.status.devices.add(driver=result.driver, pool=result.pool, device=result.device)
    status.conditions.add(type=condition, status="True")
    world.cluster.update(claim)


async def test_a_claim_that_no_pod_uses_is_moved_to_a_node_that_fits() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    world.cordon("n1")
    world.claim("c", status=allocated_on("n1"))
    world.user("p", "c")
    await world.run_for(20)
    assert world.nodes_of("p") == ["n2"]
    assert world.devices_of("c") == ["n2/d0"]
    world.check()


async def test_a_claim_is_not_moved_if_the_pod_could_not_get_its_other_claim_there() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    world.claim("c", status=allocated_on("n1"))
    world.claim("large", count=2)
    world.user("p", "c", "large")
    await world.run_for(20)
    assert world.devices_of("c") == ["n1/d0"]
    assert "2 cannot allocate all claims" in world.scheduled("p").message


async def test_a_claim_that_another_pod_uses_is_not_moved() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    world.cordon("n1")
    user = {"resource": "pods", "name": "other", "uid": "other"}
    world.claim("c", status={**allocated_on("n1"), "reservedFor": [user]})
    world.user("p", "c")
    await world.run_for(20)
    assert world.nodes_of("p") == [""]
    assert world.devices_of("c") == ["n1/d0"]
    assert world.users_of("c") == ["other"]


async def test_a_claim_is_moved_although_the_first_write_fails() -> None:
    world = await a_cluster(n1=["d0"], n2=["d0"])
    world.cordon("n1")
    world.claim("c", status=allocated_on("n1"))
    world.user("p", "c")
    patch_many, failed = world.cluster.patch_many, []

    async def patched(patches: Any, *, fence: Any) -> Any:
        if not failed:
            failed.extend(patches)
            raise Unavailable("no answer")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = patched  # type: ignore[method-assign]
    await world.run_for(20)
    assert failed
    assert world.nodes_of("p") == ["n2"]


async def test_a_device_whose_binding_failed_is_replaced() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    world.slice("net", "net", "d0", allNodes=True, **FAILS)
    world.claim("c")
    world.user("p", "c")
    async with world.running(seconds=1):
        assert world.devices_of("c") == ["net/d0"]
        assert world.events("p", "BindingConditionsPending") == [
            "waiting for binding conditions for device on node n1"
        ]
        world.slice("local", "local", "e0", nodeName="n1")
        told(world, "c", "failed")
        await asyncio.sleep(20)
    assert world.nodes_of("p") == ["n1"]
    assert world.devices_of("c") == ["local/e0"]
    assert world.users_of("c") == ["p"]


async def test_a_device_that_is_not_bound_in_time_is_replaced() -> None:
    world = await a_cluster()
    world.node("n1", cpu="16")
    world.slice("net", "net", "d0", allNodes=True, **ATTACHED)
    world.claim("c")
    world.user("p", "c")
    async with world.running(seconds=300):
        world.slice("local", "local", "e0", nodeName="n1")
        await asyncio.sleep(280)
        assert world.devices_of("c") == ["net/d0"]
        await asyncio.sleep(100)
    assert world.nodes_of("p") == ["n1"]
    assert world.devices_of("c") == ["local/e0"]


async def test_a_device_for_which_an_earlier_leader_has_waited_long_enough_is_moved() -> None:
    world = await a_cluster(n1=[])
    world.slice("net", "net", "d0", allNodes=True, **ATTACHED)
    world.slice("local", "local", "e0", nodeName="n1")
    result = {"request": "r", "driver": "gpu.example.com", "pool": "net", "device": "d0"}
    devices = {"results": [result | {"bindingConditions": ["attached"]}]}
    long_ago = {"devices": devices, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    world.claim("c", status={"allocation": long_ago})
    world.user("p", "c")
    await world.run_for(30)
    assert world.nodes_of("p") == ["n1"]
    assert world.devices_of("c") == ["local/e0"]


async def test_a_pod_that_is_not_bound_gives_its_reservation_back() -> None:
    world = await a_cluster(n1=["d0"])
    world.claim("c")
    world.user("p", "c")

    world.script.on_pre_bind = lambda pod: PreBindPlan(error("no"))
    await world.run_for(0.5)
    assert world.nodes_of("p") == [""]
    assert world.users_of("c") == []
    assert world.devices_of("c") == ["n1/d0"]


def costly_expression() -> str:
    """A selector that takes a tenth of a second."""
    expression = "true"
    for name in "abcdefghijklmn":
        expression = f"[1, 2].all({name}, {expression})"
    return expression


async def test_a_selector_that_takes_long_is_evaluated_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop goes on meanwhile."""
    threads: set[str] = set()
    matches = device_selectors.Selector.matches

    def recording(self: Any, device: Any, *limit: int) -> bool:
        if "[1, 2]" in self.expression:
            threads.add(threading.current_thread().name)
        return matches(self, device, *limit)

    monkeypatch.setattr(device_selectors.Selector, "matches", recording)
    world = await a_cluster(n1=["d0"], n2=["d0"])
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": costly_expression()}}],
    }
    requests = [{"name": "r", "exactly": exactly}]
    world.make("ResourceClaim", "c", {"devices": {"requests": requests}})
    world.user("p", "c")
    await world.run_for(30)
    assert world.nodes_of("p") != [""]
    assert threads
    assert threading.main_thread().name not in threads
    world.check()


async def test_a_pod_whose_selectors_take_long_leaves_time_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attempt ends after a second of evaluations, and the next one goes on from there."""

    async def take_long(job: Callable[[], object]) -> object:
        await asyncio.sleep(0.4)
        return job()

    world = await a_cluster()
    for number in range(10):
        attributes = {"n": {"int": number}}
        world.gpus(f"n{number}", "d0", attributes=attributes)
    selectors = [{"cel": {"expression": costly_expression()}}]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "r", "exactly": exactly | {"selectors": selectors}}]
    world.make("ResourceClaim", "c", {"devices": {"requests": requests}})
    monkeypatch.setattr(asyncio, "to_thread", take_long)
    world.user("p", "c")
    async with world.running(seconds=0.5):
        world.pod("other")
        await asyncio.sleep(1.5)
        assert world.nodes_of("p", "other") == ["", world.nodes_of("other")[0]]
        assert world.nodes_of("other") != [""]
        assert "timed out trying to allocate devices" in world.scheduled("p").message
        await asyncio.sleep(60)
    assert world.nodes_of("p") != [""]
    world.check()
