"""Monitors whether etcd answers, and how full its database is.

It does a linearizable read every second, which needs a majority, as every write does. The result is
part of the API server's readiness, so that clients and load balancers choose a working server.

More reads, one after another, have a short timeout. Their result is for clients that use another
server until this one answers again (``serve.client.server_health``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from podsched.api.etcd_keys import SYNC
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Store, StoreStatus
from podsched.telemetry.logs import get_logger

#: Seconds between two reads, and the timeout of each.
PERIOD = 1.0
TIMEOUT = 2.0
#: The same for clients that compare several servers; etcd's own election takes longer.
FAST_PERIOD, FAST_TIMEOUT = 0.2, 0.3
#: Seconds between two reads of the database's size.
STATUS_PERIOD = 30.0
#: Fraction of the quota above which a warning is logged.
NEARLY_FULL = 0.8

_log = get_logger("etcd")


class EtcdMonitor:
    """Reads from etcd periodically.

    problem: why etcd cannot be used, "" while it answers. status: its state, None before the first
    read. quota: etcd's --quota-backend-bytes, which etcd does not report.
    """

    def __init__(self, store: Store, quota: int) -> None:
        self._store = store
        self._quota = quota
        self._full = False
        self.problem = ""
        self.status: StoreStatus | None = None

    async def run(self, serving: Callable[[bool], Awaitable[None]]) -> None:
        """Poll until cancelled; call ``serving`` when etcd becomes usable or unusable."""
        clock = asyncio.get_running_loop().time
        next_status = clock()
        while True:
            before, self.problem = self.problem, await self._ask(TIMEOUT)
            if bool(before) != bool(self.problem):
                self._report()
                await serving(not self.problem)
            if not self.problem and clock() >= next_status:
                next_status = clock() + STATUS_PERIOD
                await self._read_status()
            await asyncio.sleep(PERIOD)

    async def run_fast(self, answering: Callable[[bool], Awaitable[None]]) -> None:
        """Poll until cancelled; call ``answering`` at first and when etcd begins or ceases to."""
        before = None
        while True:
            answers = not await self._ask(FAST_TIMEOUT)
            if answers != before:
                before = answers
                await answering(answers)
            await asyncio.sleep(FAST_PERIOD)

    async def _ask(self, timeout: float) -> str:
        try:
            async with asyncio.timeout(timeout):
                await self._store.get(SYNC)
        except TimeoutError:
            return f"etcd has not answered within {timeout:g} s"
        except StoreError as error:
            return f"etcd does not answer: {error}"
        return ""

    def _report(self) -> None:
        if self.problem:
            _log.error("etcd cannot be used", error=self.problem)
        else:
            _log.info("etcd can be used again")

    async def _read_status(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                self.status = await self._store.status()
        except (TimeoutError, StoreError) as error:
            _log.info("Could not read the status of etcd", error=str(error) or "timeout")
            return
        full = self.status.db_size >= NEARLY_FULL * self._quota
        if full and not self._full:
            _log.warning(
                "etcd is nearly full: once its quota is used up it takes no writes",
                bytes=self.status.db_size,
                quota=self._quota,
                endpoint=self.status.endpoint,
            )
        self._full = full
