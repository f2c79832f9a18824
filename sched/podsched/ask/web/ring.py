"""The latest deltas, for all browsers."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import Any, NamedTuple

import orjson

#: Max deltas kept for browsers that lag or connect again.
_KEPT_DELTAS = 60
_KEPT_BYTES = 16 << 20
#: Seconds without a delta after which a keep-alive comment is sent.
_QUIET = 10.0

STILL_HERE = b": still here\n\n"


class _Sent(NamedTuple):
    number: int
    message: bytes


class Ring:
    """The deltas by number; a browser's position is the epoch and the number of the last one."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._moved = asyncio.Event()
        self.start_over()

    def start_over(self) -> None:
        """Begin anew: no earlier position is valid."""
        self._epoch, self._number = secrets.token_hex(4), 0
        self._sent.clear()
        self._bytes = 0

    @property
    def position(self) -> str:
        return f"{self._epoch}-{self._number}"

    def after(self, epoch: str, number: int) -> list[_Sent] | None:
        """Return the deltas after a position; None if some of them have been dropped."""
        if epoch != self._epoch or not 0 <= number <= self._number:
            return None
        oldest = self._number - len(self._sent)
        if number < oldest:
            return None
        return [sent for sent in self._sent if sent.number > number]

    async def wait(self) -> bytes:
        """Wait for a delta; return the bytes to send meanwhile, b"" if one has come."""
        try:
            async with asyncio.timeout(_QUIET):
                await self._moved.wait()
        except TimeoutError:
            return STILL_HERE
        return b""

    def send(self, delta: dict[str, Any], now: float) -> None:
        """Keep a delta for all browsers; ``now``: Unix time."""
        self._number += 1
        data = orjson.dumps({"time": round(now, 1), **delta})
        message = b"id: %s-%d\ndata: %s\n\n" % (self._epoch.encode(), self._number, data)
        self._sent.append(_Sent(self._number, message))
        self._bytes += len(message)
        while len(self._sent) > _KEPT_DELTAS or self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._sent.popleft().message)
        self.wake()

    def wake(self) -> None:
        """End all waiting."""
        self._moved.set()
        self._moved = asyncio.Event()
