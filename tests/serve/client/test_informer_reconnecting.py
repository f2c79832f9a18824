"""How often a server is asked by an informer whose watches end. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.serve.client.informer import Informer
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse

pytestmark = pytest.mark.looptime


class Ending:
    """Says after each list or change how far it has come, and ends the watch after a while."""

    def __init__(self, end: ClientError, lasting: float = 0.0) -> None:
        self.end = end
        self.lasting = lasting
        self.asked = 0

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        self.asked += 1
        if self.asked > 5000:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        initial = request.send_initial_events
        yield RawWatchResponse(revision=self.asked, initial_events_end=initial)
        await asyncio.sleep(self.lasting)
        raise self.end


async def asked_within(seconds: float, source: Ending) -> int:
    informer = Informer(source, ["Pod"])
    following = asyncio.create_task(informer.run(lambda batch: None))
    await asyncio.sleep(seconds)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return source.asked


@pytest.mark.parametrize("end", [Unavailable("ended"), Compacted("too old")], ids=str)
async def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often(
    end: ClientError,
) -> None:
    assert await asked_within(60, Ending(end)) < 60


@pytest.mark.parametrize("end", [Unavailable("ended"), Compacted("too old")], ids=str)
async def test_a_watch_that_has_lasted_is_begun_again_soon(end: ClientError) -> None:
    assert await asked_within(301, Ending(end, lasting=30.0)) == 11
