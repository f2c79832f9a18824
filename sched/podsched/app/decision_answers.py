"""Answer questions about a replica's decisions: past ones from its log, and for a checkpoint."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from podsched.api.reasons import StatusCode
from podsched.app.answering import Answerer, Unanswerable
from podsched.ask.decisions.log import DecisionLog
from podsched.ask.decisions.rows import DecisionQuery
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsResponse
from podsched.v1.scheduling_pb2 import Answer, Question, SchedulingCheckpoint

#: Max decisions in one answer, and max bytes: an API server accepts messages of 4 MiB.
MOST: Final = 1000
_MOST_BYTES: Final = 3 << 20
#: Max seconds of reading: a whole log of 256 MiB takes some three.
_TIMEOUT: Final = 8.0


def log_answerer(log: DecisionLog | None) -> Answerer:
    """Return the answerer with the decisions of a log that match; ``log``: None if there is none.

    It answers one question after another, because each may read the whole log.
    """
    turn = asyncio.Lock()

    async def answer(question: Question) -> AsyncGenerator[Answer, None]:
        if log is None:
            why = "the replica keeps no log of its decisions (--decision-log off)"
            raise Unanswerable(StatusCode.FAILED_PRECONDITION, why)
        query = DecisionQuery.of(question.decisions, MOST)
        await turn.acquire()
        reading = asyncio.ensure_future(asyncio.to_thread(log.find, query))
        # Not before, even if the caller gives up: the thread reads on.
        reading.add_done_callback(lambda _: turn.release())
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await asyncio.shield(reading)
        except TimeoutError:
            why = f"reading the log took longer than {_TIMEOUT:g} s: give --since"
            raise Unanswerable(StatusCode.DEADLINE_EXCEEDED, why) from None
        yield Answer(decisions=_limited(found))

    return answer


def _limited(found: DecisionsResponse) -> DecisionsResponse:
    """Leave out the decisions that ended first if the answer would be too large."""
    size = found.ByteSize()
    if size > _MOST_BYTES:
        found.records.sort(key=_end)
    while size > _MOST_BYTES:
        size -= found.records[0].ByteSize()
        del found.records[0]
        found.more = True
    return found


def _end(record: DecisionRecord) -> tuple[int, int]:
    at = record.ended_time if record.HasField("ended_time") else record.decided_time
    return at.seconds, at.nanos


def checkpoint_answerer(checkpoint: Callable[[], Awaitable[dict[str, Any] | None]]) -> Answerer:
    """Return the answerer with the checkpoint of the moment; None: there is none."""

    async def answer(_: Question) -> AsyncGenerator[Answer, None]:
        found = await checkpoint()
        if found is None:
            why = "the replica makes no decisions, or records none (--decision-log off)"
            raise Unanswerable(StatusCode.FAILED_PRECONDITION, why)
        content = await asyncio.to_thread(_packed, found)
        yield Answer(checkpoint=SchedulingCheckpoint(content=content))

    return answer


def _packed(found: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(found, separators=(",", ":")).encode(), compresslevel=1)
