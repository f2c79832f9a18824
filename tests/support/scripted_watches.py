"""Watches that are scripted: responses, and how each ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse


class Streams:
    """A client of which only ``watch_stream`` works; ``asked`` has where each watch began."""

    def __init__(self, *streams: tuple[list[RawWatchResponse], ClientError]) -> None:
        self.asked: list[tuple[int, bool]] = []
        self._streams = list(streams)

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        """Yield the responses of the next stream, and raise how it ends."""
        self.asked.append((request.from_revision, request.send_initial_events))
        responses, end = self._streams.pop(0)
        for one in responses:
            yield one
        raise end


class Ending:
    """Answers each watch once, and ends it after a while: with an error, or None in good order."""

    def __init__(self, end: ClientError | None = None, lasting: float = 0.0) -> None:
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
        if self.end is not None:
            raise self.end
