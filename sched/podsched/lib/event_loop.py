"""How late an event loop is, and how work on it gives way in time.

A loop that is blocked, by a long computation or by the garbage collector, answers nobody, renews
no lease and notices no timeout. What is due has to wait for the rest of the loop's current round
and for the whole next one, whoever works in them. So tasks that have much to do share a round: it
lasts for ``ROUND``, and whoever finds it over (``Turn``) goes on in the next one. What counts is
processor time, so that parts of work are not smaller, and cost more, where others use the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, process_time, thread_time
from typing import Final
from weakref import WeakKeyDictionary

#: Seconds between two samples of the lag, and while the loop is busy. The latter bounds how much
#: processor time from before a sample was due may be taken for a part of its lag.
PERIOD, _BUSY_PERIOD = 0.01, 0.002
#: A lag, in seconds, from which on the loop counts as busy.
_BUSY: Final = 0.001

#: Seconds of processor time of a round in which long work goes on. A callback may wait for two
#: rounds, each with what cannot be divided. With 4 ms batches were so small that pods with labels
#: or claims of their own cost a leader a fifth more.
ROUND: Final = 0.006
#: Seconds of work that no round is marked for: that would cost a short call as much as it saves.
_SHORT: Final = 0.0005


async def watch_lag(observe: Callable[[float, float], None]) -> None:
    """Call ``observe`` with the running loop's lag in seconds, again and again, until cancelled.

    A task sleeps and sees how much later than asked for it wakes, so a block is seen with up to
    ``PERIOD`` less than it took. The second argument is how much of the lag this process can have
    caused: no more than the processor time that it used meanwhile. The rest others took.
    """
    clock = asyncio.get_running_loop().time
    period, before = PERIOD, process_time()
    while True:
        due = clock() + period
        await asyncio.sleep(period)
        lag, after = max(0.0, clock() - due), process_time()
        observe(lag, min(lag, after - before))
        before = after
        period = _BUSY_PERIOD if lag > _BUSY else PERIOD


class _Round:
    """When the current round of a loop ends for long work; begun by the first that asks."""

    __slots__ = ("_call_soon", "_ends")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._ends: float | None = None

    def ends(self, began: float) -> float:
        if self._ends is None:
            self._ends = began + ROUND
            self._call_soon(self._over)
        return self._ends

    def _over(self) -> None:
        self._ends = None


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Round] = WeakKeyDictionary()


class Turn:
    """One task's share of the rounds of the running event loop; see ``is_over``.

    In a loop that has a ``processor_time`` of its own, as one of virtual time has, that counts:
    what happens there must not depend on how fast the machine is.
    """

    __slots__ = ("_began", "_began_at", "_real_time", "_round", "_used")

    def __init__(self) -> None:
        """Begin the first turn."""
        loop = asyncio.get_running_loop()
        found = _rounds.get(loop)
        if found is None:
            found = _rounds[loop] = _Round(loop)
        self._round = found
        of_loop: Callable[[], float] | None = getattr(loop, "processor_time", None)
        self._used = of_loop or thread_time
        self._real_time = of_loop or monotonic
        self.begin()

    def begin(self) -> None:
        """Begin a turn, after something was awaited."""
        self._began, self._began_at = self._used(), self._real_time()

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
        return self.has_lasted(_SHORT) and self._used() >= self._round.ends(self._began)

    async def give_way(self) -> None:
        """Let others on, then begin the next turn."""
        if self.has_lasted(_SHORT):
            self._round.ends(self._began)
        await asyncio.sleep(0)
        self.begin()
