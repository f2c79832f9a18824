"""Changes as they happen, decoded."""

from __future__ import annotations

import pytest

from podsched.api.kinds import UnknownKindError
from podsched.serve.client.errors import Compacted, Unavailable
from podsched.serve.client.object_watch import ChangeType, watch_objects
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.api_objects import pod
from support.scripted_watches import Streams

pytestmark = pytest.mark.looptime


def raw(kind: int, name: str) -> RawWatchEvent:
    return RawWatchEvent(type=kind, object=v1.Object(pod=pod(name)).SerializeToString())


async def watched(streams: Streams, from_revision: int = 0) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    with pytest.raises(Compacted):
        async for change in watch_objects(streams, ["po"], from_revision=from_revision):
            found.append((change.type, change.object.metadata.name, change.revision))
    return found


async def test_what_exists_comes_first_and_then_its_changes() -> None:
    streams = Streams(
        (
            [
                RawWatchResponse(events=[raw(v1.ADDED, "a")]),
                RawWatchResponse(events=[raw(v1.DELETED, "a")], revision=7),
            ],
            Unavailable("gone"),
        ),
        ([RawWatchResponse(events=[raw(v1.MODIFIED, "b")], revision=9)], Compacted("")),
    )
    assert await watched(streams) == [
        (ChangeType.ADDED, "a", 0),
        (ChangeType.DELETED, "a", 7),
        (ChangeType.MODIFIED, "b", 9),
    ]
    assert streams.asked == [(0, True), (7, False)], "it goes on where the connection broke"


async def test_what_is_gone_when_a_broken_list_begins_again_is_deleted() -> None:
    end = RawWatchResponse(revision=7, bookmark=True, initial_events_end=True)
    streams = Streams(
        (
            [RawWatchResponse(events=[raw(v1.ADDED, "a"), raw(v1.ADDED, "b")])],
            Unavailable("gone"),
        ),
        ([RawWatchResponse(events=[raw(v1.ADDED, "b")]), end], Unavailable("gone")),
        ([RawWatchResponse(events=[raw(v1.ADDED, "c")], revision=9)], Compacted("")),
    )
    assert await watched(streams) == [
        (ChangeType.ADDED, "a", 0),
        (ChangeType.ADDED, "b", 0),
        (ChangeType.ADDED, "b", 0),
        (ChangeType.DELETED, "a", 0),
        (ChangeType.ADDED, "c", 9),
    ]


async def test_a_watch_that_continues_after_one_of_several_changes_gets_the_rest() -> None:
    both = [raw(v1.ADDED, "a"), raw(v1.ADDED, "b")]
    streams = Streams(([RawWatchResponse(events=both, revision=9)], Compacted("")))
    assert await watched(streams, 5) == [(ChangeType.ADDED, "a", 5), (ChangeType.ADDED, "b", 9)]


async def test_an_object_that_cannot_be_decoded_is_left_out() -> None:
    broken = RawWatchEvent(type=v1.ADDED, object=b"\xff")
    streams = Streams(
        ([RawWatchResponse(events=[broken, raw(v1.ADDED, "a")], revision=3)], Compacted(""))
    )
    assert await watched(streams, 2) == [(ChangeType.ADDED, "a", 3)]


async def test_an_unknown_kind_is_the_callers_mistake() -> None:
    with pytest.raises(UnknownKindError):
        await anext(watch_objects(Streams(), ["widgets"]))
