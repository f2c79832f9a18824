"""Creates in namespaces with quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import (
    AnyObject,
    ConfigMap,
    Lease,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
)
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.quotas.recount import QUOTA
from podsched.serve.store.errors import Unavailable
from podsched.serve.store.protocol import Put, Write, WriteOutcome
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod, quota
from support.api_world import World


async def used(world: World, name: str = "limits") -> dict[str, str]:
    entry = await world.core.registry.get("ResourceQuota", "default", name)
    message = entry.message
    assert isinstance(message, ResourceQuota)
    return dict(message.status.used)


async def create(core: ServerCore, *items: AnyObject) -> list[str]:
    """What became of each: "" if it was created."""
    return [
        str(outcome) if isinstance(outcome, ApiError) else ""
        for outcome in await core.creator.create_many(items)
    ]


async def seen(*cores: ServerCore) -> None:
    for core in cores:
        await core.reflector.wait_until_fresh()


def ending(name: str) -> Pod:
    item = pod(name)
    item.spec.active_deadline_seconds = 30
    return item


def config_map(name: str) -> ConfigMap:
    item = ConfigMap()
    item.metadata.name, item.metadata.namespace = name, "default"
    return item


def claim(name: str, storage_class: str, size: str) -> PersistentVolumeClaim:
    item = PersistentVolumeClaim()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.storage_class_name = storage_class
    item.spec.resources.requests["storage"] = size
    return item


def lease(name: str) -> Lease:
    item = Lease()
    item.metadata.name, item.metadata.namespace = name, "default"
    return item


def created(outcomes: Sequence[str]) -> int:
    return outcomes.count("")


async def test_what_exceeds_a_quota_is_refused_in_kubernetes_words(world: World) -> None:
    """PERMISSION_DENIED, Kubernetes' 403; what fits before it in the batch is created."""
    await create(world.core, quota(pods="2"))
    await seen(world.core)
    assert await create(world.core, *[pod(f"web-{i}") for i in range(3)]) == [
        "",
        "",
        'pods "web-2" is forbidden: exceeded quota: limits, requested: pods=1, used: pods=2, '
        "limited: pods=2",
    ]
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(pod("late"))
    assert refused.value.code is StatusCode.PERMISSION_DENIED
    assert refused.value.reason is StatusReason.FORBIDDEN
    assert await used(world) == {"pods": "2"}


async def test_a_quota_counts_what_was_there_before_it(world: World) -> None:
    """The first create after it has it counted."""
    await create(world.core, pod("old"), quota(pods="2"))
    await seen(world.core)
    assert created(await create(world.core, pod("new"), pod("more"))) == 1
    assert await used(world) == {"pods": "2"}


async def test_a_deletion_makes_room_at_once(world: World) -> None:
    """A create that comes after it finds the room."""
    await create(world.core, quota(pods="1"))
    await seen(world.core)
    await create(world.core, pod("web"))
    await world.core.deleter.delete(
        v1.DeleteRequest(kind="Pod", name="web", grace_period_seconds=0)
    )
    assert await create(world.core, pod("next")) == [""]
    assert await used(world) == {"pods": "1"}


async def test_several_servers_together_never_exceed_a_quota(world: World) -> None:
    """Each takes 60 pods at the same time, of which 50 fit, and the quota says so."""
    cores = [world.core, await world.another(), await world.another()]
    await create(world.core, quota(pods="50", requests_cpu="100"))
    await seen(*cores)
    outcomes = await asyncio.gather(
        *(
            create(core, *[pod(f"web-{number}-{i}-{j}") for j in range(6)])
            for i in range(10)
            for number, core in enumerate(cores)
        )
    )
    assert sum(map(created, outcomes)) == 50
    await seen(world.core)
    pods = [e for e in world.core.cache.objects(KINDS["Pod"]).values() if "web" in e.key]
    assert len(pods) == 50
    assert await used(world) == {"pods": "50", "requests.cpu": "5"}


async def test_every_quota_of_a_namespace_must_permit_it(world: World) -> None:
    """The strictest one counts; a refused object is charged to none."""
    await create(world.core, quota("many", pods="9"), quota("few", pods="1"))
    await seen(world.core)
    outcomes = await create(world.core, pod("a"), pod("b"))
    assert "exceeded quota: few" in outcomes[1]
    assert await used(world, "many") == {"pods": "1"}


async def test_other_kinds_and_other_namespaces_are_charged_as_well(world: World) -> None:
    """By namespace and by kind."""
    await create(world.core, quota(configmaps="1"), quota(namespace="other", pods="1"))
    await seen(world.core)
    maps = [ConfigMap(), ConfigMap()]
    for number, item in enumerate(maps):
        item.metadata.name, item.metadata.namespace = f"map-{number}", "default"
    outcomes = await create(
        world.core, *maps, pod("a"), pod("b", "other"), pod("c", "other"), pod("d", "third")
    )
    assert [bool(outcome) for outcome in outcomes] == [False, True, False, False, True, False]


async def test_a_name_that_is_taken_is_told_and_not_charged(world: World) -> None:
    """Also a name that is twice in one batch."""
    await create(world.core, quota(pods="9"))
    await seen(world.core)
    await create(world.core, pod("web"))
    outcomes = await create(world.core, pod("web"), pod("new"), pod("new"))
    assert [bool(outcome) for outcome in outcomes] == [True, False, True]
    assert 'pods "new" already exists' in outcomes[2]
    assert await used(world) == {"pods": "2"}


