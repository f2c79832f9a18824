"""The times at which an agent handles objects again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from podsched.lib.due_times import DueTimes
from podsched.serve.client import errors
from podsched.serve.client.errors import Conflict, NotFound
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1

_log = get_logger("agent")
#: Seconds before an object is handled again after a failed write: by a conflict, by other errors.
_RETRY_CONFLICT, _RETRY_ERROR = 0.2, 10.0


class Timers:
    """A time for each of many objects, by kind and key. now: Unix time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._due = DueTimes()
        self._earlier = asyncio.Event()

    def set(self, kind: str, key: str, at: float) -> None:
        """Handle an object at this time, or earlier if that is set; later times are dropped."""
        self._due.advance(f"{kind}/{key}", at)
        if self._due.next_time() == at:
            self._earlier.set()

    def drop(self, kind: str, key: str) -> None:
        """Do not handle an object again."""
        self._due.discard(f"{kind}/{key}")

    def answered(self, kind: str, key: str, _: object, result: v1.BatchResult) -> None:
        """Handle an object again after a failed write, once its new state should have arrived."""
        failed = errors.of_result(result)
        if failed is None or isinstance(failed, NotFound):
            return
        wait = _RETRY_CONFLICT
        if not isinstance(failed, Conflict):
            _log.warning("Write failed", kind=kind, name=key, error=str(failed))
            wait = _RETRY_ERROR
        self.set(kind, key, self.now() + wait)

    def try_later(self, kind: str, key: str) -> None:
        """Handle an object again after a while."""
        self.set(kind, key, self.now() + _RETRY_ERROR)

    async def run(self, synced: asyncio.Event, handle: Callable[[str, str], None]) -> None:
        """Call ``handle`` with kind and key at the times that are set, while it is synced."""
        while True:
            # It lists again after a gap in the history; pods that are to start wait for that.
            await synced.wait()
            self._earlier.clear()
            for due, _ in self._due.pop_due(self.now()):
                kind, _, key = due.partition("/")
                handle(kind, key)
            at = self._due.next_time()
            with suppress(TimeoutError):
                async with asyncio.timeout(at - self.now() if at is not None else None):
                    await self._earlier.wait()
