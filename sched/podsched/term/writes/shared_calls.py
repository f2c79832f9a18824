"""Combine the requests of many tasks into one call; each task waits for its own answer.

Evictions, and the writes of PreBind plugins, are sent this way. Each request gets its own answer,
so that one failure does not affect other tasks.

Non-goal: retries. A call whose outcome is unknown must not be repeated; the caller starts over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError
from podsched.serve.client.outbox import Outbox
from podsched.v1 import api_pb2

T = TypeVar("T")

#: Requests in one call at most, and calls at a time.
BATCH = 256
IN_FLIGHT = 2

Results = Sequence[api_pb2.BatchResult]


class _Request(NamedTuple, Generic[T]):
    """A message, and where its result goes."""

    message: T
    answer: asyncio.Future[api_pb2.BatchResult]


class SharedCalls(Generic[T]):
    """Sends the messages of several tasks in one call; each task gets its own results."""

    def __init__(self, send: Callable[[Sequence[T]], Awaitable[Results]]) -> None:
        """``send`` returns a result for each message and raises ClientError."""
        self._send_messages = send
        self._outbox: Outbox[_Request[T]] = Outbox(
            self._send, self._answered, most=BATCH, retry_for=0.0, given_up=self._failed
        )
        self._numbers = count()

    def start(self, tasks: TaskSet, name: str) -> None:
        """Start the workers that make the calls."""
        for number in range(IN_FLIGHT):
            tasks.start(self._outbox.run(), f"{name} {number}", endless=True)

    @property
    def is_idle(self) -> bool:
        """Whether no message waits for its answer."""
        return self._outbox.is_idle

    async def call(self, messages: Sequence[T]) -> Results:
        """Return the results, parallel to the messages.

        Raises:
            ClientError: a call that had a part of the messages failed as a whole.
        """
        loop = asyncio.get_running_loop()
        requests = [_Request(message, loop.create_future()) for message in messages]
        # A new key for each: the outbox sends only the last write of a key.
        for request in requests:
            self._outbox.put(str(next(self._numbers)), request)
        return await asyncio.gather(*(request.answer for request in requests))

    async def _send(self, requests: Sequence[_Request[T]]) -> Results:
        return await self._send_messages([request.message for request in requests])

    def _answered(self, _: str, request: _Request[T], result: api_pb2.BatchResult) -> None:
        if not request.answer.done():  # The task may not wait any more.
            request.answer.set_result(result)

    def _failed(self, requests: Sequence[_Request[T]], failure: ClientError) -> None:
        for request in requests:
            if not request.answer.done():
                request.answer.set_exception(failure)
