"""How long work on the event loop gives way to others: what a call accounts for while it runs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, TypeVar

from podsched.lib.event_loop import Turn
from podsched.serve.server.fairness.flows import Flow, Flows

T = TypeVar("T")

#: Seconds of the event loop that a call costs: by itself, per item of a batch, per byte of the
#: request and of a response of a watch. Measured on one core; a call costs as much whether it is
#: answered or refused, because most of that is gRPC's.
CALL_SECONDS: Final = 400e-6
ITEM_SECONDS: Final = 100e-6
RECEIVED_BYTE, SENT_BYTE = 1e-9, 6e-9
#: What storing or sending an object costs with admitting or encoding it, in multiples of the
#: latter.
_AFTERWARDS: Final = 1.5
#: The longest that work keeps the event loop from other calls while flows compete. While none do,
#: it goes on until the loop's round is over.
_SHORT_TURN: Final = 0.002
#: That of a call that never waits, while others compete: a leader's batch of bindings takes 20 ms.
_PROTECTED_TURN: Final = 0.005
#: Between two turns, at least, and as long as calls keep coming in.
_GAP, _LONGEST_GAP = 0.0015, 0.03
#: Rounds of the event loop without a call before a turn: on a machine that has other work to do, a
#: gap may be over before a single round was.
_QUIET_ROUNDS: Final = 4
#: One transaction of the store.
_SHORT_BATCH: Final = 120
_FREE: Final = nullcontext()
#: The longest that work gives way at once.
_LONGEST_PAUSE: Final = 1.0


class Lane:
    """Lets long work go on one turn at a time, and calls that come in before it.

    gRPC hands the calls of all connections to the event loop one by one, each in several of its
    rounds. If all rounds were as long as a turn of work, a hundred calls of one client would be
    half a second for the next one. So between two turns nothing but calls is done for ``_GAP``, and
    while they keep coming in, no turn begins for ``_LONGEST_GAP``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._came = self._free = -math.inf
        self._next = asyncio.Lock()

    def call_came(self) -> None:
        """Note that a call has come in."""
        self._came = self._clock()

    async def turn(self) -> None:
        """Wait until the next turn may begin."""
        async with self._next:
            latest = self._clock() + _LONGEST_GAP
            while (now := self._clock()) < latest:
                pause = max(self._free, self._came + _GAP) - now
                if pause > 0:
                    await asyncio.sleep(min(pause, latest - now))
                    continue
                came = self._came
                for _ in range(_QUIET_ROUNDS):
                    await asyncio.sleep(0)
                if self._came == came:
                    break
            self._free = self._clock() + _SHORT_TURN + _GAP


class Seat:
    """What a call holds while it is handled."""

    __slots__ = ("_clock", "_flows", "_lane", "_leave", "_writes", "flow")

    def __init__(
        self,
        flows: Flows,
        flow: Flow,
        clock: Callable[[], float],
        writes: asyncio.Semaphore,
        lane: Lane,
        leave: Callable[[Flow], None] | None,
    ) -> None:
        """leave: is told once that the seat is given back; writes: as ``writing`` uses it."""
        self._lane = lane
        self._flows = flows
        self._clock = clock
        self._writes = writes
        self._leave = leave
        self.flow = flow

    def leave(self) -> None:
        """Give the seat back; a stream does so when it has begun."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave(self.flow)

    @property
    def turn(self) -> float:
        """Seconds after which long work should give way, if the loop's round lasts as long."""
        if not self._flows.competing:
            return math.inf
        return _SHORT_TURN if self.flow.schema.level.shared else _PROTECTED_TURN

    @property
    def competes(self) -> bool:
        """Whether the flow has to share the event loop with others at the moment."""
        return self.flow.schema.level.shared and self._flows.competing

    def charge(self, seconds: float) -> None:
        """Account for work of the event loop."""
        self.flow.charge(seconds, self._clock())

    def writing(self) -> AbstractAsyncContextManager[None]:
        """Return what to hold while sending something to the store; flows that use much wait.

        The store takes writes in the order in which they come; what one such flow sends is a
        delay for everyone behind it.
        """
        return _FREE if self._flows.is_small(self.flow, self._clock()) else self._writes

    async def give_way(self) -> None:
        """Let others on, as long as the flow has used more than its share."""
        pause = self._flows.turn_after(self.flow, _SHORT_TURN, self._clock())
        await asyncio.sleep(min(pause, _LONGEST_PAUSE))
        if not self._flows.is_small(self.flow, self._clock()):
            await self._lane.turn()

    async def sent(self, size: int) -> None:
        """Account for a response of a stream, and give way if that was too much."""
        self.charge(CALL_SECONDS + size * SENT_BYTE)
        if self.competes:
            await self.give_way()


_current: ContextVar[Seat | None] = ContextVar("seat", default=None)


def current_seat() -> Seat | None:
    """Return the seat of the call under way; None for what the server does by itself."""
    return _current.get()


def set_seat(seat: Seat) -> None:
    """Set the seat of the call that this task handles."""
    _current.set(seat)


class Work:
    """Work on many objects, in turns; its time is accounted for."""

    __slots__ = ("_began", "_longest", "_turn")

    def __init__(self) -> None:
        self._turn = Turn()
        self._begin()

    def _begin(self) -> None:
        seat = _current.get()
        self._longest = math.inf if seat is None else seat.turn
        self._turn.begin()
        self._began = time.perf_counter()

    @property
    def turn_is_over(self) -> bool:
        """Whether it is time to ``give_way``."""
        return self._turn.is_over or (
            self._longest < math.inf and time.perf_counter() - self._began > self._longest
        )

    async def give_way(self) -> None:
        """Let others on, then begin the next turn."""
        await end_turn(time.perf_counter() - self._began)
        self._begin()

    async def in_parts(self, items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
        """Yield the items in parts, giving way between them when it is time."""
        for start in range(0, len(items), size):
            yield items[start : start + size]
            if self.turn_is_over:
                await self.give_way()

    def end(self) -> None:
        """Account for the last turn."""
        account(time.perf_counter() - self._began)


def account(seconds: float) -> None:
    """Account for work on objects that took so long."""
    seat = _current.get()
    if seat is not None:
        seat.charge(seconds * _AFTERWARDS)


def parts_of(count: int) -> int:
    """Return how many of a batch's writes to send to the store at once.

    A write waits for all that were sent before it, so flows that compete send little at a time.
    """
    seat = _current.get()
    return _SHORT_BATCH if seat is not None and seat.competes else count


def writing() -> AbstractAsyncContextManager[None]:
    """Return what to hold while writing to the store."""
    seat = _current.get()
    return _FREE if seat is None else seat.writing()


async def end_turn(seconds: float) -> None:
    """Account for a turn of work on objects that took so long, and give way."""
    seat = _current.get()
    if seat is None:
        await asyncio.sleep(0)
        return
    account(seconds)
    await seat.give_way()
