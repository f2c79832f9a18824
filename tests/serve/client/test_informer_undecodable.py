"""An object that cannot be decoded is set aside, and the informer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from google.protobuf.message import DecodeError

from podsched.serve.client.errors import ClientError, Compacted, ServerBug
from podsched.serve.client.informer import Batch, Informer
from podsched.serve.client.undecodable import UNKNOWN, Identity, identify
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.api_objects import pod
from support.eventually import PATIENCE


def encoded(name: str) -> bytes:
    wrapped = v1.Object(pod=pod(name))
    wrapped.pod.metadata.resource_version = "7"
    return wrapped.SerializeToString()


def nested(name: str) -> bytes:
    """Return a pod that is nested deeper than protobuf decodes, with its revision appended."""
    wrapped = v1.Object()
    wrapped.pod.metadata.name, wrapped.pod.metadata.namespace = name, "default"
    inner = wrapped.pod.metadata.managed_fields.add()
    for _ in range(60):
        inner = inner.fields["f"].struct_value
    raw = wrapped.SerializeToString()
    with pytest.raises(DecodeError):
        v1.Object.FromString(raw)
    return raw


class Script:
    """A source that sends what it is told to, on one stream."""

    def __init__(self) -> None:
        self.faults: list[ClientError] = []
        self._responses: asyncio.Queue[RawWatchResponse] = asyncio.Queue()
        self._revision = 0

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        if self.faults:
            raise self.faults.pop()
        while True:
            yield await self._responses.get()

    def send(self, *objects: bytes, kind: int = v1.MODIFIED, listed: bool = False) -> int:
        self._revision += 1
        events = [RawWatchEvent(type=kind, object=raw) for raw in objects]
        self._responses.put_nowait(
            RawWatchResponse(events=events, revision=self._revision, initial_events_end=listed)
        )
        return self._revision


class Followed:
    """An informer of a script, and what its handler has seen."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.informer = Informer(script, ["Pod", "Node"])
        self.batches: list[Batch] = []
        self.task = asyncio.create_task(self.informer.run(self.batches.append))

    async def take(self, revision: int) -> list[tuple[str, str]]:
        """Return what has been delivered, when everything up to a revision has."""
        async with asyncio.timeout(PATIENCE):
            await self.informer.wait_for_revision(revision)
        return [(e.type.name, e.key) for batch in self.batches for e in batch.events]


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    followed = Followed(Script())
    yield followed
    followed.task.cancel()


async def test_a_list_is_taken_without_it(followed: Followed) -> None:
    script = followed.script
    revision = script.send(encoded("a"), nested("bad"), b"\xff", encoded("b"), listed=True)
    assert await followed.take(revision) == [("ADDED", "default/a"), ("ADDED", "default/b")]
    assert followed.informer.undecodable == 2


async def test_an_object_that_becomes_undecodable_is_gone_until_it_changes(
    followed: Followed,
) -> None:
    script = followed.script
    script.send(encoded("a"), encoded("b"), listed=True)
    revision = script.send(nested("a"), encoded("c"))
    events = await followed.take(revision)
    assert events[2:] == [("DELETED", "default/a"), ("ADDED", "default/c")]
    assert followed.informer.undecodable == 1
    events = await followed.take(script.send(encoded("a")))
    assert events[4:] == [("ADDED", "default/a")]
    assert followed.informer.undecodable == 0


async def test_its_deletion_ends_it(followed: Followed) -> None:
    script = followed.script
    script.send(encoded("a"), listed=True)
    script.send(nested("a"))
    events = await followed.take(script.send(nested("a"), kind=v1.DELETED))
    assert events == [("ADDED", "default/a"), ("DELETED", "default/a")]
    assert followed.informer.undecodable == 0


async def test_it_is_named_in_the_log_once(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[Identity] = []
    monkeypatch.setattr("podsched.serve.client.informer.log_undecodable", named.append)
    followed.script.send(encoded("a"), listed=True)
    followed.script.send(nested("bad"))
    await followed.take(followed.script.send(nested("bad")))
    assert named == [Identity("Pod", "default/bad")]


async def test_it_is_not_named_again_with_each_list(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[Identity] = []
    monkeypatch.setattr("podsched.serve.client.informer.log_undecodable", named.append)
    await followed.take(followed.script.send(nested("bad"), listed=True))
    followed.script.faults = [Compacted("the history is gone")]
    followed.informer.pace(1)
    await followed.take(followed.script.send(encoded("a")))  # the last of this stream
    await followed.take(followed.script.send(nested("bad"), nested("worse"), listed=True))
    assert [identity.key for identity in named] == ["default/bad", "default/worse"]


async def test_a_bug_of_the_server_is_waited_out() -> None:
    """A server that fails to serve the watch is no reason for its clients to end."""
    script = Script()
    script.faults = [ServerBug("internal error 1"), ServerBug("internal error 2")]
    followed = Followed(script)
    assert await followed.take(script.send(encoded("a"), listed=True)) == [("ADDED", "default/a")]
    followed.task.cancel()


@pytest.mark.parametrize(
    ("raw", "identity"),
    [
        (nested("x"), Identity("Pod", "default/x")),
        (encoded("y"), Identity("Pod", "default/y")),
        (b"\xff", UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_kind_and_key_are_seen_where_they_can_be(raw: bytes, identity: Identity) -> None:
    assert identify(raw) == identity


def test_a_name_that_is_no_text_is_unknown() -> None:
    assert identify(encoded("name").replace(b"name", b"\xff\xff\xff\xff")) == UNKNOWN
