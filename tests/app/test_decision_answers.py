"""Checkpoints of a replica's decisions, as it answers for them."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.reasons import StatusCode
from podsched.app.answering import Unanswerable
from podsched.app.decision_answers import checkpoint_answerer
from podsched.lab.replay.decision_capture import unpacked
from podsched.v1.scheduling_pb2 import Question


async def test_a_checkpoint_arrives_as_it_was_taken() -> None:
    taken: dict[str, Any] = {"term": 5, "revision": 7, "number": 3, "rows": ["n1"]}

    async def take() -> dict[str, Any]:
        return dict(taken)

    answer = checkpoint_answerer(take)
    (found,) = [found async for found in answer(Question())]
    assert unpacked(found.checkpoint) == taken


async def test_who_decides_nothing_says_so() -> None:
    async def take_none() -> None:
        return None

    answer = checkpoint_answerer(take_none)
    with pytest.raises(Unanswerable, match="makes no decisions") as raised:
        [found async for found in answer(Question())]
    assert raised.value.code is StatusCode.FAILED_PRECONDITION
