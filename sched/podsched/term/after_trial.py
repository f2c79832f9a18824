"""Lets other tasks wait while the decision for a pod group has a trial open.

Such a decision may last many rounds of the event loop. Meanwhile the cache shows its trial: members
on nodes that they may not get, and running pods as if they were evicted. Only the informer's events
are applied beneath it. Whatever else reads or changes the state comes after it. Otherwise a pod
that the search for victims has removed would seem to be deleted: if its binding failed then, it
would not be forgotten, and would never return to the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsched.lib.event_loop import Turn
from podsched.lib.tasks import Changes
from podsched.term.faulty_pods import working_on


class AfterTrial:
    """Does things at once, but during the rounds of other tasks only after the open trial."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._ended = Changes()
        self.is_open = False
        """Whether other tasks run while a trial is open, or while not all that waited is done."""

    @contextmanager
    def others_run(self) -> Iterator[None]:
        """Let other tasks run in this block; what they do waits."""
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False

    async def trial_ended(self, turn: Turn, fail: Callable[[Exception], None]) -> None:
        """Do what waits; ``fail`` gets the exception of the first that raises, as a PodFault.

        Gives way when the turn is over: thousands of events may have come during the trial.
        """
        try:
            for _ in range(len(self._waiting)):
                self._do_next(fail)
                if turn.is_over:
                    with self.others_run():
                        await turn.give_way()
        finally:
            # What has come since; all of it, if a term that finishes cancels the loop.
            while self._waiting:
                self._do_next(fail)
            self._ended.notify()

    def _do_next(self, fail: Callable[[Exception], None]) -> None:
        if not self._waiting:
            return  # Another one has failed.
        try:
            with working_on():
                self._waiting.popleft()()
        except Exception as fault:
            # The term ends with it, and the next one builds a new state.
            self._waiting.clear()
            fail(fault)

    def do(self, act: Callable[[], None]) -> None:
        """Do something now, or after the trial and what already waits for its end."""
        if self.is_open:
            self._waiting.append(act)
        else:
            act()

    async def wait(self) -> None:
        """Return once no trial is open, and stay so until the caller awaits something else."""
        while self.is_open:
            await self._ended.next(None)
