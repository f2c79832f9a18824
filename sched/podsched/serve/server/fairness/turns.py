"""Lets long work of a call yield to other calls, and charges its time to the call's flow.

Work on many objects is done in turns (``Work``): after at most a few milliseconds it charges the
time used and waits until its flow may continue (``Seat.give_way``). The seat of the current call is
in a context variable, so that code far from the transport need not pass it on.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from podsched.lib.event_loop import Turn
from podsched.serve.server.fairness.flows import LONGEST_PAUSE, Flow, Flows

T = TypeVar("T")

#: Cost of a call in seconds of the event loop: fixed, per item of a batch, per byte of the request
#: and of a response of a watch. Measured on one core; answering and refusing cost about the same,
#: because most of it is gRPC's.
CALL_SECONDS: Final = 400e-6
ITEM_SECONDS: Final = 100e-6
RECEIVED_BYTE, SENT_BYTE = 1e-9, 6e-9
#: Total cost of an object, in multiples of the measured time to admit or encode it: storing and
#: sending it come on top.
_AFTERWARDS: Final = 1.5
#: Max seconds that work blocks the event loop while flows compete. While none compete, it continues
#: until the end of the loop's round (``lib.event_loop``).
_SHORT_TURN: Final = 0.002
#: Max seconds of a turn for a call of a level that does not share the loop. It is longer, because
#: each turn adds a wait: a leader's batch of bindings takes 20 ms.
_PROTECTED_TURN: Final = 0.005
#: Min seconds between two turns of the lane, and max while calls keep arriving.
_GAP, _LONGEST_GAP = 0.0015, 0.03
#: Rounds of the event loop without a new call before a turn: on a busy machine, the gap may end
#: before a single round has.
_QUIET_ROUNDS: Final = 4
#: Writes that a competing flow sends to the store at once: one group commit
#: (``store.groupcommit.GroupLimits``).
_SHORT_BATCH: Final = 120
#: Max concurrent batches at the store of flows that use much, and max concurrent single writes. A
#: write takes 10 to 30 ms on a busy machine: with two, a client that created 100 pods a second
#: near its share waited for up to 3 s.
_BATCHES, _SINGLE_WRITES = 2, 30
_NO_LIMIT: Final = nullcontext()


class Lane:
    """Runs long work one turn at a time, with priority for arriving calls.

    gRPC passes calls to the event loop one by one, each in several rounds. If every round were as
    long as a turn of work, a hundred calls of one client would delay the next one by half a second.
    So after a turn only calls run for ``_GAP``, and while they keep arriving, no turn begins for up
    to ``_LONGEST_GAP``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_call = self._next_turn = -math.inf
        self._next = asyncio.Lock()

    def call_arrived(self) -> None:
        """Record the arrival of a call."""
        self._last_call = self._clock()

    async def turn(self) -> None:
        """Wait until the next turn may begin."""
        async with self._next:
            latest = self._clock() + _LONGEST_GAP
            while (now := self._clock()) < latest:
                pause = max(self._next_turn, self._last_call + _GAP) - now
                if pause > 0:
                    await asyncio.sleep(min(pause, latest - now))
                    continue
                last_call = self._last_call
                for _ in range(_QUIET_ROUNDS):
                    await asyncio.sleep(0)
                if self._last_call == last_call:
                    break
            self._next_turn = self._clock() + _SHORT_TURN + _GAP


class WriteLimits:
    """Limits the concurrent writes of flows that use much; one for all seats of a server."""

    def __init__(self) -> None:
        self._batches = asyncio.Semaphore(_BATCHES)
        self._single = asyncio.Semaphore(_SINGLE_WRITES)

    def of(self, writes: int) -> AbstractAsyncContextManager[None]:
        """Return the context manager to hold during a number of writes."""
        return self._single if writes == 1 else self._batches


