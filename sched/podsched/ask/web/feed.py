"""Sends browsers the whole state, then one delta per second, the same bytes to all.

    idle --first browser--> building --> live --no browser for a minute--> idle
                               ^          |
                               '----------'  changes were missed: all browsers start over

A browser has a position in the ring of the latest deltas, and no queue of its own. So a slow
browser takes no memory: when the delta at its position has been dropped, it has to start over.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, NamedTuple

import orjson

from podsched.ask.web.board import Board
from podsched.ask.web.history import PERIOD, History
from podsched.ask.web.sources import KINDS, Leadership, ReadLeadership, Source

#: Seconds between two deltas.
TICK = 1.0
#: Max browsers at once, and max deltas kept for those that lag or connect again.
MOST_CLIENTS = 32
_KEPT_DELTAS = 60
_KEPT_BYTES = 16 << 20
#: Seconds without a browser after which the board is dropped.
_IDLE = 60.0
#: Seconds without a delta after which a keep-alive comment is sent.
_QUIET = 10.0
#: Objects read before other tasks of the event loop get their turn: some 3 ms.
_TURN = 200
_LEVEL = 5

RESET = b"event: reset\ndata: {}\n\n"
_STILL_HERE = b": still here\n\n"

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
        self._read_leadership = read_leadership
        self._about = about
        self._wall = wall
        self._clock = clock
        self.board: Board | None = None
        self._history = History()
        self._changes: dict[str, Any] = {}
        self._leadership: dict[str, Any] = {}
        self._next_sample = 0.0
        #: Random prefix of positions, new for each board: a position is valid for one board only.
        self._epoch = ""
        self._number = 0
        self._ring: deque[_Sent] = deque()
        self._bytes = 0
        self._snapshot: Snapshot | None = None
        self._moved = asyncio.Event()
        self._lock = asyncio.Lock()
        self.clients = 0
        self._last_seen = 0.0

    async def run(self) -> None:
        """Read the leadership and send deltas until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            await self.tick()

    async def tick(self) -> None:
        """Take a sample, send a delta, or stop following, as due."""
        async with self._lock:
            self._observe_leadership()
            if self.board is None:
                self._changes.clear()
                return
            if not self.clients and self._clock() - self._last_seen > _IDLE:
                self._source.unfollow()
                self.board = self._snapshot = None
                return
            await self._advance()

    # ------------------------------------------------------------------ requests of browsers

    async def state(self) -> Snapshot:
        """Return the whole state, at most a second old."""
        async with self._lock:
            board = await self._kept()
            if self._snapshot is None:
                self._snapshot = await self._encoded_state(board)
            return self._snapshot

    async def followed(self) -> Board:
        """Return the board, at most a second old; it is kept current for at least ``_IDLE``."""
        async with self._lock:
            return await self._kept()

    async def _kept(self) -> Board:
        self._last_seen = self._clock()
        return self.board or await self._build()

    async def deltas(self, position: str) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events after a position, until the browser has to start over.

        position: the id of a state or a delta. Raises TooManyBrowsersError.
        """
        if self.clients >= MOST_CLIENTS:
            raise TooManyBrowsersError
        self.clients += 1
        try:
            epoch, _, number = position.partition("-")
            after = (
                int(number) if number.isascii() and number.isdigit() and len(number) < 20 else -1
            )
            yield _STILL_HERE
            while (found := self._after(epoch, after)) is not None:
                if found:
                    after = found[-1].number
                    yield b"".join(sent.message for sent in found)
                else:
                    yield await self._wait()
            yield RESET
        finally:
            self.clients -= 1
            self._last_seen = self._clock()

    def _after(self, epoch: str, number: int) -> list[_Sent] | None:
        """Return the deltas after a position; None if some of them have been dropped."""
        if self.board is None or epoch != self._epoch or not 0 <= number <= self._number:
            return None
        oldest = self._number - len(self._ring)
        if number < oldest:
            return None
        return [sent for sent in self._ring if sent.number > number]

    async def _wait(self) -> bytes:
        """Wait for a delta; return the bytes to send meanwhile, b"" if one has come."""
        try:
            async with asyncio.timeout(_QUIET):
                await self._moved.wait()
        except TimeoutError:
            return _STILL_HERE
        return b""

    # ------------------------------------------------------------------ keeping it current

    def _observe_leadership(self) -> None:
        now = self._wall()
        found = self._read_leadership(now)
        if self._history.see(found, now):
            self._changes["terms"] = self._history.term_rows()
        if self._clock() >= self._next_sample:
            self._next_sample = self._clock() + PERIOD
            sample = self._history.sample(found, now)
            self._changes.setdefault("samples", []).append(sample)
        leadership = _leadership_row(found)
        if leadership != self._leadership:
            self._leadership = self._changes["leadership"] = leadership

    async def _build(self) -> Board:
        self._source.follow()
        board = Board()
        for kind in KINDS:
            for count, key in enumerate(self._source.keys(kind), 1):
                board.put(kind, key, self._source.get(kind, key))
                if not count % _TURN:
                    await asyncio.sleep(0)
        board.delta()
        self._observe_leadership()
        self._changes.clear()
        self.board = board
        self._epoch, self._number = secrets.token_hex(4), 0
        self._ring.clear()
        self._bytes = 0
        self._snapshot = None
        return board

    async def _advance(self) -> None:
        board = self.board
        assert board is not None
        changed = self._source.changed()
        for count, (kind, key) in enumerate(changed or (), 1):
            board.put(kind, key, self._source.get(kind, key))
            if not count % _TURN:
                await asyncio.sleep(0)
        if changed is None or board.broken:
            await self._build()
            self._wake()
            return
        delta = board.delta() | self._changes
        self._changes = {}
        if delta:
            self._send(delta)

    def _send(self, delta: dict[str, Any]) -> None:
        self._number += 1
        data = orjson.dumps({"time": round(self._wall(), 1), **delta})
        message = b"id: %s-%d\ndata: %s\n\n" % (self._epoch.encode(), self._number, data)
        self._ring.append(_Sent(self._number, message))
        self._bytes += len(message)
        while len(self._ring) > _KEPT_DELTAS or self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._ring.popleft().message)
        self._snapshot = None
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _encoded_state(self, board: Board) -> Snapshot:
        state = {
            "id": f"{self._epoch}-{self._number}",
            "time": round(self._wall(), 1),
            "process": dict(self._about()),
            "period": PERIOD,
            "leadership": self._leadership,
            "terms": self._history.term_rows(),
            "samples": list(self._history.samples),
            **board.state(),
        }
        plain = orjson.dumps(state)
        return Snapshot(plain, await asyncio.to_thread(gzip.compress, plain, _LEVEL))


def _leadership_row(found: Leadership) -> dict[str, Any]:
    """Return the leadership in the page's form, without loads: samples have these."""
    return {
        "lock": found.lock,
        "leader": found.leader,
        "since": round(found.since, 1),
        "transitions": found.transitions,
        "paused": found.paused,
        "replicas": [[r.identity, r.state, r.term, r.page] for r in found.replicas],
    }
