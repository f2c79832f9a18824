"""The stream on which a scheduler replica gets questions from an API server and sends answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from google.protobuf.message import DecodeError

from podsched.serve.client.bidi_stream import BidiStream, open_bidi_stream
from podsched.serve.client.channels import Channels
from podsched.serve.client.errors import Unavailable, Unreadable
from podsched.v1.scheduling_pb2 import Question, ReplicaMessage

METHOD: Final = "/podsched.v1.Scheduling/Answer"

#: Keys of a stream's initial metadata: the index of the server's process among those that share its
#: address, and their number.
WORKER, WORKERS = "podsched-worker", "podsched-workers"
#: Max accepted number of workers.
_MOST_WORKERS: Final = 256


class QuestionStream:
    """One stream; methods raise ClientError if it is broken."""

    def __init__(self, stream: BidiStream, metadata: Mapping[str, Any]) -> None:
        """metadata: the server's initial metadata."""
        self._stream = stream
        self._writing = asyncio.Lock()
        #: Index of the process among those that share the server's address, and their number.
        self.worker = _number(metadata.get(WORKER), 0)
        self.workers = _number(metadata.get(WORKERS), 1)

    async def send(self, message: ReplicaMessage) -> None:
        """Send a message; may be called by several tasks."""
        raw = message.SerializeToString()
        async with self._writing:
            await self._stream.write(raw)

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions until the stream breaks."""
        try:
            while (raw := await self._stream.read()) is not None:
                yield Question.FromString(raw)
        except DecodeError:
            raise Unreadable("a message on the stream is not a question") from None
        raise Unavailable("the server ended the stream")


@asynccontextmanager
async def open_question_stream(channels: Channels, timeout: float) -> AsyncIterator[QuestionStream]:
    """Open a stream to the server in use, within ``timeout`` seconds. Raises ClientError."""
    endpoint = channels.endpoint
    try:
        stream = await open_bidi_stream(channels, METHOD, timeout)
        try:
            yield QuestionStream(stream, await stream.metadata())
        finally:
            stream.cancel()
    finally:
        channels.leave(endpoint)  # so that the next stream uses certificates that have changed


def _number(text: object, default: int) -> int:
    number = int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else default
    return min(number, _MOST_WORKERS)
