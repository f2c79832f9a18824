"""Allocations that schedulers write: a device is never given to two claims, on both stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from podsched.api.device_claims import ADMIN_ACCESS
from podsched.api.etcd_keys import DEVICES, ROOT, device_key, object_key, term_key
from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.etcd import EtcdOptions, connect
from podsched.serve.store.protocol import Delete, Put, Store, Write
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import DeleteRequest, Fence, PatchRequest
from support.api_objects import LOCK

OTHER = "kube-system/batch"
_CLAIM = KINDS["ResourceClaim"]
SHARE = {"shareID": "f8b8a5b4-5a3e-4b5c-8f4e-1d2c3b4a5968"}


class World:
    """API servers on one store, and leaders of two schedulers."""

    def __init__(self, store: Store, cores: list[ServerCore], first: Fence, second: Fence) -> None:
        self.store = store
        self.core, self.another = cores
        self.first, self.second = first, second

    async def claim(self, name: str) -> None:
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        }
        await self.core.creator.create(from_manifest(document).message)

    async def allocate(
        self,
        name: str,
        *devices: str,
        by: Fence | None = None,
        core: ServerCore | None = None,
        **more: Any,
    ) -> str:
        """Write an allocation; return "" or the message of the refusal."""
        results = [
            {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device, **more}
            for pool, _, device in (of.rpartition("/") for of in devices)
        ]
        allocation = {"devices": {"results": results}} if devices else None
        return await self.patch(name, {"status": {"allocation": allocation}}, by, core)

    async def patch(
        self, name: str, body: Any, by: Fence | None, core: ServerCore | None = None
    ) -> str:
        request = PatchRequest(
            kind="ResourceClaim",
            namespace="default",
            name=name,
            merge_patch=json.dumps(body).encode(),
        )
        (outcome,) = await (core or self.core).registry.patch([request], by)
        if isinstance(outcome, ApiError):
            assert outcome.reason == "CONFLICT", outcome
            return outcome.message
        return ""

    async def delete(self, name: str) -> None:
        request = DeleteRequest(kind="ResourceClaim", namespace="default", name=name)
        await self.core.deleter.delete(request)

    async def owners(self) -> dict[str, str]:
        """The claims that the keys of devices name, by pool and device."""
        found = await self.store.range(DEVICES)
        prefix = f"{DEVICES}gpu.example.com/"
        return {kv.key.removeprefix(prefix): kv.value.decode() for kv in found.kvs}

    async def has(self, name: str) -> list[str]:
        """The devices of a claim as it is stored."""
        entry = await self.core.registry.get("ResourceClaim", "default", name)
        results = entry.decode().status.allocation.devices.results  # type: ignore[union-attr]
        return [f"{of.pool}/{of.device}" for of in results]


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[ServerCore]:
    core = ServerCore(ServerSettings(bookmark_seconds=0.05), store)
    await core.start()
    try:
        yield core
    finally:
        await core.stop()


@asynccontextmanager
async def storing(endpoint: str | None) -> AsyncIterator[tuple[Store, Store]]:
    """Two connections to one store, in which nothing is left; None: to one in memory."""
    if endpoint is None:
        memory = MemoryStore()
        yield memory, memory.session()
        await memory.close()
        return
    stores = [await connect(EtcdOptions((endpoint,))) for _ in range(2)]
    yield stores[0], stores[1]
    kvs = (await stores[0].range(ROOT)).kvs
    await stores[0].write_many([Write((), (Delete(kv.key),)) for kv in kvs])
    for store in stores:
        await store.close()


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.integration)])
def endpoint(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("etcd_endpoint") if request.param == "etcd" else None


@pytest.fixture
async def world(endpoint: str | None) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(storing(endpoint))
        terms = [await stores[0].txn([], [Put(term_key(lock), b"me")]) for lock in (LOCK, OTHER)]
        first, second = (
            Fence(lock=lock, term=term.revision)
            for lock, term in zip((LOCK, OTHER), terms, strict=True)
        )
        cores = [await stack.enter_async_context(serving(store)) for store in stores]
        world = World(stores[0], cores, first, second)
        for name in "abc":
            await world.claim(name)
        yield world


async def test_of_two_schedulers_that_choose_the_same_device_one_gets_it(world: World) -> None:
    """The other is told which claim has it, and gets it when that gives it back."""
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    refused = await world.allocate("b", "n1/gpu-0", "n1/gpu-1", by=world.second)
    assert refused == (
        'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "b": device '
        'gpu.example.com/n1/gpu-0 is allocated to the claim "default/a"'
    )
    assert await world.has("b") == []
    assert await world.owners() == {"n1/gpu-0": "default/a"}
    assert await world.allocate("a", by=world.first) == ""
    assert await world.allocate("b", "n1/gpu-0", "n1/gpu-1", by=world.second) == ""
    assert await world.owners() == {"n1/gpu-0": "default/b", "n1/gpu-1": "default/b"}


async def test_a_schedulers_own_late_write_is_refused_too(world: World) -> None:
    """It has given the device to another claim since, through another server."""
    assert await world.allocate("b", "n1/gpu-0", by=world.first, core=world.another) == ""
    assert "default/b" in await world.allocate("a", "n1/gpu-0", by=world.first)


async def test_many_writes_at_once_give_each_device_once(world: World) -> None:
    names = [f"many-{number}" for number in range(24)]
    for name in names:
        await world.claim(name)
    devices = [f"n{number % 2}/gpu-{number % 3}" for number in range(24)]
    writers = [(world.first, world.core), (world.second, world.another)]
    refused = await asyncio.gather(
        *(
            world.allocate(name, device, by=by, core=core)
            for number, (name, device) in enumerate(zip(names, devices, strict=True))
            for by, core in [writers[number // 6 % 2]]
        )
    )
    assert refused.count("") == 6
    given = [device for name in names for device in await world.has(name)]
    assert sorted(given) == sorted(set(devices))
    assert {of.removeprefix("default/") for of in (await world.owners()).values()} == {
        name for name, why in zip(names, refused, strict=True) if not why
    }


async def test_the_keys_go_with_the_claim(world: World) -> None:
    assert await world.allocate("a", "rack-1/row-2/gpu-0", by=world.first) == ""
    assert await world.owners() == {"rack-1/row-2/gpu-0": "default/a"}
    await world.delete("a")
    assert await world.owners() == {}


async def test_the_keys_stay_until_the_finalizer_is_removed(world: World) -> None:
    finalizers = ["resource.kubernetes.io/delete-protection"]
    assert await world.patch("a", {"metadata": {"finalizers": finalizers}}, world.first) == ""
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    await world.delete("a")
    assert await world.owners() == {"n1/gpu-0": "default/a"}
    assert await world.patch("a", {"metadata": {"finalizers": None}}, None) == ""
    assert await world.owners() == {}


async def test_other_changes_of_an_allocated_claim_leave_its_keys(world: World) -> None:
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    user = {"resource": "pods", "name": "p", "uid": "u"}
    assert await world.patch("a", {"status": {"reservedFor": [user]}}, world.second) == ""
    assert await world.patch("a", {"metadata": {"labels": {"x": "y"}}}, world.first) == ""
    assert await world.owners() == {"n1/gpu-0": "default/a"}


async def test_a_writer_without_a_fence_is_not_refused_but_noticed(world: World) -> None:
    """As in Kubernetes; podsched's schedulers do not take what it has allocated."""
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    assert await world.allocate("b", "n1/gpu-0") == ""
    assert await world.owners() == {"n1/gpu-0": "default/b"}
    assert "default/b" in await world.allocate("c", "n1/gpu-0", by=world.first)


