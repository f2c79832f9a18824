"""Measures the lag of an event loop, and makes tasks with much work yield in time.

A loop that is blocked, by a long computation or by garbage collection, answers no requests, renews
no lease and notices no timeout. A callback that becomes due waits for the rest of the loop's
current round and for the whole next one. So all tasks with much work share rounds of ``ROUND``
seconds. A task that finds the round used up (``Turn``) resumes first in the next round, before
tasks that have worked since:

    round 1   a works for 4 ms and yields; b finds the round used up
    round 2   b works for 3 ms and awaits something; a works for 1 ms and finds the round used up

Rounds are measured in processor time. In real time they would hold less work on a busy machine,
and smaller parts cost more in total.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from operator import itemgetter
from time import monotonic, process_time, thread_time
from typing import Final
from weakref import WeakKeyDictionary

#: Seconds between two samples of the lag: normally, while the loop is busy, and while the process
#: is idle (sampling every ten milliseconds would then cost a hundredth of a processor). The second
#: value limits how much processor time from before a sample was due is counted as part of its lag.
PERIOD, _BUSY_PERIOD, _IDLE_PERIOD = 0.01, 0.002, 0.05
#: The loop counts as busy from this lag on, in seconds.
_BUSY: Final = 0.001
#: The process is idle if it uses less than this share of the time between two samples. It is more
#: than sampling itself takes.
_IDLE: Final = 0.05

#: Seconds of processor time per round. A callback may wait for two rounds, each prolonged by work
#: that cannot be divided: a leader's rounds last 4 to 9 ms. With 4 ms one run in ten had a lag of
#: 20 to 25 ms; with 3 ms no lag exceeded 18, for up to 3 % of a leader's CPU. With 2 ms batches of
#: pods that differ would be too small.
ROUND: Final = 0.003
#: Max rounds that a task waits for. Otherwise work that takes no turns, such as short calls, could
#: use up every round and starve it.
_MOST_ROUNDS: Final = 3
#: Work shorter than this, in seconds, is not charged to a round: charging would cost a short call
#: as much as it saves.
_SHORT: Final = 0.0005


async def watch_lag(observe: Callable[[float, float], None]) -> None:
    """Call ``observe`` with the running loop's lag in seconds, repeatedly, until cancelled.

    A timer measures how late it runs. So a block is reported up to ``PERIOD`` shorter than it was,
    and the first block after the process has idled up to ``_IDLE_PERIOD`` shorter. The second
    argument is the part of the lag that this process can have caused: at most the processor time
    that it used meanwhile. An exception of ``observe`` ends the task.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    # Each sample sets the next timer itself. If this task set it, a round later, a block in that
    # round would not be seen.
    def sample(due: float, period: float, before: float) -> None:
        now, used = loop.time(), process_time()
        lag = max(0.0, now - due)
        try:
            observe(lag, min(lag, used - before))
        except Exception as bug:
            ended.set_exception(bug)
            return
        if lag > _BUSY:
            period = _BUSY_PERIOD
        else:
            period = _IDLE_PERIOD if used - before < _IDLE * period else PERIOD
        set_timer(now, period, used)

    def set_timer(now: float, period: float, used: float) -> None:
        nonlocal timer
        timer = loop.call_at(now + period, sample, now + period, period, used)

    set_timer(loop.time(), PERIOD, process_time())
    try:
        await ended
    finally:
        if timer is not None:
            timer.cancel()


