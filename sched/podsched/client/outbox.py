"""Writes that many parts of a process ask for, sent in batches, the newest for each key.

Guarantees: a key has at most one write waiting; batches go out one after another, each as soon as
the one before it has been answered, so that load makes batches larger and not more; an outage is
waited out with growing pauses, and what failed as a whole is sent again unless a newer write for
the same key has come. What became of each item is told to its owner, who decides anew.

Not for writes that must all happen: only the last one for a key does.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from podsched.client.errors import ClientError
from podsched.lib.backoff import Backoff
from podsched.v1.api_pb2 import BatchResult

log = logging.getLogger(__name__)

T = TypeVar("T")
Send = Callable[[Sequence[T]], Awaitable[Sequence[BatchResult]]]
Answered = Callable[[str, T, BatchResult], None]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Outbox(Generic[T]):
    """Collects writes by key; `run` sends them until cancelled.

    send: writes a batch; raises ClientError when it fails as a whole. answered: told what became of
    each item. most: items in a batch.
    """

    def __init__(
        self,
        send: Send[T],
        answered: Answered[T] | None = None,
        *,
        most: int = 500,
        jitter: random.Random | None = None,
    ) -> None:
        self._send = send
        self._answered = answered
        self._most = most
        self._jitter = jitter or random.Random()
        self._waiting: dict[str, T] = {}
        self._something = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, item: T) -> None:
        """Send this for the key, instead of what was waiting for it."""
        self._waiting[key] = item
        self._something.set()

    def drop(self, key: str) -> None:
        """Return what was waiting for the key is not to be sent any more."""
        self._waiting.pop(key, None)

    async def run(self) -> None:
        """Send until cancelled. Errors that sending again cannot mend end it, unless retryable."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._jitter.random)
        while True:
            await self._something.wait()
            batch = self._take()
            if not batch:
                self._something.clear()
                continue
            try:
                results = await self._send([item for _, item in batch])
            except ClientError as error:
                if not error.retryable:
                    raise
                log.info("a batch of %d writes has to wait: %s", len(batch), error)
                self._put_back(batch)
                await asyncio.sleep(backoff.next_delay())
                continue
            backoff.reset()
            if self._answered is not None:
                for (key, item), result in zip(batch, results, strict=True):
                    self._answered(key, item, result)

    def _take(self) -> list[tuple[str, T]]:
        if len(self._waiting) <= self._most:
            batch = list(self._waiting.items())
            self._waiting.clear()
            return batch
        keys = [key for key, _ in zip(self._waiting, range(self._most), strict=False)]
        return [(key, self._waiting.pop(key)) for key in keys]

    def _put_back(self, batch: list[tuple[str, T]]) -> None:
        """In front of what has come meanwhile."""
        self._waiting = {**dict(batch), **self._waiting}
