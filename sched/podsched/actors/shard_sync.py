"""Keep the shards' actors alive and their columns current; the leader's side.

    missing --ensure--> empty --deltas, piece by piece--> current --deltas every SYNC_PERIOD--.
       ^                  ^                                  |  ^-----------------------------'
       |                  '---- the shard missed a delta ----|
       '------- a call failed or was not answered -----------'

Deltas are not sent with each evaluation, because few rows change between two of them, and the
leader evaluates these itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from podsched.actors.evaluator_actor import NotCurrent
from podsched.actors.named_actor import NamedActor
from podsched.actors.packing import dump, load, unpack_result
from podsched.actors.ray_cluster import LaterTerm, RayCluster, RayUnavailable
from podsched.cache.delta_encoder import DeltaEncoder
from podsched.decide.accelerators.evaluation_result import EvaluationResult
from podsched.decide.evaluation.dry_run import DryRunResult, without_rows
from podsched.framework.verdicts import Rows
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")

#: Seconds between deltas: with 5,000 pods bound a second some 1,000 rows differ by then, which the
#: leader evaluates in well under a millisecond.
SYNC_PERIOD = 0.2
#: Max rows in one delta; writing these blocks the leader's loop for some 3 ms.
ROWS_PER_DELTA = 128
#: Pause after a delta that leaves rows to the next, as a multiple of the time that it took. A new
#: leader sends all rows. Without a pause, its first bindings waited for these: each of their steps
#: for one delta, 0.3 s together on a slow machine.
PAUSE = 2.0
SYNC_TIMEOUT = 15.0
#: Seconds to wait after a first failure: a dead actor is replaced almost at once.
FIRST_PAUSE = 0.1
#: After this many failures in a row, the connection is assumed to be at fault, not the actor.
FAILURES_TO_REJOIN = 3


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """A shard's result, and the rows that it may have had in an older version."""

    result: EvaluationResult
    unsent: Rows


class ShardSync:
    """Keeps one shard current (``run``), and calls it while it is ``current``."""

    def __init__(
        self, cluster: RayCluster, actor: NamedActor, encoder: DeltaEncoder, retry_period: float
    ) -> None:
        self._cluster = cluster
        self._actor = actor
        self._encoder = encoder
        self._retry_period = retry_period
        self._complete = False

    @property
    def current(self) -> bool:
        """Whether the shard has all its rows, except for the latest changes."""
        return self._complete and self._actor.ready and self._cluster.joined.is_set()

    async def run(self) -> None:
        """Keep the shard current until cancelled."""
        failures = 0
        while True:
            await self._cluster.joined.wait()
            try:
                await self._step()
                failures = 0
            except RayUnavailable as exc:
                self._complete = self._actor.ready = False
                _log.warning("A shard is evaluated locally", actor=self._actor.name, error=str(exc))
                # An actor that follows a later term has answered, so the connection works.
                failures += not isinstance(exc, LaterTerm)
                if failures >= FAILURES_TO_REJOIN:
                    failures = 0
                    self._cluster.lost(str(exc))
                await asyncio.sleep(self._retry_period if failures != 1 else FIRST_PAUSE)

    async def _step(self) -> None:
        if not self._actor.ready:
            self._complete = False
            await self._actor.ensure()
            # A new actor has no rows, and an adopted one has dropped those that it had.
            self._encoder.restart()
        took, began = 0.0, perf_counter()
        delta = self._encoder.encode(ROWS_PER_DELTA)
        if delta is not None:
            written = dump(delta)
            took = perf_counter() - began
            answer = await self._actor.call("sync", written, timeout=SYNC_TIMEOUT)
            if isinstance(answer, NotCurrent):
                self._start_anew()
                return
        if not self._encoder.has_more:
            self._complete = True
            await asyncio.sleep(SYNC_PERIOD)
        else:
            await asyncio.sleep(PAUSE * took)

    def _start_anew(self) -> None:
        self._complete = False
        self._encoder.restart()

    async def evaluate(
        self, request: bytes, traceparent: str, timeout: float
    ) -> ShardAnswer | None:
        """Return the shard's result for its rows; None when it has none. Raises RayUnavailable."""
        # Read before the call: an actor's calls run in order, so this one sees exactly the deltas
        # that were sent so far.
        unsent = self._encoder.unsent_rows()
        if unsent is None:
            return None
        answer = await self._ask("evaluate", request, traceparent, timeout=timeout)
        return None if answer is None else ShardAnswer(unpack_result(answer), unsent)

    async def dry_run_rows(
        self, request: bytes, rows: bytes, traceparent: str, timeout: float
    ) -> DryRunResult | None:
        """Return the dry run's result for the rows, without those that are outdated in the shard.

        None if the shard has no result. Raises RayUnavailable.
        """
        unsent = self._encoder.unsent_rows(with_start_times=True)
        if unsent is None:
            return None
        answer = await self._ask("dry_run_rows", request, rows, traceparent, timeout=timeout)
        return None if answer is None else without_rows(load(answer), unsent)

    async def _ask(self, method: str, *arguments: Any, timeout: float) -> bytes | None:
        number = self._encoder.next_number
        answer = await self._actor.call(method, number, *arguments, timeout=timeout)
        if isinstance(answer, NotCurrent):
            self._start_anew()
        return answer if isinstance(answer, bytes) else None


T = TypeVar("T")


class Shards:
    """The shards of one term; none until Ray is in use."""

    def __init__(self, shards: Sequence[ShardSync] = ()) -> None:
        self.all = list(shards)

    @property
    def current(self) -> list[ShardSync]:
        """The shards that can be called at the moment."""
        return [shard for shard in self.all if shard.current]

    async def ask(self, call: Callable[[ShardSync], Awaitable[T | None]]) -> list[T]:
        """Return the answers of the current shards; a shard that does not answer has none.

        A failed shard is no error, because the leader evaluates its rows.
        """
        calls = [call(shard) for shard in self.current]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        found: list[T] = []
        for answer in answers:
            if isinstance(answer, RayUnavailable):
                _log.warning("A shard did not answer", error=str(answer))
            elif isinstance(answer, BaseException):
                raise answer
            elif answer is not None:
                found.append(answer)
        return found
