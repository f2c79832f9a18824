"""What cannot be read in etcd, as other programs may have put it, harms no other object."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.v1 import api_pb2 as v1
from podsched.v1.objects_pb2 import Pod
from support.api_objects import pod
from support.api_world import World
from support.eventually import eventually

POD = KINDS["Pod"]


def nested(name: str) -> bytes:
    """Return a pod that is nested deeper than protobuf decodes."""
    item = pod(name)
    inner = item.metadata.managed_fields.add()
    for _ in range(60):
        inner = inner.fields["f"].struct_value
    return item.SerializeToString()


POISON = [
    pytest.param(b"\xff\xff\xff", id="no message"),
    pytest.param(nested("bad"), id="nested too deeply"),
    pytest.param(b"\x0a\x03\x0a\x01\xff", id="no UTF-8"),
    pytest.param(b"", id="nothing"),
    pytest.param(pod("web").SerializeToString(), id="another object"),
]


async def put(world: World, value: bytes, name: str = "bad") -> None:
    await world.store.txn([], [Put(object_key(POD, f"default/{name}"), value)])


async def refusal(world: World, name: str = "bad") -> ApiError:
    with pytest.raises(ApiError) as refused:
        await world.core.registry.get("Pod", "default", name)
    return refused.value


async def listed(core: ServerCore, **request: str) -> list[str]:
    raw = await (await core.lister.page(v1.ListRequest(kind="Pod", **request))).encoded()
    return [item.pod.metadata.name for item in v1.ListResponse.FromString(raw).items]


@pytest.mark.parametrize("value", POISON)
async def test_an_object_that_cannot_be_read_is_named_as_such(world: World, value: bytes) -> None:
    await put(world, value)
    error = await refusal(world)
    assert (error.code, error.reason) == (StatusCode.DATA_LOSS, StatusReason.STORE_READ_ERROR)
    assert 'pods "bad" cannot be read' in error.message


@pytest.mark.parametrize("value", POISON)
@pytest.mark.parametrize(
    "request_", [{}, {"label_selector": "a!=b"}, {"field_selector": "spec.nodeName="}]
)
async def test_lists_leave_it_out(world: World, value: bytes, request_: dict[str, str]) -> None:
    await world.core.creator.create(pod("web"))
    await put(world, value)
    assert await listed(world.core, **request_) == ["web"]
    other = await world.another(ServerSettings())
    assert await listed(other, **request_) == ["web"]
    assert len(other.cache.unreadable(POD)) == 1


async def test_a_page_from_the_history_leaves_it_out(world: World) -> None:
    for name in ("a", "c"):
        await world.core.creator.create(pod(name))
    await put(world, b"\xff", "b")
    page = await world.core.lister.page(v1.ListRequest(kind="Pod", limit=1))
    await world.core.creator.create(pod("d"))
    request = v1.ListRequest(kind="Pod")
    setattr(request, "continue", page.token)
    raw = await (await world.core.lister.page(request)).encoded()
    assert [i.pod.metadata.name for i in v1.ListResponse.FromString(raw).items] == ["c"]


async def test_a_watcher_sees_it_go_and_come_back(world: World) -> None:
    """An object that becomes unreadable is deleted to readers; one that is put right is new."""
    await world.core.creator.create(pod("bad"))
    seen: list[tuple[int, str]] = []

    async def follow() -> None:
        request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
        async for response in world.responses(request):
            seen.extend((e.type, e.object.pod.metadata.name) for e in response.events)

    watching = asyncio.create_task(follow())
    await eventually("the first event", lambda: len(seen), 1)
    await put(world, b"\xff")
    await put(world, b"\xff\xff")
    await put(world, pod("bad").SerializeToString())
    await eventually("three events", lambda: len(seen), 3)
    watching.cancel()
    assert seen == [(v1.ADDED, "bad"), (v1.DELETED, "bad"), (v1.ADDED, "bad")]
    assert len(world.core.cache.unreadable(POD)) == 0


@pytest.mark.parametrize("value", POISON)
async def test_it_can_be_deleted(world: World, value: bytes) -> None:
    """The answer holds what is known of the object, its name."""
    await put(world, value)
    request = v1.DeleteRequest(kind="Pod", namespace="default", name="bad")
    answer = v1.Object.FromString((await world.core.deleter.delete(request)).wrapped())
    assert (answer.pod.metadata.namespace, answer.pod.metadata.name) == ("default", "bad")
    assert (await refusal(world)).code is StatusCode.NOT_FOUND


async def test_it_is_not_deleted_for_another_object(world: World) -> None:
    """A uid names one very object; whether this is it cannot be known."""
    await put(world, b"\xff")
    request = v1.DeleteRequest(kind="Pod", namespace="default", name="bad")
    request.preconditions.uid = "known"
    with pytest.raises(ApiError) as refused:
        await world.core.deleter.delete(request)
    assert refused.value.reason == StatusReason.STORE_READ_ERROR


async def test_deleting_a_collection_goes_on_past_it(world: World) -> None:
    for name in ("a", "z"):
        await world.core.creator.create(pod(name))
    await put(world, b"\xff")
    request = v1.DeleteCollectionRequest(kind="Pod", namespace="default")
    assert await world.core.deleter.delete_collection(request) == 2
    assert await listed(world.core) == []


async def test_writes_to_it_fail_by_themselves(world: World) -> None:
    """In a batch only its own item."""
    await world.core.creator.create(pod("web"))
    await put(world, b"\xff")
    patches = [
        v1.PatchRequest(
            kind="Pod",
            namespace="default",
            name=name,
            merge_patch=b'{"metadata":{"labels":{"a":"b"}}}',
        )
        for name in ("bad", "web")
    ]
    first, second = await world.core.registry.patch(patches, None)
    assert isinstance(first, ApiError) and first.reason == StatusReason.STORE_READ_ERROR
    assert not isinstance(second, ApiError)
    bindings = [
        v1.Binding(namespace="default", name=name, node_name="worker-1") for name in ("bad", "web")
    ]
    first, second = await world.core.pods.bind(bindings, None)
    assert isinstance(first, ApiError) and first.reason == StatusReason.STORE_READ_ERROR
    assert not isinstance(second, ApiError)
    bound = second.decode()
    assert isinstance(bound, Pod) and bound.spec.node_name == "worker-1"


@pytest.mark.parametrize("value", POISON)
async def test_its_bytes_can_be_read_as_they_are(world: World, value: bytes) -> None:
    await put(world, value)
    raw = (await world.core.registry.get_raw("Pod", "default", "bad")).raw()
    assert (raw.kind, raw.namespace, raw.name, raw.value) == ("Pod", "default", "bad", value)
    assert "cannot be read" in raw.problem and raw.resource_version


async def test_the_bytes_of_other_objects_can_be_read_too(world: World) -> None:
    entry = await world.core.creator.create(pod("web"))
    raw = (await world.core.registry.get_raw("Pod", "default", "web")).raw()
    assert (raw.value, raw.resource_version, raw.problem) == (entry.value, entry.revision, "")
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get_raw("Pod", "default", "absent")
