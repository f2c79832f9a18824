"""Watchers that wait for changes are woken by those that may concern them, and by no others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ConfigMap, Pod
from podsched.serve.server.change_ring import Change, ChangeRing, ExpiredError
from podsched.serve.server.entries import Entry
from podsched.serve.server.scope import Scope

pytestmark = pytest.mark.looptime

NAMES, NODES, NAMESPACES = ("a", "b"), ("", "n1", "n2"), ("x", "y")
EVERY_POD = Scope(["Pod"])


def pod_on(node: str, name: str = "a", namespace: str = "x") -> Pod:
    return Pod(metadata={"name": name, "namespace": namespace}, spec={"node_name": node})


def entry(message: AnyObject, revision: int = 1) -> Entry:
    metadata = message.metadata
    kind = KINDS[type(message).__name__]
    key = f"{metadata.namespace}/{metadata.name}"
    return Entry(kind, key, message.SerializeToString(), revision, 1)


def added(message: AnyObject) -> Change:
    return Change(entry(message), None, 2)


def empty_ring() -> ChangeRing:
    return ChangeRing(max_events=1000, max_bytes=1 << 20)


async def woken_after(scope: Scope, changes: Sequence[Change]) -> float:
    """Seconds until a watcher of a scope goes on, with one change each second."""
    ring, loop = empty_ring(), asyncio.get_running_loop()
    began = loop.time()

    async def watch() -> float:
        await ring.next_position(scope.topics, 100)
        return loop.time() - began

    waiting = asyncio.ensure_future(watch())
    for change in changes:
        await asyncio.sleep(1)
        ring.add(change)
    return await waiting


async def test_a_watcher_sleeps_through_changes_of_other_kinds() -> None:
    config_map = ConfigMap(metadata={"name": "a", "namespace": "x"})
    assert await woken_after(EVERY_POD, [added(config_map), added(pod_on(""))]) == 2


async def test_a_watcher_of_one_name_sleeps_through_changes_of_other_names() -> None:
    scope = Scope(["Pod"], field_selector="metadata.name=b")
    assert await woken_after(scope, [added(pod_on("", "a")), added(pod_on("", "b"))]) == 2


async def test_a_kubelet_sleeps_through_changes_of_pods_on_other_nodes() -> None:
    scope = Scope(["Pod"], field_selector="spec.nodeName=n1")
    assert await woken_after(scope, [added(pod_on("n2")), added(pod_on("n1"))]) == 2


async def test_a_kubelet_wakes_when_its_pod_goes() -> None:
    scope = Scope(["Pod"], field_selector="spec.nodeName=n1")
    deleted = Change(None, entry(pod_on("n1")), 3)
    moved = Change(entry(pod_on("n2")), entry(pod_on("n1")), 3)
    assert await woken_after(scope, [deleted]) == 1
    assert await woken_after(scope, [moved]) == 1


async def test_a_watcher_that_nothing_wakes_goes_on_from_the_end_when_its_time_is_over() -> None:
    ring = empty_ring()
    waiting = asyncio.ensure_future(ring.next_position(EVERY_POD.topics, 5))
    await asyncio.sleep(1)
    ring.add(added(ConfigMap(metadata={"name": "a", "namespace": "x"})))
    assert await waiting == ring.end == 1


async def test_a_change_at_the_moment_when_the_time_is_over_is_not_passed_over() -> None:
    ring = empty_ring()
    waiting = asyncio.ensure_future(ring.next_position(EVERY_POD.topics, 5))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(5, ring.add, added(pod_on("")))
    assert await waiting == 0


async def test_a_watcher_that_waits_must_list_again_after_all_objects_were_read_anew() -> None:
    ring = empty_ring()
    waiting = asyncio.ensure_future(ring.next_position(EVERY_POD.topics, 100))
    await asyncio.sleep(1)
    ring.restart(7)
    with pytest.raises(ExpiredError):
        ring.changes_from(await waiting, 10)


async def test_watchers_that_have_gone_leave_nothing() -> None:
    ring = empty_ring()
    scopes = [EVERY_POD, Scope(["Pod"], field_selector="spec.nodeName=n1"), Scope([])]
    waiting = [asyncio.ensure_future(ring.next_position(each.topics, 100)) for each in scopes]
    await asyncio.sleep(1)
    waiting[0].cancel()
    ring.add(added(pod_on("n1")))
    await asyncio.wait(waiting)
    assert (len(ring._waiting._by_topic), ring._waiting._of_nodes) == (0, 0)


scopes = st.builds(
    lambda kinds, namespace, fields: Scope(kinds, namespace, field_selector=fields),
    st.sampled_from([["Pod"], ["ConfigMap"], ["ConfigMap", "Secret"]]),
    st.sampled_from(["", *NAMESPACES]),
    st.sampled_from(["", "metadata.name=a", "metadata.name!=a", "metadata.namespace=x"]),
) | st.builds(
    lambda namespace, fields: Scope(["Pod"], namespace, field_selector=fields),
    st.sampled_from(["", *NAMESPACES]),
    st.sampled_from(
        [
            "spec.nodeName=n1",
            "spec.nodeName=",
            "spec.nodeName!=n1",
            "spec.nodeName=n1,metadata.name=a",
        ]
    ),
)
messages = st.builds(
    pod_on, st.sampled_from(NODES), st.sampled_from(NAMES), st.sampled_from(NAMESPACES)
) | st.builds(
    lambda name, namespace: ConfigMap(metadata={"name": name, "namespace": namespace}),
    st.sampled_from(NAMES),
    st.sampled_from(NAMESPACES),
)


@given(scope=scopes, written=st.lists(st.tuples(messages, st.booleans()), max_size=12))
def test_a_watcher_gets_all_events_that_reading_every_change_would_give(
    scope: Scope, written: Sequence[tuple[AnyObject, bool]]
) -> None:
    asyncio.run(_same_events(scope, written))


async def _same_events(scope: Scope, written: Sequence[tuple[AnyObject, bool]]) -> None:
    """Write objects, or delete them, one after another, while a watcher reads when it is woken."""
    ring, got = empty_ring(), []
    stored: dict[tuple[str, str], Entry] = {}

    async def watch() -> None:
        position = 0
        while True:
            for change in ring.changes_from(position, 1000):
                if change.kind.name in scope.kinds and scope.event_type(change) is not None:
                    got.append(change)
            position = ring.end
            position = await ring.next_position(scope.topics, 1000)

    watching = asyncio.ensure_future(watch())
    for message, is_deleted in written:
        await asyncio.sleep(0)
        new = entry(message)
        old = stored.pop((new.kind.name, new.key), None)
        if is_deleted and old is not None:
            ring.add(Change(None, old, 2))
        elif not is_deleted:
            stored[new.kind.name, new.key] = new
            ring.add(Change(new, old, 2))
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    watching.cancel()
    every = ring.changes_from(0, 1000)
    assert got == [
        c for c in every if c.kind.name in scope.kinds and scope.event_type(c) is not None
    ]
