"""How etcd's watch responses become batches."""

from __future__ import annotations

import pytest
from aetcd.rpc import kv_pb2, rpc_pb2

from podsched.serve.store.errors import Compacted, Unauthorized, Unavailable
from podsched.serve.store.watching import Assembler


def response(
    *revisions: int, at: int = 0, fragment: bool = False, **fields: object
) -> rpc_pb2.WatchResponse:
    """A response with an event of key /a/<n> per revision given."""
    return rpc_pb2.WatchResponse(
        header=rpc_pb2.ResponseHeader(revision=at or max(revisions, default=0)),
        events=[
            kv_pb2.Event(kv=kv_pb2.KeyValue(key=b"/a/%d" % n, mod_revision=revision))
            for n, revision in enumerate(revisions)
        ],
        fragment=fragment,
        **fields,
    )


def test_fragments_of_a_revision_are_joined() -> None:
    assembler = Assembler(("/a/",), 5)
    assert assembler.feed(response(5, 5, fragment=True)) is None
    assert assembler.feed(response(5, fragment=True)) is None
    batch = assembler.feed(response(5, 6))
    assert batch is not None
    assert [e.kv.mod_revision for e in batch.events] == [5, 5, 5, 5, 6]
    assert (batch.revision, assembler.position) == (6, 7)


def test_a_stream_that_breaks_between_fragments_resumes_at_the_incomplete_revision() -> None:
    assembler = Assembler(("/a/",), 5)
    assembler.feed(response(5))
    assembler.feed(response(6, fragment=True))
    assembler.reset()
    assert assembler.position == 6
    batch = assembler.feed(response(6, 6))
    assert batch is not None
    assert len(batch.events) == 2


def test_progress_moves_the_position_and_surfaces_as_an_empty_batch() -> None:
    assembler = Assembler(("/a/",), 5)
    assert assembler.feed(response(at=9)) == (9, ())
    assert assembler.position == 10
    assert assembler.feed(response(at=9)) is None, "no news twice"


def test_a_watch_from_the_future_makes_no_progress_before_it() -> None:
    assembler = Assembler(("/a/",), 50)
    assert assembler.feed(response(at=9)) is None
    assert assembler.position == 50


def test_a_watch_from_now_begins_after_the_revision_of_its_creation() -> None:
    assembler = Assembler(("/a/",), 0)
    assert assembler.feed(response(at=7, created=True)) == (7, ())
    assert assembler.position == 8
    assert assembler.feed(response(at=9, created=True)) is None, "created again on resume"
    assert assembler.position == 8


def test_changes_outside_the_prefixes_only_move_the_position() -> None:
    assembler = Assembler(("/a/1", "/b/"), 5)
    batch = assembler.feed(response(5, 6, 7))
    assert batch is not None
    assert [e.kv.key for e in batch.events] == ["/a/1"]
    assert batch.revision == 7
    assert assembler.feed(response(8)) is None
    assert assembler.position == 9


def test_a_compacted_start_is_refused_with_the_oldest_revision() -> None:
    with pytest.raises(Compacted) as refusal:
        Assembler(("/a/",), 5).feed(response(canceled=True, compact_revision=8))
    assert refusal.value.compact_revision == 8


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("rpc error: code = PermissionDenied desc = permission denied", Unauthorized),
        ("etcdserver: no leader", Unavailable),
    ],
)
def test_a_cancelled_watch_tells_a_refusal_from_an_outage(
    reason: str, fault: type[Exception]
) -> None:
    with pytest.raises(fault):
        Assembler(("/a/",), 5).feed(response(canceled=True, created=True, cancel_reason=reason))
