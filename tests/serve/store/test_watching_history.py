"""What shows a watch, before it goes on, that etcd has the history that it has delivered."""

from __future__ import annotations

from typing import Any

import pytest
from aetcd.rpc import kv_pb2, rpc_pb2

from podsched.serve.store.errors import Restored
from podsched.serve.store.watching import Assembler

CLUSTER = 7


def header(revision: int, cluster: int = CLUSTER) -> Any:
    return rpc_pb2.ResponseHeader(cluster_id=cluster, revision=revision)


def assembler(*, deleted: bool = False) -> Assembler:
    """One that has delivered revision 10."""
    found = Assembler(["/a"], 5)
    kind = kv_pb2.Event.DELETE if deleted else kv_pb2.Event.PUT
    kv = kv_pb2.KeyValue(key=b"/a/x", mod_revision=10, value=b"" if deleted else b"v")
    event = kv_pb2.Event(type=kind, kv=kv)
    found.feed(rpc_pb2.WatchResponse(header=header(10), events=[event]))
    return found


def answer(revision: int, *kvs: Any, cluster: int = CLUSTER) -> Any:
    return rpc_pb2.RangeResponse(header=header(revision, cluster), kvs=kvs)


def stored(value: bytes = b"v", revision: int = 10) -> Any:
    return kv_pb2.KeyValue(key=b"/a/x", mod_revision=revision, value=value)


def test_the_last_event_is_asked_for_at_its_own_revision() -> None:
    assert assembler().proof() == rpc_pb2.RangeRequest(key=b"/a/x", revision=10)


def test_a_history_that_has_the_last_event_is_the_one_that_was_delivered() -> None:
    assembler().check(answer(25, stored()))
    assembler(deleted=True).check(answer(25))
    Assembler(["/a"], 5).check(answer(4))


@pytest.mark.parametrize(
    "found",
    [
        answer(9),
        answer(25, stored(), cluster=8),
        answer(25, stored(value=b"w")),
        answer(25, stored(revision=9)),
        answer(25),
    ],
    ids=["shorter", "another cluster", "another value", "another revision", "no such key"],
)
def test_another_history_is_found_also_when_it_has_come_further(found: Any) -> None:
    with pytest.raises(Restored, match="another history than the one seen up to revision 10"):
        assembler().check(found)


def test_a_deletion_that_did_not_happen_shows_another_history() -> None:
    with pytest.raises(Restored):
        assembler(deleted=True).check(answer(25, stored()))
