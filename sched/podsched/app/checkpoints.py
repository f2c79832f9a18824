"""Answer requests for checkpoints of a replica's decisions."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from podsched.api.reasons import StatusCode
from podsched.app.answering import Unanswerable
from podsched.v1.scheduling_pb2 import Answer, Question, SchedulingCheckpoint


class Checkpoints:
    """Answers questions for a checkpoint."""

    def __init__(self, checkpoint: Callable[[], dict[str, Any] | None]) -> None:
        """``checkpoint``: returns the present checkpoint; None if there is none."""
        self._checkpoint = checkpoint

    async def answer(self, question: Question) -> AsyncGenerator[Answer, None]:
        """Answer with the checkpoint of this moment. Raises Unanswerable."""
        del question
        found = self._checkpoint()
        if found is None:
            why = "the replica makes no decisions, or records none (--decision-log off)"
            raise Unanswerable(StatusCode.FAILED_PRECONDITION, why)
        content = await asyncio.to_thread(_packed, found)
        yield Answer(checkpoint=SchedulingCheckpoint(content=content))


def _packed(found: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(found, separators=(",", ":")).encode(), compresslevel=1)
