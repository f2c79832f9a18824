"""Hand-joined responses against the generated classes."""

from __future__ import annotations

import pytest

from podsched.api.kinds import KINDS, unwrap
from podsched.serve.server import frames
from podsched.v1 import api_pb2 as v1


@pytest.mark.parametrize("name", list(KINDS))
def test_every_kind_reads_back_with_its_resource_version(name: str) -> None:
    """The stored bytes with the version appended decode as the object with the version set."""
    kind = KINDS[name]
    item = kind.new()
    item.metadata.name = "x" * 200
    item.metadata.labels["a"] = "b"
    frame = frames.object_frame(kind, item.SerializeToString(), 123456789)
    read = unwrap(v1.Object.FromString(frame))
    item.metadata.resource_version = "123456789"
    assert read == item


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16383, 16384, 2**31, 2**63 - 1])
def test_varints_are_protobufs(number: int) -> None:
    """A revision written by hand reads back through the generated class."""
    raw = frames.watch_response([], number)
    assert v1.WatchResponse.FromString(raw).revision == number


def test_a_watch_response_reads_back() -> None:
    """Events keep type, order and object."""
    kind = KINDS["Pod"]
    item = kind.new()
    wrapped = []
    for name in ("a", "b" * 300):
        item.metadata.name = name
        wrapped.append(frames.object_frame(kind, item.SerializeToString(), 7))
    raw = frames.watch_response(
        [frames.event_frame(v1.ADDED, wrapped[0]), frames.event_frame(v1.DELETED, wrapped[1])], 7
    )
    response = v1.WatchResponse.FromString(raw)
    assert [e.type for e in response.events] == [v1.ADDED, v1.DELETED]
    assert [e.object.pod.metadata.name for e in response.events] == ["a", "b" * 300]
    assert (response.revision, response.bookmark) == (7, False)


def test_a_bookmark_reads_back() -> None:
    """A bookmark says how far the watch is, and whether the initial events are over."""
    response = v1.WatchResponse.FromString(frames.bookmark_response(9, initial_events_end=True))
    assert response == v1.WatchResponse(revision=9, bookmark=True, initial_events_end=True)


def test_a_list_response_reads_back() -> None:
    """Items, revision, token and remaining count are where the generated class looks for them."""
    kind = KINDS["Node"]
    item = kind.new()
    item.metadata.name = "n"
    frame = frames.list_item(frames.object_frame(kind, item.SerializeToString(), 5))
    response = v1.ListResponse.FromString(frames.list_response([frame, frame], 6, "token", 300))
    assert [o.node.metadata.resource_version for o in response.items] == ["5", "5"]
    assert response.resource_version == 6
    assert getattr(response, "continue") == "token"
    assert response.remaining_item_count == 300
