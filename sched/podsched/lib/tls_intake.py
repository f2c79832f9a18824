"""What TLS connections receive, within limits on the work for one client.

A client can make OpenSSL work without a request: a handshake takes 1 ms of the event loop, each
change of keys 25 µs for 27 bytes. Therefore bytes of handshakes, and those of connections whose
bytes cost much, wait for a turn. All listeners of an event loop share the turns. They go to the
client addresses in rotation, and alternate between handshakes and other connections. So a client
waits for at most twice as many turns as there are addresses:

    handshake --complete--> light --TURN_SECONDS of work--> waiting, not read --turn--> light

Until the first bytes arrive, a connection has no buffers for TLS, which take 60 KB.
"""

from __future__ import annotations

import asyncio
import math
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from time import thread_time
from typing import Any, Final
from weakref import WeakKeyDictionary

from podsched.lib.groups import Groups

#: Bytes decrypted at a time: 75 changes of keys take 2 ms, and most requests are smaller.
_PIECE: Final = 2 << 10
#: Max bytes of a handshake from the client: a usual chain of certificates has up to 10 KiB. One of
#: 98 KB in which all have the same name takes OpenSSL 105 ms.
MAX_HANDSHAKE: Final = 32 << 10
#: Max bytes that TLS itself answers while the client does not read: each change of keys may ask for
#: one of the server's, of as many bytes.
MAX_ANSWERS: Final = 64 << 10
#: Seconds for which a connection may decrypt in one turn: a request takes 0.05 ms.
TURN_SECONDS: Final = 0.25e-3
#: Share of the loop's time for work that takes turns, and seconds of turns that may be taken in
#: advance: one handshake alone need not wait between its two halves.
_SHARE: Final = 0.25
_ADVANCE: Final = 0.02
#: Share of the loop's time for which a connection may decrypt without waiting for a turn.
_LIGHT: Final = 0.02

# The buffer of each TLS connection of the process for what it receives: two records. asyncio's
# 256 KiB made it 280 KB a connection, 560 MB for 2,000 watches; now it is 60 KB. As a client,
# reading 120 MB takes some 0.05 s more.
SSLProtocol.max_size = 32 << 10


class TlsTurns:
    """The turns of an event loop."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        """clock: seconds of work."""
        self.clock = clock
        #: Work of handshakes (True) and of other connections (False), which alternate. Each by
        #: address, in the order of the next turns.
        self._waiting = {
            handshake: Groups[str, Callable[[], None], None]() for handshake in (True, False)
        }
        self._was_handshake = True
        self._timer: asyncio.TimerHandle | None = None
        #: When the turns taken so far are paid for.
        self._paid = -math.inf

    def take(self, address: str, work: Callable[[], None], *, handshake: bool) -> None:
        """Do work of a client's connection when it is its turn, which may be at once."""
        if self._timer is None and asyncio.get_running_loop().time() >= self._paid - _ADVANCE:
            self._do(work)
        else:
            self._waiting[handshake].put(address, work, None)
            self._plan()

    def _do(self, work: Callable[[], None]) -> None:
        now, began = asyncio.get_running_loop().time(), self.clock()
        try:
            work()
        finally:
            self._paid = max(self._paid, now) + (self.clock() - began) / _SHARE

    def _plan(self) -> None:
        if self._timer is None and any(self._waiting.values()):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._paid - _ADVANCE, self._next)

    def _next(self) -> None:
        self._timer = None
        if self._waiting[not self._was_handshake]:
            self._was_handshake = not self._was_handshake
        work = self._waiting[self._was_handshake].next_in_turn()
        try:
            self._do(work)
        finally:
            self._plan()


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, TlsTurns] = WeakKeyDictionary()


