"""Watches: order, resumption, selectors, bookmarks, and their end."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusCode
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.turns import set_seat
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.errors import Unavailable
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, node, pod
from support.api_world import World
from support.eventually import PATIENCE

Seen = list[tuple[str, str]]


async def collect(world: World, until: int, **fields: object) -> list[v1.WatchResponse]:
    """The responses of a watch up to a revision."""
    request = v1.WatchRequest(**fields)  # type: ignore[arg-type]
    got = []
    async with asyncio.timeout(PATIENCE):
        async for response in world.responses(request):
            got.append(response)
            if response.revision >= until:
                return got
    raise AssertionError("the watch ended")


def seen(responses: list[v1.WatchResponse]) -> Seen:
    return [
        (v1.EventType.Name(event.type), getattr(event.object, kind).metadata.name)
        for response in responses
        for event in response.events
        if (kind := event.object.WhichOneof("object"))
    ]


async def revision(world: World) -> int:
    return (await world.store.status()).revision


async def test_what_exists_comes_in_responses_that_grow_as_they_are_read(world: World) -> None:
    """So an unread watch costs the server a small one."""
    large = [pod(f"p{number:02}") for number in range(60)]
    for item in large:
        item.metadata.annotations["text"] = "x" * 4000
    await world.core.creator.create_many(large)
    sizes = []
    request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
    async for response in world.responses(request):
        if response.initial_events_end:
            break
        sizes.append(len(response.events))
    assert sizes == [4, 8, 16, 31, 1]


async def test_what_exists_comes_first_then_what_changes(world: World) -> None:
    """ADDED events, the mark that they are over, then changes."""
    await world.core.creator.create(pod("a"))
    last, responses = (await revision(world)) + 2, list[v1.WatchResponse]()
    request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
    async with asyncio.timeout(PATIENCE):
        async for response in world.responses(request):
            responses.append(response)
            if response.initial_events_end:
                await world.core.pods.bind([binding("a", "worker-1")], None)
                await world.core.creator.create(pod("b"))
            if response.revision >= last:
                break
    assert seen(responses) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b")]
    assert [r.initial_events_end for r in responses[:2]] == [False, True]
    assert responses[0].revision == 0


async def test_a_watch_goes_on_after_a_revision(world: World) -> None:
    """Nothing lost, nothing repeated, across kinds, in the order of revisions."""
    await world.core.creator.create(pod("a"))
    start = await revision(world)
    await world.core.creator.create(node("n"))
    await world.core.creator.create(pod("b"))
    await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="a"))
    responses = await collect(world, start + 3, kinds=["Pod", "Node"], from_revision=start)
    assert seen(responses) == [("ADDED", "n"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [
        int(getattr(e.object, e.object.WhichOneof("object") or "pod").metadata.resource_version)
        for r in responses
        for e in r.events
    ]
    assert versions == [start + 1, start + 2, start + 3]


async def test_a_lagging_watcher_gets_many_revisions_in_one_response(world: World) -> None:
    """Batches grow with the lag."""
    start = await revision(world)
    for number in range(50):
        await world.core.creator.create(pod(f"p{number}"))
    await world.core.reflector.wait_until_fresh()
    responses = await collect(world, start + 50, kinds=["Pod"], from_revision=start)
    assert len(responses) == 1
    assert len(responses[0].events) == 50


async def test_objects_appear_and_disappear_as_they_match(world: World) -> None:
    """A watch of one node's pods: bound is ADDED, relabelled away is DELETED."""
    await world.core.creator.create(pod("a", app="x"))
    start = await revision(world)
    await world.core.pods.bind([binding("a", "worker-1")], None)
    item = (await world.core.registry.get("Pod", "", "a")).decode()
    item.metadata.labels["app"] = "y"
    await world.core.registry.update(item)
    fields = {"kinds": ["Pod"], "from_revision": start}
    by_node = await collect(world, start + 2, field_selector="spec.nodeName=worker-1", **fields)
    assert seen(by_node) == [("ADDED", "a"), ("MODIFIED", "a")]
    by_label = await collect(world, start + 2, label_selector="app=x", **fields)
    assert seen(by_label) == [("MODIFIED", "a"), ("DELETED", "a")]
    gone = by_label[-1].events[-1].object.pod
    assert gone.metadata.labels["app"] == "x"
    assert gone.metadata.resource_version == str(start + 2)


