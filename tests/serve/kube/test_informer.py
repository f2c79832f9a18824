"""The informer on a Kubernetes cluster: lists, watches, and what breaks them. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs

from podsched.serve.client.informer import Batch
from podsched.serve.kube.informer import KubeInformer
from support.kube_server import Answer, KubeStore, MemoryHttp, refusal

pytestmark = pytest.mark.looptime


class Follower:
    """An informer of nodes and pods, and what it has said."""

    def __init__(self, store: KubeStore, *kinds: str, http: MemoryHttp | None = None) -> None:
        self.batches: list[Batch] = []
        self.informer = KubeInformer(http or MemoryHttp(store), kinds or ["Node", "Pod"])
        self.task = asyncio.create_task(self.informer.run(self.batches.append))

    def said(self) -> list[str]:
        """Return the changes, and forget them."""
        batches, self.batches[:] = list(self.batches), []
        return [f"{e.type.name} {e.kind} {e.key}" for batch in batches for e in batch.events]


@pytest.fixture
def store() -> KubeStore:
    store = KubeStore()
    store.pod("web")
    store.node("n1")
    return store


@pytest.fixture
async def follower(store: KubeStore) -> AsyncIterator[Follower]:
    follower = Follower(store)
    yield follower
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)


async def test_lists_come_in_the_order_of_the_kinds(follower: Follower) -> None:
    await follower.informer.synced.wait()
    assert follower.said() == ["ADDED Node n1", "ADDED Pod default/web"]
    assert follower.informer.problem() == ""


async def test_an_alpha_kind_that_a_cluster_has_not_is_empty_until_it_has_it(
    store: KubeStore,
) -> None:
    """Who may not do everything is refused it, as one without rights to it."""
    store.absent.add("scheduling.k8s.io/v1alpha2")
    store.may_watch = False
    denied = refusal(403, "Forbidden", "may not list")
    store.fail(denied, method="GET", path="/apis/scheduling.k8s.io/v1alpha2/podgroups", times=99)
    follower = Follower(store, "PodGroup")
    with capture_logs() as logs:
        await follower.informer.synced.wait()
        await asyncio.sleep(200)
    assert follower.informer.problem() == ""
    assert not [line for line in logs if line["log_level"] == "warning"]
    store.absent.clear()
    store.may_watch = True
    store.allow()
    store.put("podgroups", {"metadata": {"name": "g", "namespace": "default"}})
    await asyncio.sleep(100)
    assert follower.said() == ["ADDED PodGroup default/g"]
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)


async def test_an_alpha_kind_that_may_not_be_read_is_a_problem(store: KubeStore) -> None:
    denied = refusal(403, "Forbidden", "may not list")
    store.fail(denied, path="/apis/scheduling.k8s.io/v1alpha2/podgroups", times=99)
    store.may_watch = False
    follower = Follower(store, "PodGroup")
    await asyncio.sleep(10)
    assert "may not" in follower.informer.problem()
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)


async def test_changes_come_once_and_in_order(store: KubeStore, follower: Follower) -> None:
    await follower.informer.synced.wait()
    follower.said()
    store.pod("web", nodeName="n1")
    store.remove("pods", "default/web")
    store.pod("web")
    await asyncio.sleep(1)
    changes = ["MODIFIED", "DELETED", "ADDED"]
    assert follower.said() == [f"{change} Pod default/web" for change in changes]


async def test_pods_that_end_are_gone(store: KubeStore, follower: Follower) -> None:
    """They are not followed, as kube-scheduler does not."""
    await follower.informer.synced.wait()
    follower.said()
    pod = store.objects["pods"]["default/web"]
    store.put("pods", {**pod, "metadata": dict(pod["metadata"]), "status": {"phase": "Failed"}})
    await asyncio.sleep(1)
    assert follower.said() == ["DELETED Pod default/web"]


async def test_a_watch_that_breaks_goes_on_where_it_was(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    follower.said()
    store.break_watches()
    store.pod("second")
    await asyncio.sleep(1)
    assert follower.said() == ["ADDED Pod default/second"]
    assert follower.informer.relists == 0


async def test_a_watch_that_breaks_after_its_list_was_streamed_is_no_list_that_was_not(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    store.down = True
    with capture_logs() as logs:
        store.break_watches()
        await asyncio.sleep(1)
    assert {line["event"] for line in logs} == {"The watch broke"}


async def test_after_410_the_differences_are_delivered(
    store: KubeStore, follower: Follower
) -> None:
    """Of what happened while the history was lost: deleted, made anew under the same name, new."""
    await follower.informer.synced.wait()
    store.pod("again")
    await asyncio.sleep(1)
    follower.said()
    store.down = True
    store.break_watches()
    await asyncio.sleep(0.01)
    store.remove("pods", "default/web")
    store.remove("pods", "default/again")
    store.pod("again")
    store.pod("new")
    store.forget()
    store.down = False
    await asyncio.sleep(20)
    assert sorted(follower.said()) == [
        "ADDED Pod default/again",
        "ADDED Pod default/new",
        "DELETED Pod default/again",
        "DELETED Pod default/web",
    ]
    assert follower.informer.relists > 0


def _spoil(store: KubeStore, node: str) -> None:
    """Store a version of a node that cannot be decoded."""
    store.put("nodes", {"metadata": {"name": node}, "spec": "x"})


class PairsHttp(MemoryHttp):
    """A server whose modifications arrive in pairs."""

    async def lines(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[list[bytes], None]:
        pair: list[bytes] = []
        async with aclosing(super().lines(path, params)) as chunks:
            async for chunk in chunks:
                pair += chunk
                if len(pair) == 2 or b"MODIFIED" not in chunk[0]:
                    yield pair
                    pair = []


async def test_an_object_that_becomes_undecodable_is_gone_after_its_earlier_changes(
    store: KubeStore,
) -> None:
    follower = Follower(store, "Node", http=PairsHttp(store))
    await follower.informer.synced.wait()
    follower.said()
    store.node("n1", cpu="8")
    _spoil(store, "n1")
    await asyncio.sleep(1)
    assert follower.said() == ["MODIFIED Node n1", "DELETED Node n1"]
    assert follower.informer.undecodable == 1
    follower.task.cancel()


@pytest.mark.parametrize("streams", [True, False])
async def test_undecodable_objects_that_a_new_list_does_not_have_are_not_counted(
    store: KubeStore, follower: Follower, streams: bool
) -> None:
    store.streams_lists = streams
    await follower.informer.synced.wait()
    for name in ("n1", "gone", "stays"):
        _spoil(store, name)
    await asyncio.sleep(1)
    assert follower.informer.undecodable == 3
    store.down = True
    store.break_watches()
    await asyncio.sleep(0.01)
    store.node("n1")
    store.remove("nodes", "gone")
    store.forget()
    store.down = False
    await asyncio.sleep(20)
    assert follower.informer.undecodable == 1
    assert set(follower.informer.objects("Node")) == {"n1"}


@pytest.mark.parametrize("streams", [True, False])
async def test_an_undecodable_object_is_logged_once_though_it_is_listed_again(
    store: KubeStore, follower: Follower, streams: bool
) -> None:
    store.streams_lists = streams
    _spoil(store, "n1")
    with capture_logs() as logs:
        await follower.informer.synced.wait()
        store.down = True
        store.break_watches()
        await asyncio.sleep(0.01)
        store.node("n2")
        store.forget()
        store.down = False
        await asyncio.sleep(20)
    assert follower.informer.relists == 2
    assert [line["name"] for line in logs if "cannot be decoded" in line["event"]] == ["n1"]


async def test_servers_that_stream_no_lists_are_listed_by_pages(store: KubeStore) -> None:
    store.streams_lists = False
    for number in range(1200):
        store.pod(f"pod-{number}")
    follower = Follower(store)
    await follower.informer.synced.wait()
    assert len(follower.informer.objects("Pod")) == 1201
    follower.said()
    store.pod("later")
    await asyncio.sleep(1)
    assert follower.said() == ["ADDED Pod default/later"]
    follower.task.cancel()


async def test_a_server_that_ignores_that_a_list_is_to_be_streamed_is_listed_by_pages(
    store: KubeStore,
) -> None:
    store.ends_lists = False
    follower = Follower(store)
    await asyncio.sleep(1)
    store.break_watches()  # as each watch ends after its time
    async with asyncio.timeout(30):
        await follower.informer.synced.wait()
    assert follower.said() == ["ADDED Node n1", "ADDED Pod default/web"]
    follower.task.cancel()


async def test_a_watch_that_is_refused_over_and_over_is_begun_from_a_new_list(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    follower.said()
    store.watch_errors = [refusal(500, "InternalError", "an event cannot be decoded")] * 6
    store.pod("new")
    store.break_watches()
    await asyncio.sleep(30)
    assert follower.said() == ["ADDED Pod default/new"]
    assert follower.informer.relists == 2


async def test_a_server_that_is_busy_is_not_asked_for_a_new_list(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    busy = refusal(429, "TooManyRequests", "too many requests", retry_after=1)
    store.watch_errors = [busy] * 8
    store.break_watches()
    await asyncio.sleep(60)
    assert (store.watch_errors, follower.informer.relists) == ([], 0)


async def test_lines_that_are_no_events_are_read_again_from_where_the_watch_was(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    follower.said()
    store.watch_errors = [Answer(200, None)]  # type: ignore[arg-type]
    store.pod("new")
    store.break_watches()
    await asyncio.sleep(5)
    assert follower.said() == ["ADDED Pod default/new"]
    assert not follower.task.done()


async def test_an_outage_at_first_is_waited_out_and_told(store: KubeStore) -> None:
    store.down = True
    follower = Follower(store)
    await asyncio.sleep(30)
    assert not follower.informer.synced.is_set()
    assert follower.informer.problem() == "Node: cannot connect"
    store.down = False
    async with asyncio.timeout(30):
        await follower.informer.synced.wait()
    follower.task.cancel()


async def test_a_kind_that_may_not_be_read_is_named(store: KubeStore) -> None:
    store.fail(refusal(403, "Forbidden", "pods is forbidden"), path="/pods", times=10**6)
    store.streams_lists = False
    follower = Follower(store)
    await asyncio.sleep(30)
    assert follower.informer.problem() == "Pod: pods is forbidden"
    follower.task.cancel()


async def test_a_new_leader_waits_for_the_bindings_of_the_last_one(store: KubeStore) -> None:
    """A pod is bound, and the event is late: the wait lasts until it has come."""
    follower = Follower(store)
    await follower.informer.synced.wait()
    store.down = True
    store.break_watches()
    await asyncio.sleep(0.01)
    store.pod("web", nodeName="n1")
    store.objects["pods"]["default/web"]["metadata"]["uid"] = "same"
    store.down = False
    waiting = asyncio.create_task(follower.informer.wait_for_revision(7))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    async with asyncio.timeout(10):
        await waiting
    pod = follower.informer.get("Pod", "default/web")
    assert pod is not None and pod.spec.node_name == "n1"  # type: ignore[union-attr]
    follower.task.cancel()


async def test_a_new_leader_waits_for_nothing_when_nothing_is_missing(
    store: KubeStore, follower: Follower
) -> None:
    await follower.informer.synced.wait()
    async with asyncio.timeout(0.1):
        await follower.informer.wait_for_revision(7)
