"""What ``sched events`` refuses before it asks a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podsched.api.objects import Event
from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.command_client import CommandClient
from support.commands import Commands


@pytest.mark.parametrize("subject", ["web-0", "pod"])
def test_events_are_those_of_an_object_with_its_kind(sched: Commands, subject: str) -> None:
    done = sched("events", "--for", subject)
    assert done.code == 2
    assert done.errors == [f'error: --for: "{subject}" is not KIND/NAME, such as pod/{subject}']


def test_an_event_that_expires_is_not_shown_again(
    sched: Commands, in_memory: CommandClient
) -> None:
    async def watched(request: v1.WatchRequest) -> AsyncIterator[RawWatchResponse]:
        event = Event(type="Normal", reason="Started")
        event.metadata.name, event.metadata.resource_version = "web.1", "10"
        for kind in (v1.ADDED, v1.DELETED):
            content = v1.Object(event=event).SerializeToString()
            yield RawWatchResponse(events=[RawWatchEvent(type=kind, object=content)], revision=10)
            event.metadata.resource_version = "11"
        raise ClientError("the end")

    in_memory.watch_stream = watched  # type: ignore[method-assign]
    assert sched("events", "-w").out.count("Started") == 1