async def test_an_idle_watch_sends_bookmarks(world: World) -> None:
    """So that it can be resumed from there, even if nothing of its kinds changes."""
    start = await revision(world)
    watch = asyncio.ensure_future(collect(world, start + 1, kinds=["Pod"], from_revision=start))
    await world.core.creator.create(node())
    responses = await watch
    assert responses[-1].bookmark and not responses[-1].events


async def test_a_revision_that_is_gone_ends_the_watch(world: World) -> None:
    """OUT_OF_RANGE "compacted": list again."""
    await world.core.creator.create(pod())
    started_later = await world.another()
    request = v1.WatchRequest(kinds=["Pod"], from_revision=1)
    with pytest.raises(ApiError, match="compacted") as refused:
        await anext(world.responses(request, started_later))
    assert refused.value.code is StatusCode.OUT_OF_RANGE


async def test_a_watcher_that_is_too_slow_is_told_to_list_again(world: World) -> None:
    """It holds nothing back: the ring moves on without it."""
    slow = await world.another(ServerSettings(watch_cache_events=10))
    request = v1.WatchRequest(kinds=["Pod"], from_revision=slow.cache.revision)
    stream = world.responses(request, slow)
    await world.core.creator.create(pod("first"))
    async with asyncio.timeout(PATIENCE):
        await anext(stream)
        for number in range(30):
            await world.core.creator.create(pod(f"p{number}"))
        await slow.reflector.wait_until_fresh()
        with pytest.raises(ApiError) as refused:
            await anext(stream)
    assert refused.value.code is StatusCode.OUT_OF_RANGE


async def test_a_watch_that_must_list_again_does_not_go_on_with_what_exists(world: World) -> None:
    """It would keep the versions that were replaced since, for hours if it is read slowly."""
    slow = await world.another(ServerSettings(watch_cache_events=10))
    large = [pod(f"p{number:02}") for number in range(60)]
    for item in large:
        item.metadata.annotations["text"] = "x" * 4000
    await world.core.creator.create_many(large)
    await slow.reflector.wait_until_fresh()
    request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
    stream = world.responses(request, slow)
    assert (await anext(stream)).events
    for number in range(30):
        await world.core.creator.create(pod(f"q{number}"))
    await slow.reflector.wait_until_fresh()
    with pytest.raises(ApiError) as refused:
        await anext(stream)
    assert refused.value.code is StatusCode.OUT_OF_RANGE


async def test_a_watch_of_the_future_waits_for_it(world: World) -> None:
    """A server behind the one that told the revision sends nothing twice."""
    ahead = (await revision(world)) + 1
    watch = asyncio.ensure_future(collect(world, ahead + 1, kinds=["Pod"], from_revision=ahead))
    await asyncio.sleep(0)
    await world.core.creator.create(pod("a"))
    await world.core.creator.create(pod("b"))
    assert seen(await watch) == [("ADDED", "b")]


async def test_a_closing_server_ends_its_watches(world: World) -> None:
    """UNAVAILABLE: the client goes on elsewhere."""
    watch = asyncio.ensure_future(collect(world, 10**9, kinds=["Pod"]))
    await asyncio.sleep(0.02)
    world.core.watcher.close()
    with pytest.raises(ApiError) as refused:
        await watch
    assert refused.value.code is StatusCode.UNAVAILABLE
    assert world.core.watcher.watching == 0


@pytest.mark.looptime
async def test_a_watch_that_sends_while_the_server_closes_ends_at_once(world: World) -> None:
    """A quiet one would hold it up until the next bookmark."""
    clock = asyncio.get_running_loop().time
    stream = world.core.watcher.watch(v1.WatchRequest(kinds=["Pod"]))
    await anext(stream)
    await world.core.creator.create(pod("a"))
    await anext(stream)
    world.core.watcher.close()
    closed = clock()
    with pytest.raises(ApiError, match="shutting down"):
        await anext(stream)
    assert clock() == closed


