"""The stream between a standby and the leader: learning at once that a process is gone.

Every replica runs a `Beacon`: a TCP listener that says the replica's identity and then holds the
connection open in silence. A standby follows the leader's beacon. When a process dies its kernel
resets its connections and refuses new ones, and both reach the standby within milliseconds.

Guarantee: a break is reported as confirmed only if the beacon of this identity was reached at this
address before, and the address now refuses connections. A paused process, a lost network or a
machine without power refuses nothing: those are left to the liveness key and the lease.
Non-goals: secrecy or proof of identity. A wrong report costs a term change and nothing else,
because writes are fenced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum

from podsched.lib.backoff import Backoff

#: Seconds to wait for a connection and for the identity.
_PATIENCE = 1.0
#: Seconds between tries. A dying process may still accept while its kernel closes its sockets one
#: after another, so that the first tries come fast.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 2.0
_LONGEST_IDENTITY = 512


class Beacon:
    """Accepts the standbys' streams for as long as this process lives."""

    def __init__(self, identity: str) -> None:
        self._greeting = identity.encode() + b"\n"
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Refuse new streams and end those that are open."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            writer.write(self._greeting)
            while await reader.read(64):
                pass  # a standby has nothing to say
        except OSError:
            pass  # it went away, which is its right
        finally:
            self._writers.discard(writer)
            writer.close()


class _Ending(Enum):
    """How one connection ended."""

    BROKEN = "said who it is, then broke"
    REFUSED = "nothing listens there"
    FAILED = "anything else"


async def follow(
    address: str,
    identity: str,
    report: Callable[[bool], None],
    *,
    chance: Callable[[], float],
) -> None:
    """Hold a stream to the beacon of this identity until cancelled.

    report(confirmed) is called at most once for a stream that broke: with True when the address
    refuses connections since, with False when the beacon answers again. While the address cannot be
    reached at all nothing is known and nothing reported.
    """
    broken = False
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, chance)
    while True:
        ending = await _attend(address, identity, back=_reporter(broken, report))
        if ending is _Ending.BROKEN:
            broken = True
            backoff.reset()
            continue
        if ending is _Ending.REFUSED and broken:
            broken = False
            report(True)
        await asyncio.sleep(backoff.next_delay())


def _reporter(broken: bool, report: Callable[[bool], None]) -> Callable[[], None]:
    def back() -> None:
        if broken:
            report(False)

    return back


async def _attend(address: str, identity: str, back: Callable[[], None]) -> _Ending:
    """One connection, from the first try to its end; back() is called when the beacon answers."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return _Ending.REFUSED
    except (OSError, ValueError):  # TimeoutError is an OSError
        return _Ending.FAILED
    try:
        async with asyncio.timeout(_PATIENCE):
            greeting = await reader.readuntil(b"\n")
        if greeting[:_LONGEST_IDENTITY].rstrip(b"\n") != identity.encode():
            return _Ending.FAILED
        back()
        with contextlib.suppress(OSError):
            while await reader.read(64):
                pass
        return _Ending.BROKEN
    except (OSError, EOFError, asyncio.LimitOverrunError):
        return _Ending.FAILED
    finally:
        writer.close()
