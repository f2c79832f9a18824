"""Queues writes of many parts of a process, and sends them in batches.

Writes that arrive during a call are sent with the next one, so under load the batches get larger,
and the number of calls stays the same. A key has at most one waiting write: a newer one replaces
it, or is merged with it.

    put --> waiting --> sending --answered--> each item has its own result
               ^           |
               |           '--the whole call failed--> two halves --> ... --> one item: failed
               '-- retry --'   (if retryable, for at most ``retry_for`` seconds)

A call may fail as a whole with a permanent error because of one item. So the batch is bisected, and
only that item fails. If many items fail like this, the rest of the batch fails without further
calls. Only a lost fence, of a call or of one of its items, ends ``run``.

Each task that executes ``run`` makes one call at a time; several may run concurrently. Writes for
the same key are sent in order only if there is one such task.

Do not use it for writes that must all be executed: of several writes for a key, only the last is.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from podsched.api.reasons import StatusReason
from podsched.lib.backoff import Backoff
from podsched.serve.client.errors import ClientError, FenceLost, as_result, raise_if_fence_lost
from podsched.telemetry.logs import get_logger
from podsched.v1.api_pb2 import BatchResult

T = TypeVar("T")

_log = get_logger("outbox")

#: Seconds before a failed batch is sent again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
#: Max items of a batch isolated by bisection; with more, the items are not the cause.
_MOST_CULPRITS = 8


class Outbox(Generic[T]):
    """Collects writes by key; ``run`` sends them until cancelled."""

    def __init__(
        self,
        send: Callable[[Sequence[T]], Awaitable[Sequence[BatchResult | None]]],
        answered: Callable[[str, T, Any], None] | None = None,
        *,
        most: int = 500,
        merge: Callable[[T, T], T] = lambda _, later: later,
        retry_for: float = math.inf,
        given_up: Callable[[Sequence[T], ClientError], None] | None = None,
    ) -> None:
        """Create an outbox; nothing is sent before ``run``.

        send: writes a batch of at most ``most`` items and returns a result for each, None for an
            item that it has left out because it was dropped. Raises ClientError if the whole call
            fails.
        answered: called with key, item and result of each item, except for results None.
        merge: returns the item to send for the earlier and the later item of a key.
        retry_for: seconds for which a batch is sent again after retryable errors.
        given_up: called with the items that are not sent again, and the error. Without it,
            ``answered`` gets a result with the error for each.
        """
        self._send = send
        self._answered = answered
        self._most = most
        self._merge = merge
        self._retry_for = retry_for
        self._given_up = given_up
        #: Not a dict, where finding the oldest item looks at each item dropped before it.
        self._waiting: OrderedDict[str, T] = OrderedDict()
        self._under_way: list[dict[str, T]] = []
        #: Set while items may be waiting.
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._waiting)

    @property
    def calls(self) -> int:
        """Number of batches being sent, or waiting for a retry."""
        return len(self._under_way)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting or being sent."""
        return not self._waiting and not self._under_way

    def put(self, key: str, item: T) -> None:
        """Queue a write for the key, in place of a waiting one."""
        earlier = self._waiting.get(key)
        self._waiting[key] = item if earlier is None else self._merge(earlier, item)
        self._filled.set()

    def put_back(self, key: str, item: T) -> None:
        """Queue a write again that has just failed; a waiting one is later."""
        later = self._waiting.get(key)
        self._waiting[key] = item if later is None else self._merge(item, later)
        self._filled.set()

    def drop(self, key: str) -> None:
        """Remove the key's waiting write, and do not retry one being sent."""
        self._waiting.pop(key, None)
        for batch in self._under_way:
            batch.pop(key, None)

    def has(self, key: str) -> bool:
        """Return whether a write of the key is waiting or being sent."""
        return key in self._waiting or any(key in batch for batch in self._under_way)

    def is_wanted(self, item: T) -> bool:
        """Return whether an item that is being sent has not been dropped meanwhile."""
        return any(item is kept for batch in self._under_way for kept in batch.values())

    def drop_oldest(self) -> None:
        """Drop the write that has waited longest; there must be one."""
        self._waiting.popitem(last=False)

    async def run(self) -> None:
        """Send the queued writes until cancelled."""
        while True:
            await self.wait()
            await self.flush(self._most)

    async def wait(self) -> None:
        """Wait until a write is waiting; another task may take it first."""
        if not self._waiting:
            self._filled.clear()
            await self._filled.wait()

    async def flush(self, most: int) -> None:
        """Send up to ``most`` waiting items in one call, and wait for the outcome."""
        if len(self._waiting) <= most:
            batch: dict[str, T] = self._waiting
            self._waiting = OrderedDict()
        else:
            batch = dict(self._waiting.popitem(last=False) for _ in range(most))
        if not batch:
            return
        parts, culprits = [batch], 0
        self._under_way.append(batch)
        try:
            while parts:
                part = parts[-1]
                failure = await self._deliver(part)
                self._ended(parts.pop())
                # The part is empty if all its items were dropped while it was being sent.
                if failure is None or not part:
                    continue
                if len(part) > 1 and culprits < _MOST_CULPRITS and _may_be_of_one(failure):
                    halves = _halves(part)
                    parts += halves
                    self._under_way += halves
                else:
                    culprits += 1
                    self._give_up(part, failure)
        finally:
            for part in parts:
                self._ended(part)

    def _ended(self, batch: dict[str, T]) -> None:
        self._under_way = [other for other in self._under_way if other is not batch]

    async def _deliver(self, batch: dict[str, T]) -> ClientError | None:
        """Send a batch, with retries if useful; return the error if it failed as a whole.

        Raises:
            FenceLost: no write with this fence can succeed any more.
        """
        pause = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + self._retry_for
        while batch:
            sent = list(batch.items())
            try:
                results = await self._send([item for _, item in sent])
            except FenceLost:
                raise
            except ClientError as error:
                if not error.retryable or clock() >= give_up_at:
                    return error
                _log.info("A batch of writes has to wait", writes=len(sent), error=str(error))
                await asyncio.sleep(pause.next_delay())
                # Sent on its own after this batch, a newer write of a key would wait as long as the
                # retries last.
                for key in batch.keys() & self._waiting.keys():
                    batch[key] = self._merge(batch[key], self._waiting.pop(key))
                continue
            raise_if_fence_lost(results)
            if self._answered is not None:
                for (key, item), result in zip(sent, results, strict=True):
                    if result is not None:
                        self._answered(key, item, result)
            return None
        return None

    def _give_up(self, batch: dict[str, T], failure: ClientError) -> None:
        if self._given_up is not None:
            self._given_up(list(batch.values()), failure)
            return
        _log.warning(
            "Writes failed", writes=len(batch), first=next(iter(batch)), error=str(failure)
        )
        if self._answered is not None:
            result = as_result(failure)
            for key, item in batch.items():
                self._answered(key, item, result)


def _may_be_of_one(failure: ClientError) -> bool:
    """Return whether a call may have failed because of a single item."""
    return not failure.retryable and failure.reason != StatusReason.STORE_FULL


def _halves(batch: dict[str, T]) -> list[dict[str, T]]:
    """Split a batch into two halves, the later one first: ``flush`` sends the last part next."""
    items = list(batch.items())
    middle = len(items) // 2
    return [dict(items[middle:]), dict(items[:middle])]
