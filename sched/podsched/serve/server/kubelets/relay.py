"""Copies bytes between two connections until one of them ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from podsched.lib.tasks import until_first_ends

#: Bytes that are read ahead of a connection, and written at a time.
PIECE: Final = 64 << 10
#: Seconds without a byte in either direction after which both connections are closed, as the
#: kubelet's streamingConnectionIdleTimeout.
IDLE_SECONDS: Final = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A connection that is read and written."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """Close at once; unsent bytes are discarded."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Send what is unsent, within a second, and close."""
        self.writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self.writer.wait_closed()
        self.abort()


async def relay(one: Stream, other: Stream, passed: Callable[[int], Awaitable[None]]) -> None:
    """Copy in both directions until one side ends or none has sent a byte for ``IDLE_SECONDS``.

    A side that does not read stops the other side's reading: at most ``PIECE`` bytes wait beside
    the buffers of the two connections. passed: awaited after each piece, with its size. Closes
    both.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_SECONDS) as limit:

            async def copy(source: Stream, target: Stream) -> None:
                while data := await source.reader.read(PIECE):
                    target.writer.write(data)
                    await target.writer.drain()
                    limit.reschedule(loop.time() + IDLE_SECONDS)
                    await passed(len(data))

            await until_first_ends(
                {
                    "relay to the kubelet": copy(one, other),
                    "relay from the kubelet": copy(other, one),
                }
            )
    except TimeoutError:
        pass
    finally:
        await asyncio.gather(one.close(), other.close())