async def test_a_replaced_status_is_compared_as_a_patched_one(world: World) -> None:
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    entry = await world.core.registry.get("ResourceClaim", "default", "b")
    claim: Any = entry.decode()
    claim.status.allocation.devices.results.add(
        request="r", driver="gpu.example.com", pool="n1", device="gpu-0"
    )
    with pytest.raises(ApiError, match="is allocated to the claim"):
        await world.core.registry.update(claim, world.second, status=True)
    await world.core.registry.update(claim, status=True)
    assert await world.owners() == {"n1/gpu-0": "default/b"}


async def test_shares_and_administrators_have_no_keys(world: World) -> None:
    label = PatchRequest(
        kind="Namespace",
        name="default",
        merge_patch=json.dumps({"metadata": {"labels": {ADMIN_ACCESS: "true"}}}).encode(),
    )
    assert not isinstance((await world.core.registry.patch([label], None))[0], ApiError)
    assert await world.allocate("a", "n1/gpu-0", by=world.first, **SHARE) == ""
    assert await world.allocate("b", "n1/gpu-0", by=world.second, adminAccess=True) == ""
    assert await world.owners() == {}
    assert await world.has("a") == await world.has("b") == ["n1/gpu-0"]


@pytest.mark.parametrize("owner", ["default/b", "default/gone", "default/a"])
async def test_a_key_that_is_left_of_a_claim_without_the_device_is_replaced(
    world: World, owner: str
) -> None:
    key = device_key("gpu.example.com", "n1", "gpu-0")
    await world.store.write(Write((), (Put(key, owner.encode()),)))
    await world.core.reflector.wait_until_fresh()
    assert await world.allocate("a", "n1/gpu-0", by=world.first) == ""
    assert await world.owners() == {"n1/gpu-0": "default/a"}


async def test_a_key_is_not_taken_from_a_claim_that_gets_the_device_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = device_key("gpu.example.com", "n1", "gpu-0")
    await world.store.write(Write((), (Put(key, b"default/b"),)))
    await world.core.reflector.wait_until_fresh()
    write_many, writes = world.store.write_many, 0

    async def overtaken(group: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == 2:  # The first one has found the key.
            assert await world.allocate("b", "n1/gpu-0", core=world.another) == ""
        return await write_many(group)

    monkeypatch.setattr(world.store, "write_many", overtaken)
    assert "default/b" in await world.allocate("a", "n1/gpu-0", by=world.first)
    assert await world.has("a") == []


async def test_a_claim_that_cannot_be_read_can_be_deleted(world: World) -> None:
    key = object_key(_CLAIM, "default/a")
    await world.store.write(Write((), (Put(key, b"\xff"),)))
    await world.core.reflector.wait_until_fresh()
    await world.delete("a")
    assert (await world.store.get(key)).kv is None