class _Round:
    """The current round of an event loop; it has an end only while tasks work in rounds."""

    __slots__ = ("_ends", "_loop", "_used", "_waiting", "_worked_in")

    def __init__(self, loop: asyncio.AbstractEventLoop, used: Callable[[], float]) -> None:
        self._loop = loop
        self._used = used
        self._ends: float | None = None
        self._worked_in = False
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def is_over(self, now: float) -> bool:
        return self._ends is not None and now >= self._ends

    def ends_at(self, ends: float) -> bool:
        return self._ends == ends

    def ends(self, began: float) -> float:
        """Return when the round ends for work that began at ``began``."""
        self._worked_in = True
        if self._ends is None:
            self._ends = began + ROUND
            self._loop.call_soon(self._next)
        return self._ends

    async def following(self, worked: float) -> None:
        """Wait for the next round, in which tasks that have worked least come first."""
        if self._ends is None:
            await asyncio.sleep(0)
            return
        begins = self._loop.create_future()
        self._waiting.append((worked, begins))
        await begins

    def _next(self) -> None:
        """Begin a round, before any task works in it.

        The next round is scheduled before tasks are woken, and even after a round without work.
        If the first working task scheduled it, the round would begin in the middle of a round of
        the loop. Tasks before and after that point then had a full round each: a leader's rounds
        took 9 to 12 ms, and two in a row 17 to 20.
        """
        waiting, self._waiting = self._waiting, []
        if not self._worked_in and not waiting:
            self._ends = None
            return
        self._loop.call_soon(self._next)
        self._worked_in = bool(waiting)  # the waiting tasks will work in this round
        self._ends = self._used() + ROUND
        for _, begins in sorted(waiting, key=itemgetter(0)):
            if not begins.done():
                begins.set_result(None)


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Round] = WeakKeyDictionary()


def processor_clock() -> Callable[[], float]:
    """Return the clock of the processor time that the running event loop has used.

    If the loop has its own ``processor_time``, as a loop with virtual time does, that is used:
    results there must not depend on the speed of the machine.
    """
    of_loop: Callable[[], float] | None
    of_loop = getattr(asyncio.get_running_loop(), "processor_time", None)
    return of_loop or thread_time


class Turn:
    """One task's turns in the rounds of the running event loop; see ``is_over``."""

    __slots__ = (
        "_began",
        "_began_at",
        "_ends",
        "_look_at",
        "_real_time",
        "_round",
        "_used",
        "_worked",
    )

    def __init__(self) -> None:
        """Begin the first turn."""
        loop = asyncio.get_running_loop()
        self._used = processor_clock()
        found = _rounds.get(loop)
        if found is None:
            found = _rounds[loop] = _Round(loop, self._used)
        self._round = found
        self._real_time = monotonic if self._used is thread_time else self._used
        self.begin()
        self._worked = self._began

    def begin(self) -> None:
        """Begin a turn, regardless of what other tasks have used of this round."""
        self._began, self._began_at = self._used(), self._real_time()
        #: The end of the round seen last, and the real time before which it cannot be over.
        self._ends = self._look_at = -math.inf

    async def wait(self) -> None:
        """Begin a turn after awaiting something: in a later round, if this one is used up."""
        self.begin()
        if self._round.is_over(self._began):
            await self._following()

    def has_lasted(self, seconds: float) -> bool:
        """Whether the turn has taken more than ``seconds`` of processor time."""
        # Reading processor time is a system call of 1 us. Real time costs a twentieth of that and
        # is an upper bound, so check it first.
        if self._real_time() - self._began_at <= seconds:
            return False
        return self._used() - self._began > seconds

    @property
    def is_over(self) -> bool:
        """Whether the round is used up, by this task or by others, so that it must ``give_way``."""
        # Called after each of many small pieces of work; usually real time answers it, as in
        # ``has_lasted``.
        now = self._real_time()
        if now - self._began_at <= _SHORT:
            return False
        if now < self._look_at and self._round.ends_at(self._ends):
            return False
        used = self._used()
        if used - self._began <= _SHORT:
            return False
        self._ends = self._round.ends(self._began)
        self._look_at = now + self._ends - used
        return used >= self._ends

    async def pause(self) -> None:
        """Give way if the turn is over."""
        if self.is_over:
            await self.give_way()

    async def give_way(self) -> None:
        """Let other tasks run, then begin the next turn."""
        self.end()
        await self._following()

    def end(self) -> None:
        """End a turn before awaiting something, so that its time is charged to this round."""
        self._worked = self._used()
        if self._worked - self._began > _SHORT:
            self._round.ends(self._began)

    async def _following(self) -> None:
        """Begin a turn in the first of the next rounds that is not used up by others."""
        for _ in range(_MOST_ROUNDS):
            await self._round.following(self._worked)
            self.begin()
            if not self._round.is_over(self._began):
                return
