"""What the pods of a node refer to, as the cache changes."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import Pod
from podsched.lib.event_loop import Turn
from podsched.serve.server.access.node_pods import NodePods
from podsched.serve.server.watchcache import WatchCache
from support.service_accounts import feed, gone


def pod(name: str, node: str, secret: str, *, mirror: bool = False) -> Pod:
    item = Pod(metadata={"namespace": "default", "name": name, "uid": name})
    item.spec.node_name = node
    item.spec.volumes.add(name="s", secret={"secretName": secret})
    if mirror:
        item.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    return item


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn is over after one pod."""
    monkeypatch.setattr(Turn, "is_over", True)


def cache(most: int = 100) -> WatchCache:
    return WatchCache(max_events=most, max_bytes=1 << 20)


async def test_a_node_refers_to_what_its_pods_refer_to() -> None:
    objects = cache()
    pods = NodePods(objects)
    for item in (pod("a", "n1", "one"), pod("b", "n2", "two"), pod("c", "", "three")):
        feed(objects, item)
    await pods.catch_up()
    asked = [("n1", "one"), ("n1", "two"), ("n2", "two"), ("n1", "three"), ("", "three")]
    assert [pods.refer_to(node, "Secret", "default", name) for node, name in asked] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert not pods.refer_to("n1", "Secret", "other", "one")
    assert not pods.refer_to("n1", "ConfigMap", "default", "one")


async def test_it_follows_pods_that_are_bound_changed_and_removed() -> None:
    objects = cache()
    pods = NodePods(objects)
    feed(objects, pod("a", "", "one"))
    await pods.catch_up()
    feed(objects, pod("a", "n1", "one"))
    await pods.catch_up()
    assert pods.refer_to("n1", "Secret", "default", "one")
    feed(objects, pod("a", "n1", "two"))
    await pods.catch_up()
    assert not pods.refer_to("n1", "Secret", "default", "one")
    assert pods.refer_to("n1", "Secret", "default", "two")
    gone(objects, pod("a", "n1", "two"))
    await pods.catch_up()
    assert not pods.refer_to("n1", "Secret", "default", "two")


async def test_it_reads_all_pods_again_if_changes_were_missed() -> None:
    objects = cache(most=2)
    pods = NodePods(objects)
    feed(objects, pod("a", "n1", "one"))
    await pods.catch_up()
    gone(objects, pod("a", "n1", "one"))
    for number in range(20):
        feed(objects, pod(f"p{number}", "n1", f"s{number}"))
    await pods.catch_up()
    assert not pods.refer_to("n1", "Secret", "default", "one")
    assert pods.refer_to("n1", "Secret", "default", "s0")


async def test_a_mirror_pod_gives_its_node_nothing() -> None:
    objects = cache()
    pods = NodePods(objects)
    feed(objects, pod("a", "n1", "one", mirror=True))
    await pods.catch_up()
    assert not pods.refer_to("n1", "Secret", "default", "one")


@pytest.mark.usefixtures("short_turns")
async def test_a_second_call_does_not_trust_an_index_that_is_being_filled() -> None:
    objects = cache()
    for name in ("a", "b"):
        feed(objects, pod(name, "n1", name))
    pods = NodePods(objects)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pods.catch_up())
        await asyncio.sleep(0)
        await pods.catch_up()
        assert pods.refer_to("n1", "Secret", "default", "b")


@pytest.mark.usefixtures("short_turns")
async def test_a_call_that_is_broken_off_leaves_no_half_filled_index() -> None:
    objects = cache()
    for name in ("a", "b"):
        feed(objects, pod(name, "n1", name))
    pods = NodePods(objects)
    first = asyncio.create_task(pods.catch_up())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    await pods.catch_up()
    assert pods.refer_to("n1", "Secret", "default", "b")


@pytest.mark.usefixtures("short_turns")
async def test_what_was_known_stays_while_all_pods_are_read_again() -> None:
    objects = cache(most=2)
    pods = NodePods(objects)
    feed(objects, pod("a", "n1", "a"))
    feed(objects, pod("z", "n1", "z"))
    await pods.catch_up()
    for number in range(20):
        feed(objects, pod(f"p{number}", "n1", f"s{number}"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pods.catch_up())
        await asyncio.sleep(0)
        assert pods.refer_to("n1", "Secret", "default", "z")