async def test_a_pod_must_name_what_a_quota_limits(world: World) -> None:
    """Failed, not exceeded."""
    await create(world.core, quota(limits_memory="1Gi"))
    await seen(world.core)
    (outcome,) = await create(world.core, pod())
    assert outcome == (
        'pods "web" is forbidden: failed quota: limits: must specify limits.memory for: app'
    )


async def test_a_dry_run_is_refused_as_well_and_charges_nothing(world: World) -> None:
    """It tells what would happen."""
    await create(world.core, quota(pods="1"))
    await seen(world.core)
    await world.core.creator.create(pod("a"), dry_run=True)
    assert await create(world.core, pod("b")) == [""]
    with pytest.raises(ApiError, match="exceeded quota"):
        await world.core.creator.create(pod("c"), dry_run=True)


async def test_a_generated_name_is_charged_once(world: World) -> None:
    """Each of three gets a name of its own."""
    await create(world.core, quota(pods="9"))
    await seen(world.core)
    items = [pod("") for _ in range(3)]
    for item in items:
        item.metadata.generate_name = "web-"
    assert created(await create(world.core, *items)) == 3
    assert await used(world) == {"pods": "3"}


async def test_a_quota_that_was_planted_unusable_refuses_and_says_so(world: World) -> None:
    """No INTERNAL; other namespaces go on."""
    planted = quota(pods="much")
    key = object_key(QUOTA, "default/limits")
    await world.store.write(Write((), (Put(key, planted.SerializeToString()),)))
    await seen(world.core)
    refused, other = await create(world.core, pod(), pod(namespace="other"))
    assert "quota limits cannot be used" in refused
    assert other == ""


async def test_a_store_that_does_not_answer_is_an_error_of_the_create(world: World) -> None:
    """And the next one goes on."""
    await create(world.core, quota(pods="1"))
    await seen(world.core)
    world.store.fault = Unavailable("gone")
    (outcome,) = await create(world.core, pod())
    assert "gone" in outcome
    world.store.fault = None
    assert await create(world.core, pod()) == [""]


async def test_a_cancelled_call_does_not_end_the_creates_of_others(world: World) -> None:
    """They share a transaction, not a fate."""
    await create(world.core, quota(pods="9"))
    await seen(world.core)
    first = asyncio.create_task(create(world.core, pod("a")))
    second = asyncio.create_task(create(world.core, pod("b")))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [""]


async def test_a_quota_with_scopes_counts_only_the_pods_in_them(world: World) -> None:
    """Those that were there, those that come, and no other objects."""
    scoped = quota(pods="2")
    scoped.spec.scopes.append("Terminating")
    await create(world.core, ending("old"), pod("other"), scoped)
    await seen(world.core)
    assert created(await create(world.core, pod("a"), pod("b"), config_map("c"))) == 3
    assert await create(world.core, ending("x"), ending("y")) == [
        "",
        'pods "y" is forbidden: exceeded quota: limits, requested: pods=1, used: pods=2, '
        "limited: pods=2",
    ]
    assert await used(world) == {"pods": "2"}


async def test_only_pods_in_the_scopes_must_name_what_is_limited(world: World) -> None:
    """As Kubernetes asks of those alone that the quota matches."""
    scoped = quota(limits_cpu="2")
    scoped.spec.scopes.append("Terminating")
    await create(world.core, scoped)
    await seen(world.core)
    outcomes = await create(world.core, pod("a"), ending("b"))
    assert outcomes[0] == ""
    assert "failed quota: limits: must specify limits.cpu for: app" in outcomes[1]


async def test_claims_are_charged_for_their_storage_also_by_class(world: World) -> None:
    """What exceeds one of several limits is told with that limit alone."""
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    limits = quota(requests_storage="10Gi")
    limits.spec.hard[gold] = "2Gi"
    await create(world.core, limits)
    await seen(world.core)
    outcomes = await create(
        world.core, claim("a", "gold", "1Gi"), claim("b", "gold", "2Gi"), claim("c", "tin", "5Gi")
    )
    assert outcomes[0] == outcomes[2] == ""
    assert f"requested: {gold}=2Gi, used: {gold}=1Gi, limited: {gold}=2Gi" in outcomes[1]
    assert await used(world) == {"requests.storage": "6Gi", gold: "1Gi"}


async def test_a_transaction_keeps_to_the_operations_that_etcd_permits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Lease has two conditions; a group leaves 127 for the widest of its writes."""
    write_many, widths = MemoryStore.write_many, [0]

    async def measured(store: MemoryStore, writes: Sequence[Write]) -> list[WriteOutcome]:
        widths.extend(max(len(write.compares), len(write.ops)) for write in writes)
        return await write_many(store, writes)

    await world.core.creator.create(quota(pods="4"))
    await seen(world.core)
    monkeypatch.setattr(MemoryStore, "write_many", measured)
    outcomes = await create(world.core, *(lease(f"lease-{number}") for number in range(100)))
    assert created(outcomes) == 100
    assert max(widths) <= 127


async def test_a_namespace_without_quota_takes_the_ordinary_way(world: World) -> None:
    """Its objects share no transaction with a quota."""
    await create(world.core, quota(namespace="other", pods="1"))
    await seen(world.core)
    outcomes = await world.core.creator.create_many([pod("a"), pod("b")])
    assert all(isinstance(outcome, Entry) for outcome in outcomes)


async def test_a_quota_that_limits_quotas_is_not_made_twice(world: World) -> None:
    """The transaction would write it as a new object and as the one that is charged."""
    assert await create(world.core, quota(resourcequotas="9")) == [""]
    await seen(world.core)
    assert await create(world.core, quota(resourcequotas="9"), quota("more", pods="1")) == [
        'resourcequotas "limits" already exists',
        "",
    ]
