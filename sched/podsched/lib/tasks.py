"""Sets of asyncio tasks: every task has a name, an owner and an end.

    start --> running --returns, is cancelled--> removed
                 |
                 '--raises, or returns although ``endless``--> the set has failed

``run`` waits for the first failure or for ``end``, then cancels all other tasks and raises the
failure. So no task outlives its set, and no failure is lost. Cancelling a task is not a failure.

Unlike in an ``asyncio.TaskGroup``, tasks can be started before ``run``, and the failure is raised
as it is, not in an exception group.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_and_tidy_up(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own; SIGTERM cancels it, as Ctrl-C does.

    Raises SystemExit, 143, after a SIGTERM.
    """
    terminated = False

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None

        def end() -> None:
            # Once: another one would cut the tidying up short.
            nonlocal terminated
            if not task.cancelling():
                terminated = task.cancel()

        if threading.current_thread() is threading.main_thread():  # others get no signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        return await work

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if not terminated:
            raise  # a bug of ``work``
        sys.exit(128 + signal.SIGTERM)


async def until_first_ends(work: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Run coroutines, by the name of their task, until one ends; then cancel the others.

    An error counts as an end and is not raised, such as that of a connection which breaks.
    """
    running = [asyncio.create_task(one, name=name) for name, one in work.items()]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread; a caller that is cancelled waits for its end all the same.

    So a lock that the caller holds admits no other thread while this one still works.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, T], name: str) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine for the block, at whose end it is cancelled; its errors are not raised."""
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TaskSet:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        """owner: named in a note of the exceptions of failed tasks."""
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = asyncio.Event()
        self._failure: BaseException | None = None
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of tasks that have not ended."""
        return len(self._tasks)

    def start(
        self,
        work: Coroutine[Any, Any, T],
        name: str,
        *,
        endless: bool = False,
        ended: Callable[[asyncio.Task[T]], None] | None = None,
    ) -> asyncio.Task[T]:
        """Start a task. Raises RuntimeError if the set has been stopped.

        endless: the task must not return; if it does, the set fails. ended: called with the task
        when it is done, also if it was cancelled before its first step. An exception of ``ended``
        is a failure of the set, too.
        """
        if self._stopped:
            work.close()
            raise RuntimeError(f"{self._owner} has ended: {name} cannot be started")
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)

        def done(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            try:
                if ended is not None:
                    ended(task)
                if task.cancelled():
                    return
                task.result()
                if endless:
                    raise RuntimeError("the task has ended, which it never should")
            except Exception as error:
                error.add_note(f'in task "{name}" of {self._owner}')
                self.fail(error)

        task.add_done_callback(done)
        return task

    def fail(self, error: BaseException) -> None:
        """Make ``run`` stop all tasks and raise an error; later errors are ignored."""
        if self._failure is None:
            self._failure = error
        self._over.set()

    def end(self) -> None:
        """Make ``run`` stop all tasks and return."""
        self._over.set()

    async def run(self) -> None:
        """Wait until a task fails, then stop the others and raise its exception.

        If this call is cancelled, it stops all tasks, too.
        """
        try:
            await self._over.wait()
        finally:
            await self.stop()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended; no task can be started afterwards."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            # Callbacks, which remove done tasks, run in the next round of the loop, and ``wait``
            # does not yield if all tasks are done.
            await asyncio.sleep(0)
        self._stopped = True


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open an ``asyncio.TaskGroup`` that raises its first exception, not an exception group.

    So callers of a function that uses tasks can catch its exceptions by their classes.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


class Changes:
    """Lets tasks wait for the next change of something that all of them watch."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Event] = set()

    def __len__(self) -> int:
        """Return the number of tasks that wait."""
        return len(self._waiters)

    def notify(self) -> None:
        """Wake all waiting tasks: something has changed."""
        for waiter in self._waiters:
            waiter.set()

    async def next(self, timeout: float | None) -> None:
        """Wait for a change, for at most ``timeout`` seconds; None: without limit."""
        waiter = asyncio.Event()
        # Each task has its own event: a shared one could not be cleared until all tasks have seen
        # it.
        self._waiters.add(waiter)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await waiter.wait()
        finally:
            self._waiters.discard(waiter)