class TlsIntake(asyncio.Protocol):
    """Between a socket's transport and asyncio's TLS, for which it is the transport."""

    def __init__(
        self,
        transport: asyncio.Transport,
        address: str,
        begin: Callable[[TlsIntake], None],
        lost: Callable[[], None],
        turns: TlsTurns | None = None,
    ) -> None:
        """Take over a transport.

        begin: called when the first bytes arrive, to start TLS over this object.
        lost: called if the connection is lost before.
        """
        self._transport = transport
        self._address = address
        self._begin: Callable[[TlsIntake], None] | None = begin
        self._lost = lost
        self._turns = turns or _TURNS.setdefault(asyncio.get_running_loop(), TlsTurns())
        self._tls: asyncio.BufferedProtocol | None = None
        self._unfed = memoryview(b"")
        self._is_waiting = self._is_paused = False
        #: Whether all bytes take turns, as they belong to a handshake; and how many these were.
        self._is_handshake = True
        self._handshake_bytes = 0
        #: Bytes that wait to be sent; and how many TLS itself has added since the client has read.
        self._unsent: Callable[[], int] = int
        self._answers = 0
        #: Seconds of work that count, and when they were counted last.
        self._spent = self._counted_at = 0.0
        transport.set_protocol(self)

    def __getattr__(self, name: str) -> Any:
        """Return a method of the transport: what TLS writes is not limited here."""
        return getattr(self._transport, name)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass what arrives to TLS."""
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._tls = protocol

    def secured(self, unsent: Callable[[], int]) -> None:
        """Note that the handshake is complete. unsent: returns the bytes that wait to be sent."""
        self._is_handshake = False
        self._unsent = unsent

    def pause_reading(self) -> None:
        """Pass on nothing until ``resume_reading``."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Pass on what has arrived meanwhile, and read on."""
        self._is_paused = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self._unfed = memoryview(bytes(self._unfed) + data if self._unfed else data)
        if self._begin is not None:
            # TLS begins in a task, and reads on when it has begun.
            begin, self._begin = self._begin, None
            self._is_paused = True
            self._transport.pause_reading()
            begin(self)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Pass on what has arrived, or wait for a turn."""
        if self._is_waiting or self._transport.is_closing():
            return
        if self._unfed and not self._is_paused:
            now = asyncio.get_running_loop().time()
            self._spent = max(0.0, self._spent - (now - self._counted_at) * _LIGHT)
            self._counted_at = now
            if self._is_handshake or self._spent >= TURN_SECONDS:
                self._is_waiting = True
                self._transport.pause_reading()
                self._turns.take(self._address, self._turn, handshake=self._is_handshake)
                return
            self._feed()
        if self._unfed:
            self._transport.pause_reading()
            if not self._is_paused:
                self._go_on()
        elif not self._is_paused:
            self._transport.resume_reading()

    def _turn(self) -> None:
        self._is_waiting = False
        if not self._transport.is_closing():
            self._spent = 0.0
            self._feed()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _feed(self) -> None:
        """Pass on bytes until the end of a turn."""
        began, before = self._turns.clock(), self._spent
        while self._unfed and not self._is_paused and self._spent < TURN_SECONDS:
            if self._tls is None or self._transport.is_closing():
                self._unfed = memoryview(b"")
                return
            piece, self._unfed = self._unfed[:_PIECE], self._unfed[_PIECE:]
            unsent = self._unsent()
            try:
                self._tls.get_buffer(len(piece))[: len(piece)] = piece  # type: ignore[index]
                self._tls.buffer_updated(len(piece))
            except BaseException:
                self._transport.abort()  # as asyncio does when bytes arrive
                raise
            self._spent = before + self._turns.clock() - began
            self._answers += self._unsent() - unsent
            if self._answers > MAX_ANSWERS:
                self._transport.abort()
            if self._is_handshake:
                # No more in this turn: only after it, ``secured`` tells whether that was the end.
                self._handshake_bytes += len(piece)
                if self._handshake_bytes > MAX_HANDSHAKE:
                    self._transport.abort()
                return

    def eof_received(self) -> bool | None:
        return self._tls.eof_received() if self._tls is not None else None

    def pause_writing(self) -> None:
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._answers = 0
        if self._tls is not None:
            self._tls.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unfed = memoryview(b"")
        if self._tls is not None:
            self._tls.connection_lost(exc)
        else:
            self._lost()
