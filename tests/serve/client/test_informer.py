"""What handlers of an informer see, on the cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from podsched.api.objects import Pod
from podsched.serve.client.errors import ClientError, Compacted, Forbidden, Unavailable
from podsched.serve.client.informer import Batch, Event, EventType, Informer
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse
from support.api_objects import node, pod
from support.eventually import PATIENCE
from support.lost_errors import no_lost_errors


class Followed:
    """An informer under way and what its handler has seen."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.informer: Informer = cluster.informer(["Node", "Pod"])
        self.batches: list[Batch] = []
        self.task = asyncio.create_task(self.informer.run(self.batches.append))

    async def settle(self) -> None:
        """Until everything has been delivered."""
        async with asyncio.timeout(PATIENCE):
            await self.informer.wait_for_revision(self.cluster.revision)
            await self.informer.synced.wait()

    def events(self) -> list[tuple[str, str]]:
        return [(e.type.name, e.key) for batch in self.batches for e in batch.events]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(now=lambda: 1_700_000_000.0)


@pytest.fixture
async def followed(cluster: FakeCluster) -> AsyncIterator[Followed]:
    cluster.create(pod("a"))
    cluster.create(node("n"))
    followed = Followed(cluster)
    await followed.settle()
    yield followed
    followed.task.cancel()


async def test_what_exists_is_added_in_the_order_of_the_kinds(followed: Followed) -> None:
    """Nodes before pods, because they were asked for in that order."""
    assert followed.events() == [("ADDED", "n"), ("ADDED", "default/a")]
    assert followed.informer.revision == followed.cluster.revision


async def test_a_change_comes_with_what_was_before(followed: Followed) -> None:
    """old and new; the store has the new one when the handler is called."""
    item = followed.cluster.object("Pod", "default/a")
    assert isinstance(item, Pod)
    item.spec.node_name = "n"
    followed.cluster.update(item)
    await followed.settle()
    event: Event = followed.batches[-1].events[0]
    assert isinstance(event.old, Pod) and isinstance(event.new, Pod)
    assert (event.old.spec.node_name, event.new.spec.node_name) == ("", "n")
    assert followed.informer.get("Pod", "default/a") is event.new


async def test_a_deletion_comes_with_the_last_state(followed: Followed) -> None:
    """old is what was known; the store has nothing any more."""
    followed.cluster.delete("Pod", "default/a")
    await followed.settle()
    event = followed.batches[-1].events[0]
    assert event.type is EventType.DELETED
    assert event.old is not None and event.new is None
    assert followed.informer.get("Pod", "default/a") is None


async def test_a_broken_stream_is_resumed_with_nothing_lost_or_repeated(
    followed: Followed,
) -> None:
    """What changed in between comes once, without listing again."""
    followed.cluster.break_watches()
    followed.cluster.create(pod("b"))
    followed.cluster.create(pod("c"))
    await followed.settle()
    assert followed.events()[2:] == [("ADDED", "default/b"), ("ADDED", "default/c")]
    assert followed.informer.relists == 0


async def test_a_lost_history_is_made_up_by_the_differences(followed: Followed) -> None:
    """After a compaction: gone, new, changed and reborn objects, and no event for the others."""
    cluster = followed.cluster
    cluster.create(pod("reborn"))
    cluster.create(pod("gone"))
    await followed.settle()
    seen = len(followed.events())
    cluster.fault = None
    item = cluster.object("Pod", "default/a")
    item.metadata.labels["x"] = "y"
    followed.cluster.break_watches()
    cluster.update(item)
    cluster.delete("Pod", "default/gone")
    cluster.delete("Pod", "default/reborn")
    cluster.create(pod("reborn"))
    cluster.create(pod("new"))
    cluster.compact()
    await followed.settle()
    assert followed.informer.relists == 1
    events = followed.events()[seen:]
    assert sorted(events) == [
        ("ADDED", "default/new"),
        ("ADDED", "default/reborn"),
        ("DELETED", "default/gone"),
        ("DELETED", "default/reborn"),
        ("MODIFIED", "default/a"),
    ]
    assert events.index(("DELETED", "default/reborn")) < events.index(("ADDED", "default/reborn"))