class Seat:
    """The seat of a call, held while it is handled."""

    __slots__ = ("_clock", "_flows", "_lane", "_leave", "_limits", "flow")

    def __init__(
        self,
        flows: Flows,
        flow: Flow,
        clock: Callable[[], float],
        limits: WriteLimits,
        lane: Lane,
        leave: Callable[[Flow], None] | None,
    ) -> None:
        """Create the seat of one call.

        lane, limits: shared by all seats. leave: called once when the seat is released.
        """
        self._lane = lane
        self._flows = flows
        self._clock = clock
        self._limits = limits
        self._leave = leave
        self.flow = flow

    def leave(self) -> None:
        """Release the seat; a stream does so when it has begun."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave(self.flow)

    @property
    def turn(self) -> float:
        """Max seconds of a turn of long work."""
        if not self._flows.competing:
            return math.inf
        return _SHORT_TURN if self.flow.schema.level.shared else _PROTECTED_TURN

    @property
    def competes(self) -> bool:
        """Whether the flow currently has to share the event loop with others."""
        return self.flow.schema.level.shared and self._flows.competing

    def charge(self, seconds: float) -> None:
        """Charge time of the event loop to the flow."""
        self.flow.charge(seconds, self._clock())

    def writing(self, count: int) -> AbstractAsyncContextManager[None]:
        """Return a context manager to hold during writes; flows that use much wait to enter it.

        The store processes writes in order of arrival, so a large flow's writes delay all later
        ones.
        """
        if self._flows.is_far_below_share(self.flow, self._clock()):
            return _NO_LIMIT
        return self._limits.of(count)

    async def give_way(self) -> None:
        """Yield to other calls while the flow has used more than its share."""
        pause = self._flows.reserve_turn(self.flow, _SHORT_TURN, self._clock())
        await asyncio.sleep(min(pause, LONGEST_PAUSE))
        if not self._flows.is_far_below_share(self.flow, self._clock()):
            await self._lane.turn()

    async def sent(self, size: int) -> None:
        """Charge a response of a stream, and yield if the flow exceeds its share."""
        self.charge(CALL_SECONDS + size * SENT_BYTE)
        if self.competes:
            await self.give_way()


_current: ContextVar[Seat | None] = ContextVar("seat", default=None)


def current_seat() -> Seat | None:
    """Return the seat of the current call; None for the server's own work."""
    return _current.get()


def set_seat(seat: Seat) -> None:
    """Set the seat of the call that this task handles."""
    _current.set(seat)


class Work:
    """Splits work on many objects into turns, and charges its time."""

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
        """Whether to ``give_way`` now."""
        return self._turn.is_over or (
            self._longest < math.inf and time.perf_counter() - self._began > self._longest
        )

    async def give_way(self) -> None:
        """Yield to other calls, then begin the next turn."""
        await end_turn(time.perf_counter() - self._began)
        self._begin()

    def end(self) -> None:
        """Charge the last turn."""
        charge_call(time.perf_counter() - self._began)


async def in_turns(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Yield the items in parts, as turns of one ``Work``: it gives way between them."""
    work = Work()
    for start in range(0, len(items), size):
        yield items[start : start + size]
        if work.turn_is_over:
            await work.give_way()
    work.end()


def charge_call(seconds: float) -> None:
    """Charge seconds of work on objects to the flow of the current call."""
    seat = _current.get()
    if seat is not None:
        seat.charge(seconds * _AFTERWARDS)


def writes_at_once(count: int) -> int:
    """Return how many of a batch's ``count`` writes to send to the store together.

    A write waits for all earlier ones, so competing flows send few at a time.
    """
    seat = _current.get()
    return _SHORT_BATCH if seat is not None and seat.competes else count


def writing(count: int) -> AbstractAsyncContextManager[None]:
    """Return the context manager that the current call must hold during writes (``Seat``)."""
    seat = _current.get()
    return _NO_LIMIT if seat is None else seat.writing(count)


def large_response() -> AbstractAsyncContextManager[None]:
    """Return the context manager to hold while a large response is encoded; see ``Intake``."""
    intake = _intake()
    return _NO_LIMIT if intake is None else intake.large_response()


def former_state() -> AbstractAsyncContextManager[None]:
    """Return the context manager to hold while a former state is read; see ``Intake``."""
    intake = _intake()
    return _NO_LIMIT if intake is None else intake.former_state


def _intake() -> Any:
    seat = _current.get()
    return None if seat is None else seat.flow.intake


async def end_turn(seconds: float) -> None:
    """Charge a turn of ``seconds`` of work on objects, and yield to other calls."""
    seat = _current.get()
    if seat is None:
        await asyncio.sleep(0)
        return
    charge_call(seconds)
    await seat.give_way()
