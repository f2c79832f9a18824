"""An event loop whose time is virtual: where it would wait, its clock is put forward instead.

So hours pass in as long as the work in them takes, and the same work always happens in the same
order. Non-goals: sockets, threads and whatever else would have to be waited for in real time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(RuntimeError):
    """Nothing will ever happen in the loop: a task waits for what nobody does."""


class _NoWaiting(selectors.SelectSelector):
    """Never waits: puts the loop's clock forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("no task can go on, and no time is waited for")
        self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module; time begins at 0."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._virtual.now

    def processor_time(self) -> float:
        """Return 0: work takes no time here, so nobody's turn ends before the work is done."""
        return 0.0

    def advance(self, seconds: float) -> None:
        """Put the clock forward while nothing else runs."""
        self._virtual.now += seconds


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of its own. Raises what it raises, or Stuck."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
