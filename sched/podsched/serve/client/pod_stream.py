"""Creates pods one by one over one stream.

A message on a stream costs client and server a sixth of the CPU of a call
(``serve.server.submission``).

    submit --room for one more unanswered pod--> sent --in order--> answered
                                                  '--the stream breaks--> OutcomeUnknown

``submit`` waits while the server accepts no more: for gRPC's flow control, and while
``MAX_UNANSWERED`` pods have no answer. A broken stream is not resumed: the caller opens another one
and decides about the pods without an answer (creating one again fails with AlreadyExists if it was
created).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Final

from google.protobuf.message import DecodeError

from podsched.api.objects import Pod
from podsched.api.trace_context import to_metadata
from podsched.lib.backoff import Backoff
from podsched.serve.client import errors
from podsched.serve.client.bidi_stream import BidiStream, open_bidi_stream
from podsched.serve.client.channels import Channels, ClientOptions
from podsched.serve.client.errors import ClientError, OutcomeUnknown, Unavailable
from podsched.v1 import api_pb2 as v1

METHOD: Final = "/podsched.v1.Pods/SubmitPods"
#: Max pods without an answer; enough for several group commits of the store.
MAX_UNANSWERED: Final = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class PodStream:
    """One stream of pods, from ``open_stream``; ``close`` or ``cancel`` it."""

    def __init__(self, stream: BidiStream) -> None:
        self._stream = stream
        self._unanswered: deque[asyncio.Future[v1.BatchResult]] = deque()
        self._room = asyncio.Semaphore(MAX_UNANSWERED)
        self._writing = asyncio.Lock()
        self._broken: ClientError | None = None
        self._answers = asyncio.create_task(self._read(), name="answers to submitted pods")

    async def submit(self, pod: Pod) -> asyncio.Future[v1.BatchResult]:
        """Send a pod; return a future result, which ``errors.of_result`` converts to an error.

        The future raises OutcomeUnknown if the stream breaks before the answer. Raises ClientError
        if it is already broken: nothing was sent. A call that is cancelled while it sends breaks
        the stream.
        """
        raw = v1.SubmitPodsRequest(pod=pod).SerializeToString()
        async with self._writing:
            await self._room.acquire()
            if self._broken is not None:
                self._room.release()
                raise self._broken
            answer: asyncio.Future[v1.BatchResult] = asyncio.get_running_loop().create_future()
            self._unanswered.append(answer)
            try:
                await self._write(raw)
            except asyncio.CancelledError:
                self.cancel()  # gRPC ends a stream of which a write is cancelled
                raise
            return answer

    async def close(self) -> None:
        """Wait for the outstanding answers. Raises ClientError if the stream broke."""
        async with self._writing:
            if self._broken is None:
                await self._stream.done_writing()
        # Awaiting the task itself would cancel it with this call.
        await asyncio.wait([self._answers])
        if self._broken is not None:
            raise self._broken
        self._answers.result()  # raises the error of a bug

    def cancel(self) -> None:
        """Fail the pods without an answer; no effect on a closed stream."""
        self._answers.cancel()
        self._stream.cancel()
        self._fail(Unavailable("the stream was cancelled"))

    async def _write(self, raw: bytes) -> None:
        try:
            await self._stream.write(raw)
        except ClientError as error:
            if self._broken is None:
                await asyncio.wait([self._answers])  # it has the cause, if there is one
            self._fail(error)

    async def _read(self) -> None:
        try:
            while (raw := await self._stream.read()) is not None:
                for result in v1.SubmitPodsResponse.FromString(raw).results:
                    self._settle(result)
            if self._unanswered:
                raise Unavailable("the server ended the stream")
        except ClientError as error:
            self._fail(error)
        except (IndexError, DecodeError, ValueError):
            self._fail(errors.Unreadable("a message on the stream is not an answer to a pod"))

    def _settle(self, result: v1.BatchResult) -> None:
        # The server answers in the order of the pods.
        answer = self._unanswered.popleft()
        self._room.release()
        if not answer.done():
            answer.set_result(result)

    def _fail(self, error: ClientError) -> None:
        self._broken = self._broken or error
        unknown = OutcomeUnknown(error.message, reason=error.reason)
        while self._unanswered:
            answer = self._unanswered.popleft()
            self._room.release()
            if not answer.done():
                answer.set_exception(unknown)
                answer.exception()  # callers need not await it, as ``close`` raises, too


async def open_stream(channels: Channels, options: ClientOptions) -> PodStream:
    """Open a stream to the first server that accepts it, within ``options.timeout``.

    Raises ClientError.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + options.timeout
    untried = max(len(channels.endpoints) - 1, 0)
    pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random, immediate=untried)
    while True:
        endpoint, left = channels.endpoint, deadline - clock()
        try:
            traced = to_metadata(options.traceparent)
            return PodStream(await open_bidi_stream(channels, METHOD, left, traced))
        except Unavailable:
            channels.leave(endpoint)
            delay = pauses.next_delay()
            tried_all = pauses.failures >= len(channels.endpoints) and not options.wait_for_server
            if tried_all or clock() + delay >= deadline:
                raise
        await asyncio.sleep(delay)
