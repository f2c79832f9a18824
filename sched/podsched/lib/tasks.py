"""Tasks with a name, an owner and an end.

    start --> running --returns, is cancelled--> gone
                 |
                 '--raises, or returns although ``endless``--> the set has failed

Guarantees: ``run`` waits for the first failure, or for ``end``; then it ends all other tasks, and
raises the failure. So no task outlives its set, and no failure is lost. A task that its owner
cancels has not failed.

Unlike an ``asyncio.TaskGroup``, a set can be handed to those who start tasks in it before it runs,
and its failure is the exception itself, not a group of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class TaskSet:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        """``owner`` is named in what a failed task raises."""
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
        """Start a task; ``endless`` if it must not return before it is cancelled.

        ``ended`` is called with the task when it is done, however it ended, even if it was
        cancelled before its first step. What it raises is a failure of the set, too.
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
        """Have ``run`` end with an error; the first one counts."""
        if self._failure is None:
            self._failure = error
        self._over.set()

    def end(self) -> None:
        """Have ``run`` end all tasks and return."""
        self._over.set()

    async def run(self) -> None:
        """Wait until a task fails, then end the others and raise its exception.

        The tasks end with this call also when it is cancelled.
        """
        try:
            await self._over.wait()
        finally:
            await self.stop()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end; nothing can be started afterwards."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            # What is done may not have been removed yet; ``wait`` does not yield then.
            await asyncio.sleep(0)
        self._stopped = True


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open an ``asyncio.TaskGroup`` whose failure is the first exception, not a group of them.

    Who calls a function with tasks inside can catch what it raises as if there were none.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
