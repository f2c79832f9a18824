"""Claims that grow in namespaces with quotas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import PersistentVolumeClaim, ResourceQuota, Service
from podsched.api.reasons import StatusCode
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rewriting import Rewrite
from podsched.serve.store.protocol import Write, WriteOutcome
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import quota
from support.api_world import World, message_of

CLAIM = "PersistentVolumeClaim"


def claim(name: str, size: str = "1Gi", storage_class: str = "tin") -> PersistentVolumeClaim:
    item = PersistentVolumeClaim()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.storage_class_name = storage_class
    item.spec.resources.requests["storage"] = size
    item.status.phase = "Bound"
    return item


@pytest.fixture
async def core(world: World) -> ServerCore:
    """Two claims of 1Gi each, where 4Gi are permitted."""
    await world.core.creator.create_many([quota(requests_storage="4Gi"), claim("a"), claim("b")])
    await world.core.reflector.wait_until_fresh()
    return world.core


def growing(name: str, size: str) -> v1.PatchRequest:
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    return v1.PatchRequest(kind=CLAIM, name=name, merge_patch=json.dumps(patch).encode())


async def grow(core: ServerCore, name: str, size: str, *, dry_run: bool = False) -> str:
    """Why a claim may not grow; "" if it does."""
    (outcome,) = await core.registry.patch([growing(name, size)], None, dry_run=dry_run)
    return str(outcome) if isinstance(outcome, ApiError) else ""


async def used(core: ServerCore) -> str:
    message = (await core.registry.get("ResourceQuota", "default", "limits")).message
    assert isinstance(message, ResourceQuota)
    return message.status.used["requests.storage"]


async def size_of(core: ServerCore, name: str) -> str:
    message = (await core.registry.get(CLAIM, "default", name)).message
    assert isinstance(message, PersistentVolumeClaim)
    return message.spec.resources.requests["storage"]


async def test_a_claim_that_grows_beyond_a_quota_is_refused_in_kubernetes_words(
    core: ServerCore,
) -> None:
    """What is requested is the difference, as the admission plugin of Kubernetes counts it."""
    assert await grow(core, "a", "4Gi") == (
        'persistentvolumeclaims "a" is forbidden: exceeded quota: limits, requested: '
        "requests.storage=3Gi, used: requests.storage=2Gi, limited: requests.storage=4Gi"
    )
    assert (await size_of(core, "a"), await used(core)) == ("1Gi", "2Gi")


async def test_what_a_claim_asks_for_in_addition_is_charged_with_the_change(
    core: ServerCore,
) -> None:
    """So the next one sees it, before anything has been counted anew."""
    assert await grow(core, "a", "3Gi") == ""
    assert (await size_of(core, "a"), await used(core)) == ("3Gi", "4Gi")
    assert "requested: requests.storage=1Gi" in await grow(core, "b", "2Gi")


async def test_any_number_of_claims_of_a_quota_can_grow_by_one_call(world: World) -> None:
    """All charge the same quota, so each is computed from what the one before it left."""
    names = [f"claim-{number}" for number in range(20)]
    await world.core.creator.create_many([quota(requests_storage="40Gi"), *map(claim, names)])
    await world.core.reflector.wait_until_fresh()
    outcomes = await world.core.registry.patch([growing(name, "2Gi") for name in names], None)
    assert [str(o) for o in outcomes if isinstance(o, ApiError)] == []
    assert await used(world.core) == "40Gi"


async def test_any_number_of_claims_of_a_quota_can_grow_by_calls_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``sched apply`` makes them: each write fails those of all others that wait."""
    names = [f"claim-{number}" for number in range(32)]
    await world.core.creator.create_many([quota(requests_storage="64Gi"), *map(claim, names)])
    await world.core.reflector.wait_until_fresh()
    write_many = MemoryStore.write_many

    async def slowly(store: MemoryStore, writes: Sequence[Write]) -> list[WriteOutcome]:
        await asyncio.sleep(0.001)
        return await write_many(store, writes)

    monkeypatch.setattr(MemoryStore, "write_many", slowly)
    assert set(await asyncio.gather(*(grow(world.core, name, "2Gi") for name in names))) == {""}
    assert await used(world.core) == "64Gi"


async def test_an_update_and_a_rewrite_of_a_claim_are_charged_as_a_patch_is(
    core: ServerCore,
) -> None:
    """Through gRPC and through Kubernetes' REST API."""
    larger = message_of(await core.registry.get(CLAIM, "default", "a"))
    assert isinstance(larger, PersistentVolumeClaim)
    larger.spec.resources.requests["storage"] = "9Gi"
    with pytest.raises(ApiError, match="exceeded quota") as refused:
        await core.registry.update(larger)
    assert refused.value.code is StatusCode.PERMISSION_DENIED
    with pytest.raises(ApiError, match="exceeded quota"):
        await core.rewriter.rewrite(
            Rewrite(KINDS[CLAIM], "default", "a", "update", "", lambda _: larger)
        )


async def test_claims_that_grow_at_once_never_exceed_a_quota_together(
    world: World, core: ServerCore
) -> None:
    """Each server charges in the write itself; who comes too late goes by what is used then."""
    other = await world.another()
    outcomes = await asyncio.gather(grow(core, "a", "3Gi"), grow(other, "b", "3Gi"))
    assert sorted(map(bool, outcomes)) == [False, True]
    assert await used(core) == "4Gi"


async def test_both_claims_of_a_batch_are_charged(core: ServerCore) -> None:
    """They change the same quota, one after the other."""
    batch = [growing("a", "2Gi"), growing("b", "2Gi")]
    outcomes = await core.registry.patch(batch, None)
    assert not [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert await used(core) == "4Gi"


async def test_a_deletion_makes_room_for_growth_at_once(core: ServerCore) -> None:
    """A refusal is decided on quotas counted anew."""
    await core.deleter.delete(v1.DeleteRequest(kind=CLAIM, namespace="default", name="b"))
    assert await grow(core, "a", "4Gi") == ""


async def test_a_dry_run_of_growth_is_refused_as_well_and_charges_nothing(core: ServerCore) -> None:
    """As creates are."""
    assert "exceeded quota" in await grow(core, "a", "9Gi", dry_run=True)
    assert await grow(core, "a", "2Gi", dry_run=True) == ""
    assert await used(core) == "2Gi"


async def test_other_changes_of_a_claim_in_a_full_namespace_are_free(core: ServerCore) -> None:
    """Only what is asked for in addition counts."""
    await grow(core, "a", "3Gi")
    patch = json.dumps({"metadata": {"labels": {"team": "x"}}}).encode()
    (outcome,) = await core.registry.patch(
        [v1.PatchRequest(kind=CLAIM, name="b", merge_patch=patch)], None
    )
    assert not isinstance(outcome, ApiError)


async def test_a_service_that_becomes_a_load_balancer_is_charged(world: World) -> None:
    service = Service()
    service.metadata.name, service.metadata.namespace = "web", "default"
    service.spec.ports.add(port=80)
    await world.core.creator.create_many([quota(services_loadbalancers="0"), service])
    await world.core.reflector.wait_until_fresh()
    patch = json.dumps({"spec": {"type": "LoadBalancer"}}).encode()
    request = v1.PatchRequest(kind="Service", name="web", merge_patch=patch)
    (refused,) = await world.core.registry.patch([request], None)
    assert "exceeded quota: limits, requested: services.loadbalancers=1" in str(refused)
