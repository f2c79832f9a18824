"""The leader's decisions in a recording."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podsched.api.objects import timestamp
from podsched.lab.replay.capture import Capture
from podsched.lab.replay.decision_capture import DecisionCapture, unpacked
from podsched.lab.replay.recording import Recording, RecordingWriter, read_recording
from podsched.serve.client.errors import ClientError, Unavailable
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsRequest, DecisionsResponse
from podsched.v1.scheduling_pb2 import SchedulingCheckpoint

pytestmark = pytest.mark.looptime


class Leader:
    """Answers as an API server does, in pages of two."""

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []
        self.term, self.revision, self.begun_after = 5, 10, 0
        self.fault: ClientError | None = None

    def decide(
        self, number: int, at: float, outcome: str = "Scheduled", revision: int = 10
    ) -> None:
        record = DecisionRecord(
            number=number, term=self.term, revision=revision, outcome=outcome, name=f"p{number}",
            begun_after=self.begun_after,
        )  # fmt: skip
        record.decided_time.CopyFrom(timestamp(at))
        self.records = [r for r in self.records if (r.term, r.number) != (self.term, number)]
        self.records.append(record)

    async def decisions(self, request: DecisionsRequest) -> DecisionsResponse:
        if self.fault is not None:
            raise self.fault
        until = request.until.ToMicroseconds() or 1 << 62
        since = request.since.ToMicroseconds()
        found = [r for r in self.records if since <= r.decided_time.ToMicroseconds() <= until]
        return DecisionsResponse(records=found[-2:], more=len(found) > 2)

    async def checkpoint(self) -> SchedulingCheckpoint:
        document = {
            "term": self.term,
            "revision": self.revision,
            "number": 0,
            "begun_after": self.begun_after,
        }
        return SchedulingCheckpoint(content=gzip.compress(json.dumps(document).encode()))


class World:
    """A recording of what a leader tells; nothing else changes."""

    def __init__(self, file: Path) -> None:
        self.file, self.leader = file, Leader()
        self.writer = RecordingWriter(file, {"time": 0.0})
        self.task: asyncio.Task[None] | None = None

    def start(self) -> World:
        """Begins now; time is virtual from here on."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def clock() -> float:
            return loop.time() - began

        self.capture = Capture(self.writer, clock, most_bytes=1 << 20)
        self.capture.progress.listed = 10
        self.capture.synced.set()
        self.following = DecisionCapture(self.leader, self.writer, self.capture, clock)
        self.task = asyncio.create_task(self.following.run())
        return self

    async def read(self) -> Recording:
        await self.following.finish()
        assert self.task is not None
        self.task.cancel()
        self.writer.close(0.0, "done")
        return read_recording(self.file)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "a.rec")
    yield world
    if world.task is not None:
        world.task.cancel()
    world.writer.abandon()


def numbers(recording: Recording) -> list[int]:
    return [int(document["number"]) for document in recording.decisions]


async def test_decisions_are_written_once_with_their_outcome(world: World) -> None:
    world.start()
    world.leader.decide(1, 1000.5, outcome="")
    await asyncio.sleep(2)
    world.leader.decide(1, 1000.5)
    await asyncio.sleep(2)
    found = await world.read()
    assert [document.get("outcome", "") for document in found.decisions] == ["", "Scheduled"]
    assert [document["term"] for document in found.checkpoints] == [5]


async def test_the_clock_of_the_machine_that_records_may_be_ahead_of_the_leaders(
    world: World,
) -> None:
    world.start().leader.decide(1, 1000.5)
    await asyncio.sleep(2)
    assert numbers(await world.read()) == [1]


async def test_more_than_fits_into_an_answer_is_asked_for_page_by_page(world: World) -> None:
    world.start()
    await asyncio.sleep(0.5)
    for number in range(1, 8):
        world.leader.decide(number, 1000.5 + number / 100)
    await asyncio.sleep(2)
    assert sorted(numbers(await world.read())) == [1, 2, 3, 4, 5, 6, 7]


async def test_pages_that_could_not_be_had_are_asked_for_again(world: World) -> None:
    """Though the latest page, which is asked for first, has nothing new by then."""
    leader = world.start().leader
    answered = leader.decisions

    async def breaks(request: DecisionsRequest) -> DecisionsResponse:
        if request.HasField("until"):
            leader.decisions = answered  # type: ignore[method-assign]
            raise Unavailable("gone")
        return await answered(request)

    leader.decisions = breaks  # type: ignore[method-assign]
    await asyncio.sleep(0.5)
    for number in range(1, 8):
        leader.decide(number, 1000.5 + number / 100)
    await asyncio.sleep(4)
    assert sorted(numbers(await world.read())) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_checkpoint_is_taken_when_the_leader_has_seen_what_the_recording_begins_with(
    world: World,
) -> None:
    world.start()
    world.leader.revision = 9
    await asyncio.sleep(2)
    world.leader.revision = 12
    await asyncio.sleep(2)
    assert [document["revision"] for document in (await world.read()).checkpoints] == [12]


async def test_another_term_gets_a_checkpoint_of_its_own(world: World) -> None:
    world.start()
    await asyncio.sleep(1.5)
    world.leader.term = 6
    world.leader.decide(1, 1001.5)
    await asyncio.sleep(3)
    assert [document["term"] for document in (await world.read()).checkpoints] == [5, 6]


async def test_a_term_that_goes_on_with_another_configuration_gets_another_checkpoint(
    world: World,
) -> None:
    world.start()
    world.leader.decide(3, 1001.0)
    await asyncio.sleep(1.5)
    world.leader.begun_after = 3
    world.leader.decide(4, 1001.5)
    await asyncio.sleep(3)
    taken = (await world.read()).checkpoints
    assert [(found["term"], found["begun_after"]) for found in taken] == [(5, 0), (5, 3)]


async def test_where_decisions_are_not_to_be_had_the_recording_goes_on(world: World) -> None:
    world.start()
    world.leader.fault = Unavailable("no scheduler replica is connected")
    await asyncio.sleep(2)
    assert world.following.problem == "no scheduler replica is connected"
    world.leader.fault = None
    world.leader.decide(1, 1001.0)
    await asyncio.sleep(2)
    assert numbers(await world.read()) == [1]
    assert not world.following.problem


async def test_the_end_waits_for_the_changes_that_decisions_were_based_on(world: World) -> None:
    world.start()
    world.leader.decide(1, 1000.5, revision=15)
    await asyncio.sleep(2)
    began = asyncio.get_running_loop().time()
    await world.following.finish()
    assert asyncio.get_running_loop().time() - began == pytest.approx(3.0, abs=0.1), "in vain"


def test_a_checkpoint_that_cannot_be_read_is_an_error_of_the_call() -> None:
    for content in (b"", b"x", gzip.compress(b"[]"), gzip.compress(b"{}")):
        with pytest.raises(ClientError, match="cannot be read"):
            unpacked(SchedulingCheckpoint(content=content))
