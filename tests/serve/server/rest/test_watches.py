"""Watches over HTTP: a line for each event, and how they begin and end."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.serve.store.protocol import Put
from support.api_objects import pod
from support.api_world import World
from support.eventually import eventually
from support.kube_client import KubeClient

PODS = "/api/v1/namespaces/default/pods?watch=1"


def seen(events: list[dict[str, dict[str, dict[str, str]]]]) -> list[tuple[object, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def watched(
    world: World, kube: KubeClient, query: str, first: bytes = b""
) -> list[tuple[object, str]]:
    """What a watch sees, of a pod that is created once it has begun, too."""
    watch = asyncio.ensure_future(kube.get(f"{PODS}&{query}"))
    await eventually("the watch has begun", lambda: world.core.watcher.watching == 1)
    await eventually("what comes first", lambda: first in kube.response.body)
    await world.core.creator.create(pod("later"))
    await eventually("the pod", lambda: b'"later"' in kube.response.body)
    world.core.watcher.close()
    return seen((await watch).events)


async def test_without_a_version_what_exists_comes_first(world: World, kube: KubeClient) -> None:
    await world.core.creator.create(pod("a"))
    assert await watched(world, kube, "", b'"a"') == [("ADDED", "a"), ("ADDED", "later")]


async def test_initial_events_end_with_a_bookmark_that_says_so(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(pod("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    assert await watched(world, kube, query, b"BOOKMARK") == [
        ("ADDED", "a"),
        ("BOOKMARK", ""),
        ("ADDED", "later"),
    ]


@pytest.mark.parametrize("form", ["PartialObjectMetadata", "Table"])
async def test_the_bookmarks_of_a_watch_have_the_form_of_its_objects(
    world: World, kube: KubeClient, form: str
) -> None:
    """Its clients know no other kind."""
    await world.core.creator.create(pod("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
    watch = asyncio.ensure_future(kube.get(f"{PODS}&{query}", accept=accept))
    await eventually("the bookmark", lambda: b"BOOKMARK" in kube.response.body)
    world.core.watcher.close()
    events = (await watch).events
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert {event["object"]["kind"] for event in events} == {form}
    marked = events[1]["object"]["rows"][0]["object"] if form == "Table" else events[1]["object"]
    assert marked["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_goes_on_after_a_version(world: World, kube: KubeClient) -> None:
    version = (await world.core.creator.create(pod("a"))).revision
    assert await watched(world, kube, f"resourceVersion={version}") == [("ADDED", "later")]


@pytest.mark.parametrize(
    ("namespace", "again"), [("default", ["a", "b"]), ("other", [])], ids=["both", "one"]
)
async def test_what_was_stored_together_comes_again_as_a_client_may_have_read_a_part_of_it(
    world: World, kube: KubeClient, namespace: str, again: list[str]
) -> None:
    """The connection may break between two lines, of which each has the version of both."""
    stored = {"default/a": pod("a"), f"{namespace}/b": pod("b", namespace=namespace)}
    puts = [Put(object_key(KINDS["Pod"], k), p.SerializeToString()) for k, p in stored.items()]
    version = (await world.store.txn([], puts)).revision
    assert await watched(world, kube, f"resourceVersion={version}") == [
        ("ADDED", name) for name in [*again, "later"]
    ]


async def test_a_version_that_is_forgotten_is_an_event_and_not_a_failure(
    world: World, kube: KubeClient
) -> None:
    other = await world.another()
    await world.core.creator.create(pod("a"))
    response = await KubeClient(other).get(f"{PODS}&resourceVersion=1")
    assert response.status == 200
    [event] = response.events
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    floor = other.cache.ring.floor
    assert event["object"]["message"] == f"too old resource version: 1 ({floor})"
