"""Past decisions of a replica, and their checkpoints, as it answers for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.api.reasons import StatusCode
from podsched.app.answering import Unanswerable
from podsched.app.decision_answers import checkpoint_answerer, log_answerer
from podsched.lab.replay.decision_capture import unpacked
from podsched.v1.decisions_pb2 import DecisionsResponse
from podsched.v1.scheduling_pb2 import Question
from support.fake_threads import Threads


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


async def test_what_an_answer_has_no_room_for_is_what_ended_first() -> None:
    many = DecisionsResponse()
    for number, ended in enumerate((30, 10, 20)):
        record = many.records.add(number=number, message="m" * (1 << 20))
        record.decided_time.FromSeconds(number)
        record.ended_time.FromSeconds(ended)
    log: Any = SimpleNamespace(find=lambda _: many)
    (found,) = [found async for found in log_answerer(log)(Question())]
    assert [record.number for record in found.decisions.records] == [2, 0]
    assert found.decisions.more


async def test_the_log_is_not_read_twice_at_once_though_the_first_reader_gave_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = Threads()
    monkeypatch.setattr(asyncio, "to_thread", threads.run)
    log: Any = SimpleNamespace(find=lambda _: DecisionsResponse(dropped=7))
    answer = log_answerer(log)

    async def ask() -> int:
        (found,) = [found async for found in answer(Question())]
        return found.decisions.dropped

    impatient = asyncio.create_task(ask())
    await threads.begun.wait()
    impatient.cancel()
    patient = asyncio.create_task(ask())
    await threads.end_all()
    assert await patient == 7
    assert threads.most == 1
