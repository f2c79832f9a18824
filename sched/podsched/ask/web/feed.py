"""Sends browsers the whole state, then one delta per second, the same bytes to all.

    idle --first browser--> building --> live --no browser for a minute--> idle
                               ^          |
                               '----------'  changes were missed: all browsers start over

A browser has a position in the ring of the latest deltas, and no queue of its own. So a slow
browser takes no memory: when the delta at its position has been dropped, it has to start over.

The ``History`` of leaders and their load is kept also while no browser is connected.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from podsched.ask.web.board import Board
from podsched.ask.web.sources import KINDS, Leadership, Load, ReadLeadership, Source
from podsched.lib.event_loop import Turn

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
_LEVEL = 5

RESET = b"event: reset\ndata: {}\n\n"
_STILL_HERE = b": still here\n\n"

About = Callable[[], Mapping[str, Any]]
"""Returns facts for the page about the process that serves it."""

#: Seconds between two samples, and how many are kept: one hour.
PERIOD = 5.0
KEPT = 720
MOST_TERMS = 100
#: Age in seconds beyond which a replica's report of its load is too old for a sample.
_OLD = 30.0
Sample = list[float | int]
"""Time, pods bound and attempts failed per second, pods in the four queues, and the quantiles of
``Load`` in milliseconds. Without a leader, only the time."""


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
        board, turn = Board(), Turn()
        for kind in KINDS:
            for key in self._source.keys(kind):
                board.put(kind, key, self._source.get(kind, key))
                await turn.pause()
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
        changed, turn = self._source.changed(), Turn()
        for kind, key in changed or ():
            board.put(kind, key, self._source.get(kind, key))
            await turn.pause()
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


@dataclass(slots=True)
class Term:
    """The leadership of one replica, with times in Unix seconds.

    number: 0 while unknown; began: 0.0 if unknown; ended: 0.0 while it lasts.
    """

    leader: str
    number: int
    began: float
    ended: float


class History:
    """The last hour: leaders, and samples of the leader's load; bounded."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.terms: deque[Term] = deque(maxlen=MOST_TERMS)
        #: The last loads of all replicas as of the last sample, and seen since then: counts of a
        #: replica include its earlier terms.
        self._before: dict[str, Load] = {}
        self._since: dict[str, Load] = {}

    def see(self, leadership: Leadership, now: float) -> bool:
        """Note the leader and the loads; return whether the leader has changed."""
        # The Lease of a killed replica may be another process's when the next sample is taken.
        self._since |= {r.identity: r.load for r in leadership.replicas if r.load is not None}
        current = self.terms[-1] if self.terms else None
        leading = leadership.leading
        number = leading.term if leading is not None else 0
        if current is not None and not current.ended:
            if current.leader == leadership.leader and number in (0, current.number):
                return False
            if current.leader == leadership.leader and not current.number:
                # A new leader's Lease is seen before its first report, which tells the number.
                current.number = number
                return True
            current.ended = min(now, leadership.since) if leadership.since > current.began else now
        elif not leadership.leader:
            return False
        if leadership.leader:
            began = leadership.since
            if current is not None and began < current.ended:
                began = current.ended
            self.terms.append(Term(leadership.leader, number, began, 0.0))
        return True

    def sample(self, leadership: Leadership, now: float) -> Sample:
        """Take a sample of what was seen since the last one, and of the leader's queues now."""
        rounded = round(now, 1)
        leading = leadership.leading
        load = leading.load if leading is not None else None
        found: Sample = [rounded]
        if load is not None and now - load.at < _OLD:
            # Of all replicas: the leader may have been another one when the last sample was taken.
            rates = [_rates(self._before.get(name), its) for name, its in self._since.items()]
            found += [round(sum(each), 1) for each in zip(*rates, strict=True)]
            found += [load.active, load.backoff, load.waiting, load.gated]
            quantiles = (load.attempt_p50, load.attempt_p99, load.pod_p50, load.pod_p99)
            found += [round(1000 * seconds, 3) for seconds in quantiles]
        self._before, self._since = self._since, {}
        self.samples.append(found)
        return found

    def term_rows(self) -> list[list[Any]]:
        """Return the terms in the page's form."""
        return [[t.leader, t.number, round(t.began, 1), round(t.ended, 1)] for t in self.terms]


def _rates(before: Load | None, now: Load) -> tuple[float, float]:
    """Return bound pods and failed attempts per second between two loads of a replica."""
    if before is None or now.at <= before.at:
        return 0.0, 0.0
    seconds = now.at - before.at
    failed = now.unschedulable + now.errors - before.unschedulable - before.errors
    return max(0, now.scheduled - before.scheduled) / seconds, max(0, failed) / seconds
