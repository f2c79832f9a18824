"""Watches that are scripted: responses, and how each ends."""

from __future__ import annotations

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
