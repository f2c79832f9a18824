"""Namespaces: made on demand or demanded, and how they end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import Namespace
from podsched.api.reasons import StatusCode
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.v1 import api_pb2 as v1
from support.api_objects import event, pod
from support.api_world import World, message_of


def delete(kind: str, name: str, namespace: str = "") -> v1.DeleteRequest:
    return v1.DeleteRequest(kind=kind, name=name, namespace=namespace)


def namespace(name: str) -> Namespace:
    item = Namespace()
    item.metadata.name = name
    return item


async def get(world: World, name: str) -> Namespace:
    found = message_of(await world.core.registry.get("Namespace", "", name))
    assert isinstance(found, Namespace)
    return found


async def test_the_first_object_makes_its_namespace(world: World) -> None:
    outcomes = await world.core.creator.create_many([pod("a", "shop"), pod("b", "shop")])
    assert all(isinstance(outcome, Entry) for outcome in outcomes)
    made = await get(world, "shop")
    assert (made.status.phase, list(made.spec.finalizers)) == ("Active", ["kubernetes"])
    assert made.metadata.labels["kubernetes.io/metadata.name"] == "shop"


async def test_a_refused_object_and_an_event_make_none(world: World) -> None:
    bad = pod("a", "shop")
    bad.spec.containers[0].image = ""
    told = event("late")
    told.metadata.namespace = told.involved_object.namespace = "gone"
    outcomes = await world.core.creator.create_many([bad, told])
    assert [isinstance(outcome, Entry) for outcome in outcomes] == [False, True]
    for name in ("shop", "gone"):
        with pytest.raises(ApiError, match="not found"):
            await get(world, name)


async def test_a_dry_run_makes_none(world: World) -> None:
    await world.core.creator.create(pod("a", "shop"), dry_run=True)
    with pytest.raises(ApiError, match="not found"):
        await get(world, "shop")


async def test_servers_that_make_one_at_a_time_agree(world: World) -> None:
    other = await world.another()
    await other.creator.create(pod("a", "shop"))
    await world.core.creator.create(pod("b", "shop"))
    for key in ("a", "b"):
        await world.core.registry.get("Pod", "shop", key)


@pytest.fixture
async def demanding(world: World) -> AsyncIterator[World]:
    world.core = await world.another(ServerSettings(require_namespaces=True))
    yield world


async def test_a_namespace_can_be_demanded(demanding: World) -> None:
    with pytest.raises(ApiError) as refused:
        await demanding.core.creator.create(pod("a", "shop"))
    assert refused.value.code is StatusCode.NOT_FOUND
    assert refused.value.message == 'namespaces "shop" not found'
    with pytest.raises(ApiError, match="not found"):
        await demanding.core.creator.create(pod("a", "shop"), dry_run=True)
    await demanding.others[0].creator.create(namespace("shop"))
    await demanding.core.creator.create(pod("a", "shop"))
    await demanding.core.creator.create(pod("b"))


async def test_a_batch_may_bring_its_namespace(demanding: World) -> None:
    item = namespace("shop")
    item.metadata.labels["team"] = "a"
    outcomes = await demanding.core.creator.create_many([item, pod("a", "shop")])
    assert all(isinstance(outcome, Entry) for outcome in outcomes)
    assert (await get(demanding, "shop")).metadata.labels["team"] == "a"


async def test_a_deleted_namespace_terminates_and_takes_nothing_new(world: World) -> None:
    await world.core.creator.create(pod("a", "shop"))
    marked = message_of(await world.core.deleter.delete(delete("Namespace", "shop")))
    assert isinstance(marked, Namespace)
    assert marked.metadata.HasField("deletion_timestamp")
    assert marked.status.phase == "Terminating"
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(pod("b", "shop"))
    assert refused.value.code is StatusCode.PERMISSION_DENIED
    assert refused.value.message == (
        'pods "b" is forbidden: unable to create new content in namespace shop '
        "because it is being terminated"
    )
    updated = message_of(await world.core.registry.get("Pod", "shop", "a"))
    updated.metadata.labels["still"] = "changeable"
    await world.core.registry.update(updated)


async def test_one_that_terminates_takes_nothing_that_comes_with_it_either(world: World) -> None:
    await world.core.creator.create(pod("a", "shop"))
    await world.core.deleter.delete(delete("Namespace", "shop"))
    outcomes = await world.core.creator.create_many([namespace("shop"), pod("b", "shop")])
    assert [o.code for o in outcomes if isinstance(o, ApiError)] == [
        StatusCode.ALREADY_EXISTS,
        StatusCode.PERMISSION_DENIED,
    ]


async def test_it_goes_when_it_is_deleted_again_without_content(world: World) -> None:
    await world.core.creator.create(pod("a", "shop"))
    for _ in range(2):
        await world.core.deleter.delete(delete("Namespace", "shop"))
    assert (await get(world, "shop")).status.phase == "Terminating"
    await world.core.deleter.delete(delete("Pod", "a", "shop"))
    await world.core.deleter.delete(delete("Namespace", "shop"))
    with pytest.raises(ApiError, match="not found"):
        await get(world, "shop")
    await world.core.creator.create(pod("a", "shop"))
    assert (await get(world, "shop")).status.phase == "Active"


async def test_an_update_that_takes_its_finalizers_does_not_end_it(world: World) -> None:
    """Only its being empty does, and then the last finalizer of somebody else."""
    item = namespace("shop")
    item.metadata.finalizers.append("example.com/hold")
    await world.core.creator.create_many([item, pod("a", "shop")])
    await world.core.deleter.delete(delete("Namespace", "shop"))
    changed = await get(world, "shop")
    del changed.spec.finalizers[:]
    await world.core.registry.update(changed)
    assert list((await get(world, "shop")).spec.finalizers) == ["kubernetes"]
    await world.core.deleter.delete(delete("Pod", "a", "shop"))
    await world.core.deleter.delete(delete("Namespace", "shop"))
    waiting = await get(world, "shop")
    assert not waiting.spec.finalizers
    del waiting.metadata.finalizers[:]
    await world.core.registry.update(waiting)
    with pytest.raises(ApiError, match="not found"):
        await get(world, "shop")


async def test_content_that_cannot_be_read_holds_it(world: World) -> None:
    await world.core.creator.create(namespace("shop"))
    await world.store.txn([], [Put(object_key(KINDS["Pod"], "shop/broken"), b"\xff")])
    for _ in range(2):
        await world.core.deleter.delete(delete("Namespace", "shop"))
    assert (await get(world, "shop")).status.phase == "Terminating"


async def test_all_namespaces_at_once_are_marked_one_by_one(world: World) -> None:
    item = namespace("shop")
    item.metadata.labels["team"] = "a"
    await world.core.creator.create_many([item, pod("a", "shop")])
    request = v1.DeleteCollectionRequest(kind="Namespace", label_selector="team=a")
    assert await world.core.deleter.delete_collection(request) == 1
    assert (await get(world, "shop")).status.phase == "Terminating"