@pytest.mark.parametrize("fault", [Unavailable("down"), Forbidden("no role, or an old token")])
async def test_an_outage_is_waited_out(followed: Followed, fault: ClientError) -> None:
    """The informer goes on when calls succeed again."""
    followed.cluster.fault = fault
    followed.cluster.break_watches()
    await asyncio.sleep(0)
    followed.cluster.create(pod("b"))
    followed.cluster.fault = None
    await followed.settle()
    assert ("ADDED", "default/b") in followed.events()


async def test_waiting_for_a_revision_ends_with_it(followed: Followed) -> None:
    """Not before the change has been handled."""
    target = followed.cluster.revision + 1
    waiting = asyncio.create_task(followed.informer.wait_for_revision(target))
    await asyncio.sleep(0)
    assert not waiting.done()
    followed.cluster.create(pod("b"))
    await waiting
    assert ("ADDED", "default/b") in followed.events()


async def test_a_large_list_comes_in_parts(cluster: FakeCluster) -> None:
    """The revision moves with the last part only."""
    for number in range(125):
        cluster.create(pod(f"p{number}"))
    followed = Followed(cluster)
    await followed.settle()
    assert [batch.partial for batch in followed.batches] == [True, True, False]
    assert [batch.revision for batch in followed.batches] == [0, 0, cluster.revision]
    assert len(followed.events()) == 125
    followed.task.cancel()


async def test_a_large_response_comes_in_parts(followed: Followed) -> None:
    """Other tasks have their turn in between; the revision moves with the last part only."""
    before = followed.informer.revision
    followed.batches.clear()
    for number in range(125):
        followed.cluster.create(pod(f"p{number}"))
    await followed.settle()
    assert [batch.partial for batch in followed.batches] == [True, True, False]
    assert [batch.revision for batch in followed.batches][:2] == [before, before]
    assert followed.informer.revision == followed.cluster.revision
    assert len(followed.events()) == 125


async def test_what_a_handler_raises_ends_the_informer(cluster: FakeCluster) -> None:
    """Loudly: a handler that missed an event would be wrong for ever."""

    def broken(batch: Batch) -> None:
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await cluster.informer(["Pod"]).run(broken)


async def test_another_pace_begins_at_once_where_the_stream_was(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is missed or seen twice, and what was held back comes."""
    informer, watch, asked = followed.informer, followed.cluster.watch_stream, list[int]()

    def noted(request: v1.WatchRequest) -> AsyncGenerator[RawWatchResponse, None]:
        asked.append(request.pace_ms)
        return watch(request)

    monkeypatch.setattr(followed.cluster, "watch_stream", noted)
    followed.cluster.create(pod("b"))
    await followed.settle()
    informer.pace(250)
    followed.cluster.create(pod("c"))
    await followed.settle()
    followed.cluster.create(pod("d"))
    await followed.settle()
    informer.pace(0)
    informer.pace(0)
    await asyncio.sleep(0.01)
    followed.cluster.create(pod("e"))
    await followed.settle()
    keys = [f"default/{name}" for name in "abcde"]
    assert followed.events() == [("ADDED", "n"), *(("ADDED", key) for key in keys)]
    assert asked == [250, 0]
    assert informer.relists == 0


class Restored:
    """A server that has come to revision 9, and is at 4 when it is asked again."""

    def __init__(self) -> None:
        self.asked = 0

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        self.asked += 1
        if self.asked == 1:
            yield RawWatchResponse(revision=9, initial_events_end=True)
            await asyncio.sleep(0.01)
            raise Compacted("required revision has been compacted")
        yield RawWatchResponse(revision=4, initial_events_end=True)
        await asyncio.Event().wait()


async def test_an_informer_goes_back_with_a_server_that_was_restored() -> None:
    """Who waits for a revision of the lost history waits no longer."""
    informer = Informer(Restored(), ["Pod"])
    following = asyncio.create_task(informer.run(lambda batch: None))
    await informer.synced.wait()
    await asyncio.wait_for(informer.wait_for_revision(20), PATIENCE)
    assert informer.revision == 4
    following.cancel()


class BreakingAtTheEnd:
    """A server whose watch fails when it is cancelled, as one that breaks just then."""

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        yield RawWatchResponse(revision=9, initial_events_end=True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unavailable("the server is away") from None


async def test_a_stream_that_breaks_as_its_informer_ends_leaves_no_error_to_log() -> None:
    informer = Informer(BreakingAtTheEnd(), ["Pod"])
    informer.pace(250)
    async with no_lost_errors():
        following = asyncio.create_task(informer.run(lambda batch: None))
        await informer.synced.wait()
        await asyncio.sleep(0)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
