"""How late an event loop is, and how work on it gives way in time.

A loop that is blocked, by a long computation or by the garbage collector, answers nobody, renews
no lease and notices no timeout. What is due has to wait for the rest of the loop's current round
and for the whole next one, whoever works in them. So tasks that have much to do share a round: it
lasts for ``ROUND``, and whoever finds it over (``Turn``) goes on in the next one, before those that
have worked since:

    round 1   a works for 4 ms and gives way; b finds the round over
    round 2   b works for 3 ms and awaits something; a works for 1 ms and finds the round over

What counts is processor time, so that parts of work are not smaller, and cost more, where others
use the machine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from operator import itemgetter
from time import monotonic, process_time, thread_time
from typing import Final
from weakref import WeakKeyDictionary

#: Seconds between two samples of the lag; while the loop is busy; while the process idles, where
#: ten milliseconds cost a hundredth of a processor. The second bounds how much processor time from
#: before a sample was due may be taken for a part of its lag.
PERIOD, _BUSY_PERIOD, _IDLE_PERIOD = 0.01, 0.002, 0.05
#: A lag, in seconds, from which on the loop counts as busy.
_BUSY: Final = 0.001
#: The share of the time between two samples below which the process idles: more than samples take.
_IDLE: Final = 0.05

#: Seconds of processor time of a round in which long work goes on. A callback may wait for two
#: rounds, each with what cannot be divided: a leader's are 4 to 9 ms long. With 4 ms one run in ten
#: had a lag of 20 to 25 ms, with 3 none more than 18, for up to 3 % of a leader's CPU. With 2 ms
#: batches of pods that differ would be too small.
ROUND: Final = 0.003
#: Rounds that a task waits for at most: who never waits, as calls do not, may fill one after the
#: other.
_MOST_ROUNDS: Final = 3
#: Seconds of work that no round is marked for: that would cost a short call as much as it saves.
_SHORT: Final = 0.0005


async def watch_lag(observe: Callable[[float, float], None]) -> None:
    """Call ``observe`` with the running loop's lag in seconds, again and again, until cancelled.

    A timer sees how much later than due it runs, so a block is seen with up to ``PERIOD`` less than
    it took; the first block after the process has idled with up to ``_IDLE_PERIOD`` less. The
    second argument is how much of the lag this process can have caused: no more than the processor
    time that it used meanwhile. The rest others took. What ``observe`` raises ends it.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    # Each sample sets the next timer. If this task did, a round later, that would go unseen.
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
    """When the current round of a loop ends for long work; kept as long as there is some."""

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
        """Return when the round ends in which work goes on that began then."""
        self._worked_in = True
        if self._ends is None:
            self._ends = began + ROUND
            self._loop.call_soon(self._next)
        return self._ends

    async def following(self, worked: float) -> None:
        """Wait for the next round, in which those come first that have worked least lately."""
        if self._ends is None:
            await asyncio.sleep(0)
            return
        begins = self._loop.create_future()
        self._waiting.append((worked, begins))
        await begins

    def _next(self) -> None:
        """Begin a round, before all that works in it.

        That is why the next one is asked for before anybody is woken, and why this goes on for a
        round in which nobody worked. Were it asked for by the first that works, it would begin
        amid a round of the loop, behind whoever was woken before: those in front and the others
        had a whole one each, a leader's rounds took 9 to 12 ms, and two in a row 17 to 20.
        """
        waiting, self._waiting = self._waiting, []
        if not self._worked_in and not waiting:
            self._ends = None
            return
        self._loop.call_soon(self._next)
        self._worked_in = bool(waiting)  # they go on in it
        self._ends = self._used() + ROUND
        for _, begins in sorted(waiting, key=itemgetter(0)):
            if not begins.done():
                begins.set_result(None)


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Round] = WeakKeyDictionary()


class Turn:
    """One task's share of the rounds of the running event loop; see ``is_over``.

    In a loop that has a ``processor_time`` of its own, as one of virtual time has, that counts:
    what happens there must not depend on how fast the machine is.
    """

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
        of_loop: Callable[[], float] | None = getattr(loop, "processor_time", None)
        self._used = of_loop or thread_time
        found = _rounds.get(loop)
        if found is None:
            found = _rounds[loop] = _Round(loop, self._used)
        self._round = found
        self._real_time = of_loop or monotonic
        self.begin()
        self._worked = self._began

    def begin(self) -> None:
        """Begin a turn, whatever others have done in this round."""
        self._began, self._began_at = self._used(), self._real_time()
        #: When the round seen last ends, and the real time before which it cannot be over.
        self._ends = self._look_at = -math.inf

    async def wait(self) -> None:
        """Begin a turn after something was awaited: in another round, if this one is over."""
        self.begin()
        if self._round.is_over(self._began):
            await self._following()

    def has_lasted(self, seconds: float) -> bool:
        """Whether the turn has taken more than so many seconds of processor time."""
        # The kernel is asked for processor time, 1 us each time; no more can have passed of it than
        # of real time, which costs a twentieth of that.
        if self._real_time() - self._began_at <= seconds:
            return False
        return self._used() - self._began > seconds

    @property
    def is_over(self) -> bool:
        """Whether it is time to ``give_way``, after work of this task or of others before it."""
        # Asked after each of many small pieces of work, and mostly answered without the kernel, by
        # the same reasoning as in ``has_lasted``.
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

    async def give_way(self) -> None:
        """Let others on, then begin the next turn."""
        self.end()
        await self._following()

    def end(self) -> None:
        """End a turn before something is awaited, so that others in this round know of it."""
        if self.has_lasted(_SHORT):
            self._round.ends(self._began)
        self._worked = self._used()

    async def _following(self) -> None:
        """Begin a turn in one of the next rounds: the first that others have not filled before."""
        for _ in range(_MOST_ROUNDS):
            await self._round.following(self._worked)
            self.begin()
            if not self._round.is_over(self._began):
                return
