"""Limits the memory that a client's requests and unread responses can use.

gRPC starts a call when its headers have arrived; the message is read on demand. Until then a call
uses at most the flow-control window of its stream, 64 KiB. So the caller is authenticated first,
and then each flow may read only a few requests at a time, and none while the server holds many
bytes of its earlier ones. Fifty concurrent requests of 3 MiB then use 12 MiB instead of 150.

gRPC keeps a response until the client has read it or disconnects, and the server cannot discard it.
So large unread responses count as held bytes, and a flow's large responses are encoded one at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from podsched.serve.server import errors

T = TypeVar("T")

#: Max requests of a flow being read at a time.
MAX_READING: Final = 4
#: Bytes of a flow's requests and unread responses above which no further request is read.
MAX_HELD_BYTES: Final = 32 << 20
#: Responses of up to this many bytes are not counted while the client has not read them.
SMALL_RESPONSE: Final = 16 << 10
#: Seconds in which a request must arrive. The wait until it may be read has the same limit.
READ_SECONDS: Final = 30.0


class Intake:
    """Counts the bytes of one flow's requests and unread responses, and delays further ones."""

    def __init__(self) -> None:
        self._reading = asyncio.Semaphore(MAX_READING)
        self._answering = asyncio.Lock()
        self._room = asyncio.Event()
        #: Held while a list of a former state is read: hundreds of objects may come from etcd.
        self.former_state = asyncio.Lock()
        self._requests = 0
        self.held = 0

    @property
    def is_used(self) -> bool:
        """Whether bytes are counted, or requests are being read."""
        return bool(self.held or self._requests)

    async def read(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read a request within the limits; ``release`` must follow. Raises ApiError."""
        # Each wait has a limit: clients that never send their request would otherwise block the
        # flow's other requests for ever. What need not wait needs none; a timer takes 8 us.
        self._requests += 1
        try:
            acquire = self._reading.acquire
            await (within_time(acquire) if self._reading.locked() else acquire())
            try:
                if self.held > MAX_HELD_BYTES:
                    await within_time(self._room_made)
                raw = await within_time(read)
            finally:
                self._reading.release()
        finally:
            self._requests -= 1
        self.held += len(raw)
        return raw

    @asynccontextmanager
    async def large_response(self) -> AsyncIterator[None]:
        """Wait until a large response may be encoded; within the block no other of the flow may be.

        After the block, ``hold`` must count the response before any ``await``. Raises ApiError.
        """
        await within_time(self._answering.acquire)
        try:
            await within_time(self._room_made)
            yield
        finally:
            self._answering.release()

    async def _room_made(self) -> None:
        while self.held > MAX_HELD_BYTES:
            self._room.clear()
            await self._room.wait()

    def hold(self, size: int) -> None:
        """Count a response of ``size`` bytes until ``release``."""
        self.held += size

    def release(self, size: int) -> None:
        """Stop counting a request that has been handled, or a response that was read."""
        self.held -= size
        # Those that wait look again whether this is enough room.
        self._room.set()


async def within_time(read: Callable[[], Awaitable[T]]) -> T:
    """Await a function's result. Raises ApiError after READ_SECONDS."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await read()
    except TimeoutError:
        raise errors.bad_request(f"the request has not come within {READ_SECONDS:g} s") from None
