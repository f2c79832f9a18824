"""Limits how many of a client's requests the server reads before it handles them.

gRPC starts a call when its headers have arrived; the message is read on demand. Until then a call
uses at most the window of its stream, 64 KiB. So the caller is authenticated first. Each flow may
have only a few requests being read at a time, and none while many bytes of earlier ones are being
handled: fifty concurrent requests of 3 MiB then use 12 MiB instead of 150.

gRPC keeps a response that the client does not read until the client reads it or disconnects, and
nothing can take it back. So large unread responses count as bytes being handled, and the pages of a
flow are encoded one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from podsched.serve.server import errors

T = TypeVar("T")

#: Max requests of a flow being read, and bytes being handled or unread above which none is read.
MOST_READ: Final = 4
MOST_HELD: Final = 32 << 20
#: Seconds in which a request must arrive; before, it may wait as long for its turn.
READ_SECONDS: Final = 30.0


class Intake:
    """The requests of one flow that are being read and handled."""

    def __init__(self) -> None:
        self._reading = asyncio.Semaphore(MOST_READ)
        self._answering = asyncio.Lock()
        self._room = asyncio.Event()
        self.held = 0

    async def read(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read a request within the limits; ``let_go`` must follow. Raises ApiError."""
        # Requests that do not come would otherwise keep those behind them waiting, without a limit.
        await within_time(self._reading.acquire)
        try:
            await within_time(self._room_made)
            raw = await within_time(read)
        finally:
            self._reading.release()
        self.held += len(raw)
        return raw

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Wait until a large response may be made, and hold up the flow's others. Raises ApiError.

        ``hold`` must follow without an ``await`` in between.
        """
        await within_time(self._answering.acquire)
        try:
            await within_time(self._room_made)
            yield
        finally:
            self._answering.release()

    async def _room_made(self) -> None:
        while self.held > MOST_HELD:
            self._room.clear()
            await self._room.wait()

    def hold(self, size: int) -> None:
        """Count a response of ``size`` bytes until ``let_go``, when the client has read it."""
        self.held += size

    def let_go(self, size: int) -> None:
        """End a request of ``size`` bytes that has been handled, or a response that was read."""
        self.held -= size
        self._room.set()


async def within_time(read: Callable[[], Awaitable[T]]) -> T:
    """Read a request, or wait for a turn. Raises ApiError after READ_SECONDS."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await read()
    except TimeoutError:
        raise errors.bad_request(f"the request has not come within {READ_SECONDS:g} s") from None
