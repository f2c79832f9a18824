"""The actors of a replica that has none."""

from __future__ import annotations

import asyncio

from podsched.app.term_work import TermActors
from podsched.cache.columns import Columns
from podsched.decide.accelerators.sharding import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.term.writes.bind_queue import Binder


class NoActors:
    """Everything is done locally; ``failure`` ends what keeps the actors.

    Their end takes ``ending`` seconds.
    """

    evaluator: RemoteEvaluator | None = None
    dry_run: RemoteDryRun | None = None

    def __init__(self, binder: Binder) -> None:
        self.binder = binder
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ending = 0.0
        self.ended = False

    def of_term(self, term: int, columns: Columns, direct: Binder) -> TermActors:
        return self  # type: ignore[return-value]

    async def run(self) -> None:
        try:
            await self.failure
        finally:
            if self.ending:
                await asyncio.sleep(self.ending)
            self.ended = True
