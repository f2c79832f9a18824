"""Answer questions about past decisions from a replica's decision log, which a thread reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from podsched.api.reasons import StatusCode
from podsched.app.answering import Unanswerable
from podsched.ask.decisions.log import DecisionLog
from podsched.ask.decisions.rows import DecisionQuery
from podsched.v1.decisions_pb2 import DecisionsResponse
from podsched.v1.scheduling_pb2 import Answer, Question

#: Max decisions in one answer, and max bytes: an API server accepts messages of 4 MiB.
MOST: Final = 1000
_MOST_BYTES: Final = 3 << 20
#: Max seconds of reading: a whole log of 256 MiB takes some three.
_TIMEOUT: Final = 8.0


class DecisionAnswers:
    """Answers questions one after another, because each may read the whole log."""

    def __init__(self, log: DecisionLog | None) -> None:
        """``log``: None if there is none."""
        self._log = log
        self._turn = asyncio.Lock()

    async def answer(self, question: Question) -> AsyncGenerator[Answer, None]:
        """Answer with the decisions that match. Raises Unanswerable."""
        log = self._log
        if log is None:
            why = "the replica keeps no log of its decisions (--decision-log off)"
            raise Unanswerable(StatusCode.FAILED_PRECONDITION, why)
        query = DecisionQuery.of(question.decisions, MOST)
        async with self._turn:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    found = await asyncio.to_thread(log.find, query)
            except TimeoutError:
                why = f"reading the log took longer than {_TIMEOUT:g} s: give --since"
                raise Unanswerable(StatusCode.DEADLINE_EXCEEDED, why) from None
        yield Answer(decisions=_limited(found))


def _limited(found: DecisionsResponse) -> DecisionsResponse:
    """Leave out the oldest decisions if the answer would be too large."""
    size = found.ByteSize()
    while size > _MOST_BYTES:
        size -= found.records[0].ByteSize()
        del found.records[0]
        found.more = True
    return found