async def test_a_scheduler_may_watch_although_others_have_all_watches(world: World) -> None:
    """It would do nothing without; the others may be many users' of one person."""
    few = await world.another(ServerSettings(max_connections=1))
    request = v1.WatchRequest(kinds=["Pod"])
    first = few.watcher.watch(request)
    await anext(first)
    for name, refused in (("alice", True), ("system:kube-scheduler", False)):
        user = Identity(name, frozenset(), Authentication.CERTIFICATE)
        set_seat(await Gate().enter(user, "peer", "Watch", 0))
        if refused:
            with pytest.raises(ApiError, match="1 watches are being served already"):
                few.watcher.watch(request)
        else:
            await few.watcher.watch(request).aclose()
    await first.aclose()


async def test_an_unknown_kind_is_refused(world: World) -> None:
    """INVALID_ARGUMENT in kubectl's words."""
    with pytest.raises(ApiError, match="the server doesn't have a resource type"):
        await collect(world, 1, kinds=["Pad"])


async def test_a_server_behind_a_compaction_lists_again_and_its_watchers_too(
    world: World,
) -> None:
    """Cut off while etcd compacts: the cache is loaded anew, watchers are told."""
    other_store = world.store.session()
    other = ServerCore(ServerSettings(bookmark_seconds=0.05), other_store)
    await other.start()
    world.others.append(other)
    request = v1.WatchRequest(kinds=["Pod"], from_revision=other.cache.revision)
    stream = world.responses(request, other)
    watch = asyncio.ensure_future(anext(stream))
    other_store.fault = Unavailable("cut off")
    await asyncio.sleep(0)
    await world.core.creator.create(pod("a"))
    await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="a"))
    await world.core.creator.create(pod("b"))
    await world.store.compact(await revision(world))
    other_store.fault = None
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ApiError) as refused:
            while True:
                response = await watch
                assert not response.events
                watch = asyncio.ensure_future(anext(stream))
    assert refused.value.code is StatusCode.OUT_OF_RANGE
    await other.reflector.wait_until_fresh()
    assert list(other.cache.objects(KINDS["Pod"])) == ["default/b"]


async def test_a_paced_watch_sends_the_last_of_an_objects_changes(world: World) -> None:
    """ADDED once, with its node; what is deleted and made anew is deleted in between."""
    await world.core.creator.create(pod("old"))
    start = await revision(world)
    await world.core.reflector.wait_until_fresh()
    for name in ("a", "b"):
        await world.core.creator.create(pod(name))
        await world.core.pods.bind([binding(name, "worker-1")], None)
    remove = v1.DeleteRequest(kind="Pod", namespace="default", name="old", grace_period_seconds=0)
    await world.core.deleter.delete(remove, None)
    await world.core.creator.create(pod("old"))
    await world.core.reflector.wait_until_fresh()
    end = await revision(world)
    responses = await collect(world, end, kinds=["Pod"], from_revision=start, pace_ms=100)
    assert seen(responses) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "old"),
        ("ADDED", "old"),
    ]
    assert [event.object.pod.spec.node_name for event in responses[0].events][:2] == [
        "worker-1",
        "worker-1",
    ]


async def test_a_paced_watch_sends_again_only_after_its_pace(world: World) -> None:
    stream = world.responses(v1.WatchRequest(kinds=["Pod"], pace_ms=200))
    await anext(stream)  # the bookmark
    clock = asyncio.get_running_loop().time
    await world.core.creator.create(pod("a"))
    await anext(stream)
    began = clock()
    for name in ("b", "c"):
        await world.core.creator.create(pod(name))
    assert len((await anext(stream)).events) == 2
    assert clock() - began >= 0.15


@pytest.mark.parametrize(
    "fields", [{"pace_ms": -1}, {"pace_ms": 1001}, {"pace_ms": 5, "label_selector": "app=web"}]
)
async def test_a_pace_that_cannot_be_kept_is_refused(
    world: World, fields: dict[str, object]
) -> None:
    with pytest.raises(ApiError, match="pace_ms"):
        await collect(world, 1, kinds=["Pod"], **fields)
