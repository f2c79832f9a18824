"""aiohttp's protocol of a connection, within limits on the work and memory of one client.

aiohttp parses all bytes that have arrived in one go. That takes 40 ms for 256 KiB of a body in
chunks of one byte, so that a hundred clients, even without credentials, would hold up all others
for seconds. Therefore a connection's bytes are parsed in pieces, and what costs much waits its
turn, while other connections go on:

    light --parsed for TURN_SECONDS--> waiting, reading is paused --``ReadingTurns``--> light

What a client sends before it reads the answers, and what is not body, is limited, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any, Final

from aiohttp import StreamReader, web

#: Bytes parsed at a time: with chunks of one byte, 0.4 ms.
PIECE: Final = 4 << 10
#: Seconds for which a connection may parse in one turn: an ordinary request takes 0.05 ms.
TURN_SECONDS: Final = 0.25e-3
#: Share of the loop's time for parsing that takes turns. To read what was parsed costs as much.
_SHARE: Final = 0.2
#: Share of the loop's time that a connection may parse without waiting for a turn.
_LIGHT: Final = 0.01
#: Max seconds until a turn: connections whose turns are planned may have been closed.
_LONGEST_WAIT: Final = 1.0
#: Max bytes of a request that are not its body: headers, sizes of chunks, trailers.
MAX_FRAMING: Final = 64 << 10
#: Requests of a connection that may wait for the answer to an earlier one. Clients hardly ever send
#: another request before they have the answer.
_MAX_WAITING: Final = 2
#: Max seconds for the answers to requests before one that cannot be parsed: a watch never ends.
_LAST_ANSWERS: Final = 10.0
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


class FramingError(web.RequestPayloadError):
    """A body has too many chunks for its size."""


class ReadingTurns:
    """Spaces the turns of connections whose bytes cost much to parse."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        """clock: seconds of work."""
        self.clock = clock
        self._free = -math.inf

    def after(self, spent: float, now: float) -> float:
        """Return when a connection that has parsed for ``spent`` seconds may go on."""
        self._free = min(max(self._free, now) + spent / _SHARE, now + _LONGEST_WAIT)
        return self._free


class Protocol(web.RequestHandler):
    """The protocol of one connection.

    It lets go of what it could not parse. The error of a malformed request and the frames that it
    passed refer to each other, and hold what was read. That would stay until a garbage collection,
    and for ever if it survives in numbers (``podsched.lib.memory``): 3,000 such requests took
    0.3 GB.
    """

    __slots__ = (
        "_body",
        "_cost",
        "_framing",
        "_may_have_stopped",
        "_parsed_at",
        "_spent",
        "_turn",
        "_turns",
        "_unparsed",
    )

    def __init__(self, server: web.Server, turns: ReadingTurns, options: Mapping[str, Any]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._max_msg_queue_size = _MAX_WAITING
        self._msg_queue_resume_size = 0
        self._turns = turns
        self._unparsed = memoryview(b"")
        #: Wakes the connection for its turn; set while it waits.
        self._turn: asyncio.Handle | None = None
        #: Seconds of parsing that count, and when they were counted last.
        self._spent = self._parsed_at = 0.0
        #: Seconds of parsing since ``take_cost``.
        self._cost = 0.0
        #: The body of the last request, and the bytes since its beginning that are not body.
        self._body: StreamReader | None = None
        self._framing = 0
        #: Whether aiohttp's parser may have stopped within the last piece, to go on when asked.
        self._may_have_stopped = False

    def data_received(self, data: bytes) -> None:
        if self._close or self._force_close:
            return
        if not data:  # aiohttp goes on with the bytes that it has
            self._parse_piece(data)
            return
        waiting = self._turn is not None or self._is_paused
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        if waiting:
            self._pause_transport_reading()
        else:
            self._parse()

    @property
    def _is_paused(self) -> bool:
        """Whether aiohttp can take no more bytes now."""
        return self._reading_paused or self._buffer_paused

    def _parse(self) -> None:
        """Parse until the end of the turn."""
        now = self._loop.time()
        self._spent = max(0.0, self._spent - (now - self._parsed_at) * _LIGHT)
        self._parsed_at = now
        began = self._turns.clock()
        spent = 0.0
        while self._unparsed and not self._is_paused and self._spent + spent < TURN_SECONDS:
            piece, self._unparsed = bytes(self._unparsed[:PIECE]), self._unparsed[PIECE:]
            self._parse_piece(piece)
            spent = self._turns.clock() - began
        self._spent += spent
        self._cost += spent
        if self._spent >= TURN_SECONDS and not (self._close or self._force_close):
            self._pause_transport_reading()
            if self._turn is not None:
                self._turn.cancel()
            self._turn = self._loop.call_at(self._turns.after(self._spent, now), self._go_on)
            self._spent = 0.0

    def _parse_piece(self, piece: bytes) -> None:
        requests, reading = self._request_count, self._body
        is_open = reading is not None and not reading.is_eof()
        body_before = reading.total_bytes if reading is not None else 0
        self._may_have_stopped |= bool(piece)
        super().data_received(piece)
        if self._request_count > requests and self._messages:
            message, self._body = self._messages[-1]
            self._framing = 0
            error: BaseException | None = getattr(message, "exc", None)
            if error is not None:
                if reading is not None and not reading.is_eof():
                    reading.set_exception(web.RequestPayloadError())
                self._end()
            while error is not None:
                error.__traceback__ = None
                error = error.__cause__ or error.__context__
            return
        if reading is not None and is_open and reading.is_eof():
            self._framing = 0
            return
        body = reading.total_bytes - body_before if reading is not None else 0
        self._framing += len(piece) - body
        if self._framing > MAX_FRAMING:
            self._refuse()

    def _refuse(self) -> None:
        """End the connection because of a request that has too much that is not its body."""
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(FramingError())
        elif not self._messages and not self._request_in_progress and self.transport is not None:
            self.transport.write(_TOO_LARGE)
            self.force_close()
        self._end()

    def _end(self) -> None:
        """Parse nothing more, and close the connection after the answers under way.

        As it is not read, a client that goes is not noticed, so the answers have a limit.
        """
        self._unparsed = memoryview(b"")
        self._pause_transport_reading()
        if self._turn is not None:
            self._turn.cancel()
        self._turn = self._loop.call_later(_LAST_ANSWERS, self.force_close)
        if self._waiter is None or self._waiter.done():
            self.close()

    def _go_on(self) -> None:
        """Parse and read on, unless aiohttp has paused meanwhile."""
        self._turn = None
        if self.transport is None:
            return
        try:
            if self._unparsed and not self._is_paused:
                self._parse()
        except BaseException:
            self.transport.abort()  # as asyncio does when bytes arrive
            raise
        if not self._is_paused:
            self._resume_transport_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp asks for it with each chunk that is read, paused or not: most of a chunk's cost.
        if self._reading_paused:
            super().resume_reading(resume_parser)
        elif resume_parser and self._may_have_stopped:
            # The parser may have stopped within the last piece though nothing is paused.
            self._may_have_stopped = False
            self.data_received(b"")

    def _resume_transport_reading(self) -> None:
        """Read on, which aiohttp asks for, but first parse what was read before."""
        if self._turn is not None:
            return
        if self._unparsed:
            self._turn = self._loop.call_soon(self._go_on)
        else:
            super()._resume_transport_reading()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if self._message_tail and self._upgraded and not self._messages:
            # Behind a request for another protocol, which is declined. aiohttp would parse it at
            # once, unseen here, and the body of a next request would count as framing.
            self._unparsed = memoryview(self._message_tail + self._unparsed)
            self._message_tail = b""
            self._framing = 0
            self._resume_reading_for_buffer()
        return await super().finish_response(request, resp, start_time)

    def take_cost(self) -> float:
        """Return the seconds that parsing has taken since the last call of this."""
        cost, self._cost = self._cost, 0.0
        return cost

    def hand_over(self) -> None:
        """Parse nothing more, because another protocol takes over the connection."""
        self._unparsed = memoryview(b"")
        self._message_tail = b""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
            self._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.hand_over()
        super().connection_lost(exc)
        self._body = None


def protocols(server: web.Server, options: Mapping[str, Any]) -> Callable[[], Protocol]:
    """Return what creates the protocol of each connection; options: of aiohttp's protocol."""
    turns = ReadingTurns()
    return lambda: Protocol(server, turns, options)
