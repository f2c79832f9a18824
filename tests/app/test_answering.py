"""Answers to questions: from their handlers, failures included, and explanations in turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podsched.api.reasons import StatusCode
from podsched.app import answering as module
from podsched.app.answering import Answering, Unanswerable, answerer
from podsched.serve.client.channels import ClientOptions
from podsched.serve.server.replicas import MAX_ANSWER_BYTES
from podsched.v1.scheduling_pb2 import (
    Answer,
    ExplainRequest,
    Explanation,
    Question,
    ReplicaMessage,
    ReplicaState,
)
from support.eventually import eventually

QUESTION = Question(id=7, explain=ExplainRequest(name="web"))


async def two(question: Question) -> AsyncGenerator[Answer, None]:
    for version in ("first", "second"):
        yield Answer(explanation=Explanation(message=version), more=version == "first")


async def refusing(question: Question) -> AsyncGenerator[Answer, None]:
    raise Unanswerable(StatusCode.NOT_FOUND, "no such pod")
    yield Answer()


async def broken(question: Question) -> AsyncGenerator[Answer, None]:
    raise ZeroDivisionError("a secret")
    yield Answer()


async def stuck(question: Question) -> AsyncGenerator[Answer, None]:
    await asyncio.Event().wait()
    yield Answer()


class Stream:
    """A stream of questions that keeps what is sent."""

    def __init__(self, *questions: Question) -> None:
        self.sent: list[ReplicaMessage] = []
        self.worker, self.workers = 0, 1
        self.end = asyncio.Event()
        self._questions = questions

    async def send(self, message: ReplicaMessage) -> None:
        self.sent.append(ReplicaMessage.FromString(message.SerializeToString()))

    async def questions(self) -> AsyncGenerator[Question, None]:
        for question in self._questions:
            yield question
            for _ in range(20):
                await asyncio.sleep(0)

    @property
    def answers(self) -> list[Answer]:
        return [message.answer for message in self.sent if message.HasField("answer")]


async def conversed(handler: object, *questions: Question) -> Stream:
    stream = Stream(*questions)
    state = ReplicaState(name="me", identity="me_1", leading=True, term=4)
    answering = Answering((), ClientOptions(), lambda: state, handler)  # type: ignore[arg-type]
    await answering._converse(stream)  # type: ignore[arg-type]
    return stream


async def test_who_answers_is_told_first_and_answers_carry_the_questions_id() -> None:
    stream = await conversed(answerer({"explain": two}), QUESTION)
    assert stream.sent[0].state.identity == "me_1"
    assert [(a.id, a.explanation.message, a.more) for a in stream.answers] == [
        (7, "first", True),
        (7, "second", False),
    ]


@pytest.mark.parametrize(
    ("handlers", "code", "text"),
    [
        ({"explain": refusing}, StatusCode.NOT_FOUND, "no such pod"),
        ({"explain": broken}, StatusCode.INTERNAL, "ZeroDivisionError; see its log"),
        ({}, StatusCode.UNIMPLEMENTED, "does not know such questions"),
    ],
)
async def test_a_question_without_an_answer_gets_a_status(
    handlers: dict[str, object], code: StatusCode, text: str
) -> None:
    [answer] = (await conversed(answerer(handlers), QUESTION)).answers  # type: ignore[arg-type]
    assert (answer.id, answer.code) == (7, code)
    assert text in answer.message
    assert "a secret" not in answer.message


async def test_an_answer_that_the_server_would_not_take_becomes_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 5)
    [answer] = (await conversed(answerer({"explain": two}), QUESTION)).answers
    assert (answer.id, answer.code) == (7, StatusCode.RESOURCE_EXHAUSTED)
    assert "the limit is 5" in answer.message


def test_a_message_with_the_largest_answer_is_taken_by_the_server() -> None:
    assert module.MOST_BYTES < MAX_ANSWER_BYTES - 100


async def test_a_cancelled_question_is_not_worked_on() -> None:
    stream = await conversed(answerer({"explain": stuck}), QUESTION, Question(id=7, cancel=True))
    assert stream.answers == []


async def test_each_of_the_processes_behind_an_address_gets_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections reach them by chance: here 0, 0, 0, 2, 1, and those that were met again."""
    chance = iter([0, 0, 0, 2, 0, 1])
    under_way: list[int] = []

    @asynccontextmanager
    async def open_stream(*_: object) -> AsyncIterator[Stream]:
        stream = Stream()
        stream.worker, stream.workers = next(chance), 3
        yield stream

    async def converse(_: Answering, stream: Stream) -> None:
        under_way.append(stream.worker)
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "open_question_stream", open_stream)
    monkeypatch.setattr(Answering, "_converse", converse)
    answering = Answering(("127.0.0.1:1",), ClientOptions(), ReplicaState, stuck)
    running = asyncio.create_task(answering.run())
    await eventually("three streams", lambda: sorted(under_way), [0, 1, 2])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
