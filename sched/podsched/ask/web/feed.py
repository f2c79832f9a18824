"""Sends browsers the whole state, then one delta per second, the same bytes to all.

    idle --first browser--> building --> live --no browser for a minute--> idle
                               ^          |
                               '----------'  changes were missed: all browsers start over

A browser has a position in the ring of the latest deltas, and no queue of its own. So a slow
browser takes no memory: when the delta at its position has been dropped, it has to start over.

The ``history`` of leaders and their load is kept also while no browser is connected.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, NamedTuple

import orjson

from podsched.ask.web.board import Board
from podsched.ask.web.history import History
from podsched.ask.web.sources import KINDS, ReadLeadership, Source
from podsched.lib.event_loop import Turn

#: Seconds between two deltas.
TICK = 1.0
#: Max browsers at once, of all callers and of one.
MOST_CLIENTS = 32
MOST_OF_CALLER = MOST_CLIENTS // 2
#: Max deltas kept for browsers that lag or connect again.
_KEPT_DELTAS = 60
_KEPT_BYTES = 16 << 20
#: Seconds without a delta after which a keep-alive comment is sent.
_QUIET = 10.0
#: Seconds without a browser after which the board is dropped.
_IDLE = 60.0
_LEVEL = 5

_STILL_HERE = b": still here\n\n"
RESET = b"event: reset\ndata: {}\n\n"

About = Callable[[], Mapping[str, Any]]
"""Returns facts for the page about the process that serves it."""


class TooManyBrowsersError(Exception):
    """Too many browsers are connected."""


class Snapshot(NamedTuple):
    """A state as JSON, and the same compressed with gzip."""

    plain: bytes
    compressed: bytes


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
            return _STILL_HERE
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


class Feed:
    """Keeps the board while browsers are connected, and the history always. ``run`` it once."""

    def __init__(
        self,
        source: Source,
        read_leadership: ReadLeadership,
        about: About,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._about = about
        self._wall = wall
        self._clock = clock
        self.board: Board | None = None
        self._read_leadership = read_leadership
        self._history = History()
        self._ring = Ring()
        self._snapshot: Snapshot | None = None
        self._lock = asyncio.Lock()
        #: Connected browsers by caller.
        self._clients: Counter[str] = Counter()
        self._last_seen = 0.0

    async def run(self) -> None:
        """Read the leadership and send deltas until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            await self.tick()

    async def tick(self) -> None:
        """Take a sample, send a delta, or stop following, as due."""
        async with self._lock:
            self._observe()
            if self.board is None:
                self._source.unfollow()  # the browser that let the board be built may have gone
                self._history.changes.clear()
                return
            if not self._clients and self._clock() - self._last_seen > _IDLE:
                self._source.unfollow()
                self.board = self._snapshot = None
                return
            await self._advance()

    async def state(self) -> Snapshot:
        """Return the whole state, at most a second old."""
        async with self._lock:
            board = await self._current_board()
            if self._snapshot is None:
                self._snapshot = await self._encoded_state(board)
            return self._snapshot

    async def followed(self) -> Board:
        """Return the board, at most a second old; it is kept current for at least ``_IDLE``."""
        async with self._lock:
            return await self._current_board()

    async def _current_board(self) -> Board:
        self._last_seen = self._clock()
        return self.board or await self._build()

    async def deltas(self, position: str, caller: str) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events after a position, until the browser has to start over.

        position: the id of a state or a delta. Raises TooManyBrowsersError.
        """
        clients = self._clients
        if clients.total() >= MOST_CLIENTS or clients[caller] >= MOST_OF_CALLER:
            raise TooManyBrowsersError
        clients[caller] += 1
        try:
            epoch, _, number = position.partition("-")
            after = (
                int(number) if number.isascii() and number.isdigit() and len(number) < 20 else -1
            )
            yield _STILL_HERE
            while self.board and (found := self._ring.after(epoch, after)) is not None:
                if found:
                    after = found[-1].number
                    yield b"".join(sent.message for sent in found)
                else:
                    yield await self._ring.wait()
            yield RESET
        finally:
            clients[caller] -= 1
            if not clients[caller]:
                del clients[caller]
            self._last_seen = self._clock()

    def _observe(self) -> None:
        now = self._wall()
        self._history.observe(self._read_leadership(now), now, self._clock())

    async def _build(self) -> Board:
        self._source.follow()
        board, turn = Board(), Turn()
        for kind in KINDS:
            for key in self._source.keys(kind):
                board.put(kind, key, self._source.get(kind, key))
                await turn.pause()
        board.delta()
        self._observe()
        self._history.changes.clear()
        self.board = board
        self._ring.start_over()
        self._snapshot = None
        return board

    async def _advance(self) -> None:
        board = self.board
        assert board is not None
        changed, turn = self._source.changed(), Turn()
        for kind, key in changed or ():
            board.put(kind, key, self._source.get(kind, key))
            await turn.pause()
        if changed is None or board.nodes.broken:
            await self._build()
            self._ring.wake()
            return
        delta = board.delta() | self._history.changes
        self._history.changes.clear()
        if delta:
            self._snapshot = None
            self._ring.send(delta, self._wall())

    async def _encoded_state(self, board: Board) -> Snapshot:
        state = {
            "id": self._ring.position,
            "time": round(self._wall(), 1),
            "process": dict(self._about()),
            **self._history.state(),
            **board.state(),
        }
        plain = orjson.dumps(state)
        return Snapshot(plain, await asyncio.to_thread(gzip.compress, plain, _LEVEL))
