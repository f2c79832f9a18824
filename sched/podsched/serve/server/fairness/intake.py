"""How much of one client's requests the server reads before it handles them.

gRPC hands a call over when its headers have come; the message is read when somebody asks for it.
Until then a call costs no more than the window of its stream, 64 KiB. So who calls is asked first,
and of each flow only a few requests are read at a time, and none while many bytes of those before
are still being handled: fifty requests of 3 MiB, sent at once, are then 12 MiB and not 150.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from podsched.serve.server import errors

#: Requests of a flow that are read at a time, and bytes being handled above which none is.
MOST_READ: Final = 4
MOST_HELD: Final = 32 << 20
#: Seconds in which a request must have come.
READ_SECONDS: Final = 30.0


class Intake:
    """The requests of one flow that are being read and handled."""

    def __init__(self) -> None:
        self._reading = asyncio.Semaphore(MOST_READ)
        self._room = asyncio.Event()
        self.held = 0

    async def read(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read a request when there is room; ``let_go`` ends it. Raises ApiError."""
        async with self._reading:
            while self.held > MOST_HELD:
                self._room.clear()
                await self._room.wait()
            raw = await within_time(read)
        self.held += len(raw)
        return raw

    def let_go(self, size: int) -> None:
        """Note that a request of so many bytes has been handled."""
        self.held -= size
        self._room.set()


async def within_time(read: Callable[[], Awaitable[bytes]]) -> bytes:
    """Read a request. Raises ApiError when it does not come."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await read()
    except TimeoutError:
        raise errors.bad_request(f"the request has not come within {READ_SECONDS:g} s") from None
