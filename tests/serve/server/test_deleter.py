"""Deleting objects: at once or in steps, with preconditions, by a selection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podsched.api.objects import LimitRange, Pod
from podsched.api.reasons import StatusCode
from podsched.serve.server.errors import ApiError
from podsched.serve.store.errors import NoSpace
from podsched.serve.store.protocol import Put, Write, WriteOutcome
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import node, pod
from support.api_world import World, message_of, pod_of


def delete(kind: str, name: str, **fields: object) -> v1.DeleteRequest:
    return v1.DeleteRequest(kind=kind, name=name, **fields)  # type: ignore[arg-type]


async def bound_pod(world: World, name: str = "web") -> Pod:
    item = pod(name)
    item.spec.node_name = "node-1"
    return pod_of(await world.core.creator.create(item))


async def test_an_unbound_pod_is_removed_at_once(world: World) -> None:
    """Whatever its grace period."""
    await world.core.creator.create(pod())
    await world.core.deleter.delete(delete("Pod", "web"))
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_full_etcd_still_removes_an_unbound_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes' API marks it first otherwise, which needs space."""
    await world.core.creator.create(pod())
    write_many = MemoryStore.write_many

    async def refuse_puts(store: MemoryStore, writes: Sequence[Write]) -> list[WriteOutcome]:
        puts = any(isinstance(op, Put) for write in writes for op in write.ops)
        return [NoSpace("full")] * len(writes) if puts else await write_many(store, writes)

    monkeypatch.setattr(MemoryStore, "write_many", refuse_puts)
    await world.core.deleter.delete_in_two_steps(delete("Pod", "web"), dry_run=False)
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_bound_pod_is_marked_and_given_its_grace_period(world: World) -> None:
    """deletionTimestamp is when it ends; it stays until deleted with grace 0."""
    await bound_pod(world)
    marked = pod_of(await world.core.deleter.delete(delete("Pod", "web")))
    assert marked.metadata.deletion_timestamp.seconds == int(world.now) + 30
    assert marked.metadata.deletion_grace_period_seconds == 30
    await world.core.registry.get("Pod", "", "web")
    await world.core.deleter.delete(delete("Pod", "web", grace_period_seconds=0))
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_second_deletion_may_shorten_and_not_lengthen(world: World) -> None:
    """5 s shorten 30 s; 60 s do not lengthen 5 s."""
    await bound_pod(world)
    deleter = world.core.deleter
    await deleter.delete(delete("Pod", "web"))
    world.now += 2
    shorter = pod_of(await deleter.delete(delete("Pod", "web", grace_period_seconds=5)))
    assert shorter.metadata.deletion_timestamp.seconds == int(world.now) - 2 + 5
    same = pod_of(await deleter.delete(delete("Pod", "web", grace_period_seconds=60)))
    assert same == shorter


async def test_finalizers_hold_an_object_until_the_last_is_gone(world: World) -> None:
    """Marked by the deletion, removed by the update that takes the last finalizer."""
    item = node()
    item.metadata.finalizers.append("example.com/hold")
    await world.core.creator.create(item)
    marked = message_of(await world.core.deleter.delete(delete("Node", "node-1")))
    assert marked.metadata.HasField("deletion_timestamp")
    del marked.metadata.finalizers[:]
    await world.core.registry.update(marked)
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Node", "", "node-1")


async def test_a_deletion_of_another_incarnation_is_refused(world: World) -> None:
    """uid and resourceVersion are preconditions."""
    await world.core.creator.create(pod())
    for wanted in (v1.Preconditions(uid="other"), v1.Preconditions(resource_version=1)):
        with pytest.raises(ApiError, match="Precondition failed") as refused:
            await world.core.deleter.delete(delete("Pod", "web", preconditions=wanted))
        assert refused.value.code is StatusCode.ABORTED


async def test_a_collection_is_deleted_by_selector(world: World) -> None:
    """What does not match stays."""
    await world.core.creator.create_many([pod("a", app="x"), pod("b", app="x"), pod("c")])
    request = v1.DeleteCollectionRequest(kind="Pod", label_selector="app=x")
    assert await world.core.deleter.delete_collection(request) == 2
    await world.core.registry.get("Pod", "", "c")


async def test_limit_ranges_that_were_deleted_together_count_no_more(world: World) -> None:
    limits = LimitRange(metadata={"name": "limits"}, spec={"limits": [{"type": "Container"}]})
    limits.spec.limits[0].min["memory"] = "1Gi"
    await world.core.creator.create(limits)
    await world.core.deleter.delete_collection(v1.DeleteCollectionRequest(kind="LimitRange"))
    item = pod()
    item.spec.containers[0].resources.requests["memory"] = "1Mi"
    assert await world.core.creator.create(item)


async def test_preconditions_hold_for_a_namespace_that_terminates(world: World) -> None:
    request = delete("Namespace", "shop")
    await world.core.creator.create(pod(namespace="shop"))
    await world.core.deleter.delete_in_two_steps(request, dry_run=False)
    request.preconditions.uid = "of the one before"
    with pytest.raises(ApiError, match="UID"):
        await world.core.deleter.delete_in_two_steps(request, dry_run=False)
