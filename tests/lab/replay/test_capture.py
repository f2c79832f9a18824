"""Writing a running cluster's history into a recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from podsched.lab.replay.capture import INTERRUPTED, RECORDED_KINDS, TIME_IS_UP, Capture
from podsched.lab.replay.recording import Recording, RecordingWriter, read_recording
from podsched.serve.client.errors import Unavailable
from podsched.serve.client.informer import Batch, Event, EventType, Handler, Informer
from podsched.testing.fake_cluster import FakeCluster
from support.recordings import a_node, a_pod

pytestmark = pytest.mark.looptime


class World:
    """A cluster in memory that is being recorded."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cluster = FakeCluster()
        self.cluster.create(a_node("n1"))
        self.writer = RecordingWriter(file, {"time": 0.0})
        self.capture = Capture(self.writer, asyncio.get_running_loop().time, most_bytes=1 << 20)
        self.stop = asyncio.Event()

    def record(self, seconds: float, work: Coroutine[Any, Any, None] | None = None) -> Any:
        work = work or self.capture.watch(self.cluster)
        return asyncio.create_task(self.capture.run(work, seconds, self.stop))

    def read(self) -> Recording:
        self.writer.close(0.0, "")
        return read_recording(self.file)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "a.rec")
    yield world
    world.writer.abandon()


async def test_all_objects_come_first_and_then_every_change_with_its_time(world: World) -> None:
    recording = world.record(10.0)
    await asyncio.sleep(2.0)
    world.cluster.create(a_pod("web"))
    await asyncio.sleep(3.0)
    world.cluster.delete("Pod", "default/web")
    assert await recording == TIME_IS_UP
    found = world.read()
    assert [item.metadata.name for item in found.objects] == ["n1"]
    told = [(round(c.at), c.type.name, c.key, c.revision) for c in found.changes]
    assert told == [(2, "ADDED", "default/web", 3), (5, "DELETED", "default/web", 4)]


async def test_a_watch_that_breaks_is_resumed_without_a_gap(world: World) -> None:
    recording = world.record(10.0)
    await asyncio.sleep(1.0)
    for number in range(3):
        world.cluster.create(a_pod(f"p{number}"))
        await asyncio.sleep(0.0 if number else 0.5)
        world.cluster.break_watches()
    await recording
    assert [c.key for c in world.read().changes] == ["default/p0", "default/p1", "default/p2"]


async def test_a_recording_ends_where_the_server_has_forgotten_the_history(world: World) -> None:
    recording = world.record(10.0)
    await asyncio.sleep(1.0)
    world.cluster.create(a_pod("web"))
    world.cluster.compact()
    assert "forgotten" in await recording


async def test_what_stops_it_ends_it_at_once(world: World) -> None:
    recording = world.record(10.0)
    await asyncio.sleep(1.0)
    world.stop.set()
    assert await recording == INTERRUPTED
    assert asyncio.get_running_loop().time() < 2.0


async def test_nothing_is_recorded_of_a_server_that_is_not_there(world: World) -> None:
    world.cluster.fault = Unavailable("connection refused")
    with pytest.raises(Unavailable):
        await world.record(10.0)


async def test_a_full_file_ends_it(world: World) -> None:
    world.capture = Capture(world.writer, asyncio.get_running_loop().time, most_bytes=1)
    assert await world.record(10.0) == "the file has 0 MiB"


class Reflectors:
    """An informer whose kinds are listed one after the other, as a Kubernetes cluster's are."""

    def __init__(self, steps: list[list[Event] | None]) -> None:
        self.revision = 0
        self.synced = asyncio.Event()
        self._steps = steps

    async def run(self, handler: Handler) -> None:
        for events in self._steps:
            if events is None:
                self.synced.set()
                continue
            self.revision += 1
            handler(Batch(self.revision, events))
        await asyncio.Event().wait()


async def test_what_changes_before_all_kinds_are_listed_is_recorded_as_it_is_then(
    world: World,
) -> None:
    old, new = a_pod("a"), a_pod("a")
    new.spec.node_name = "n1"
    added = [Event(EventType.ADDED, "Pod", f"default/{n}", None, a_pod(n)) for n in "abc"]
    bound = Event(EventType.MODIFIED, "Pod", "default/a", old, new)
    gone, later = (Event(EventType.DELETED, "Pod", f"default/{n}", a_pod(n), None) for n in "bc")
    node = Event(EventType.ADDED, "Node", "n1", None, a_node("n1"))
    informer: Any = Reflectors([added, [bound], [gone], [node], None, [later]])
    assert await world.record(2.0, world.capture.follow(informer)) == TIME_IS_UP
    found = world.read()
    names = {item.metadata.name: item for item in found.objects}
    assert (sorted(names), len(found.objects)) == (["a", "c", "n1"], 3)
    assert names["a"] == new
    assert found.revision == 4
    assert [(c.type.name, c.key, c.revision) for c in found.changes] == [
        ("DELETED", "default/c", 5)
    ]


async def test_an_informer_is_recorded_as_well(world: World) -> None:
    informer = Informer(world.cluster, RECORDED_KINDS)
    recording = world.record(10.0, world.capture.follow(informer))
    await asyncio.sleep(2.0)
    world.cluster.create(a_pod("web"))
    await asyncio.sleep(1.0)
    world.cluster.delete("Pod", "default/web")
    assert await recording == TIME_IS_UP
    found = world.read()
    assert [item.metadata.name for item in found.objects] == ["n1"]
    assert [(c.type.name, c.key) for c in found.changes] == [
        ("ADDED", "default/web"),
        ("DELETED", "default/web"),
    ]
