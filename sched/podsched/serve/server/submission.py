"""Serves SubmitPods: collects the pods of a stream in a batch while the previous one is stored.

    reading   reads requests while the buffer has room; a full buffer stops the client by gRPC's
              flow control
    storing   takes all buffered requests, creates the pods as a batch and answers in order

So a busy stream is as efficient as ``CreatePods``, an idle one adds no delay, and a client can
occupy at most one buffer. A stream ended by the server answers every pod that it has read.

Measured with 5,000 nodes, in one run: with single calls, 32 of them concurrently, 983 pods/s, and
672 us of CPU a pod in the server; over one stream 2,340 to 2,500 pods/s and 160 us.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

from podsched.api.objects import Pod
from podsched.lib.tasks import in_background
from podsched.serve.server import errors
from podsched.serve.server.admission import MAX_OBJECT_BYTES
from podsched.serve.server.creation import Creator
from podsched.serve.server.requests import objects_in
from podsched.serve.server.status import batch_response
from podsched.v1.api_pb2 import SubmitPodsRequest

#: Max buffered pods of a stream, and their bytes: enough for a few group commits.
MAX_WAITING: Final = 500
MAX_WAITING_BYTES: Final = 4 << 20
#: Max concurrent streams; a client needs one.
MAX_STREAMS: Final = 200


class _Buffer:
    """A bounded buffer of undecoded requests; one task fills it, another empties it."""

    def __init__(self) -> None:
        self._requests: list[bytes] = []
        self._bytes = 0
        self._ended = False
        self._changed = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    async def fill(self, requests: AsyncIterator[bytes]) -> None:
        """Read until the end of the client's stream; ``end`` must follow."""
        async for raw in requests:
            # Of one that is too large, no more than tells so: it may have 16 MiB.
            request = raw[: MAX_OBJECT_BYTES + 1]
            self._requests.append(request)
            self._bytes += len(request)
            self._changed.set()
            if len(self._requests) >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
                self._free.clear()
                await self._free.wait()

    def end(self) -> None:
        """Note that nothing more comes."""
        self._ended = True
        self._changed.set()

    async def take(self) -> Sequence[bytes]:
        """Wait for requests and return all that came since the last call; empty at the end."""
        while not self._requests and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        taken, self._requests, self._bytes = self._requests, [], 0
        self._free.set()
        return taken


class PodSubmission:
    """Serves SubmitPods."""

    def __init__(self, creator: Creator) -> None:
        self._creator = creator
        self._closing = False
        self._reading: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop reading, so that the server can drain; pods already read are answered."""
        self._closing = True
        for task in self._reading:
            task.cancel()

    async def submit(self, requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield serialized SubmitPodsResponses. Raises ApiError."""
        if self._closing:
            raise errors.shutting_down()
        if len(self._reading) >= MAX_STREAMS:
            raise errors.overloaded(f"{MAX_STREAMS} streams of pods are being served already")
        buffer = _Buffer()
        async with in_background(buffer.fill(requests), "read submitted pods") as reading:
            self._reading.add(reading)
            # Not by the task itself: it may be cancelled before it has begun.
            reading.add_done_callback(lambda _: buffer.end())
            try:
                while taken := await buffer.take():
                    yield batch_response(await self._creator.create_many(objects_in(taken, _pod)))
                if self._closing:
                    raise errors.shutting_down()
                # Raises the error that ended the client's stream, if one did.
                await reading
            finally:
                self._reading.discard(reading)


def _pod(raw: bytes) -> Pod:
    return SubmitPodsRequest.FromString(raw).pod
