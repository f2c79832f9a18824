"""Questions to replicas: who is asked, what is bounded, what happens when one goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server import replicas as module
from podsched.serve.server.errors import ApiError
from podsched.serve.server.replicas import Replicas
from podsched.v1.scheduling_pb2 import (
    Answer,
    ExplainRequest,
    Question,
    ReplicaMessage,
    ReplicaState,
)
from support.eventually import PATIENCE, eventually
from support.lost_errors import no_lost_errors


class Replica:
    """A replica as the server sees it: what it sends, and the questions that come."""

    def __init__(self, replicas: Replicas, name: str, *, term: int = 0) -> None:
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.questions: asyncio.Queue[Question] = asyncio.Queue()
        self.failure: ApiError | None = None
        state = ReplicaState(name=name, identity=f"{name}_1", leading=term > 0, term=term)
        self.send(ReplicaMessage(state=state))
        self.task = asyncio.create_task(self._serve(replicas))

    def send(self, message: ReplicaMessage) -> None:
        self._sent.put_nowait(message.SerializeToString())

    def answer(self, question: Question, version: str, *, more: bool = False) -> None:
        answer = Answer(id=question.id, more=more)
        answer.explanation.message = version
        self.send(ReplicaMessage(answer=answer))

    def hang_up(self) -> None:
        self._sent.put_nowait(None)

    async def _messages(self) -> AsyncIterator[bytes]:
        while (raw := await self._sent.get()) is not None:
            yield raw

    async def _serve(self, replicas: Replicas) -> None:
        try:
            async for raw in replicas.serve(self._messages()):
                self.questions.put_nowait(Question.FromString(raw))
        except ApiError as error:
            self.failure = error


async def connected(replicas: Replicas, name: str, *, term: int = 0) -> Replica:
    replica = Replica(replicas, name, term=term)
    for _ in range(10):
        await asyncio.sleep(0)
    return replica


QUESTION = Question(explain=ExplainRequest(namespace="default", name="web"))


async def test_the_leader_is_asked_and_its_answer_returned() -> None:
    replicas = Replicas()
    await connected(replicas, "old", term=3)
    leader = await connected(replicas, "leader", term=4)
    await connected(replicas, "standby")
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    question = await leader.questions.get()
    assert question.explain == QUESTION.explain
    leader.answer(question, "because")
    assert (await asking).explanation.message == "because"


async def test_a_standby_is_asked_by_name_or_identity() -> None:
    replicas = Replicas()
    await connected(replicas, "leader", term=4)
    standby = await connected(replicas, "standby")
    for name in ("standby", "standby_1"):
        asking = asyncio.create_task(replicas.ask_once(QUESTION, name))
        standby.answer(await standby.questions.get(), name)
        assert (await asking).explanation.message == name


async def test_an_unknown_replica_is_refused_with_the_known_ones() -> None:
    replicas = Replicas()
    await connected(replicas, "leader", term=4)
    with pytest.raises(ApiError, match='no replica "other" is connected; there are: leader') as why:
        await replicas.ask_once(QUESTION, "other")
    assert why.value.code is StatusCode.INVALID_ARGUMENT


async def test_without_a_replica_the_answer_is_unavailable() -> None:
    with pytest.raises(ApiError, match="no scheduler replica is connected") as why:
        await Replicas().ask_once(QUESTION)
    assert why.value.code is StatusCode.UNAVAILABLE


async def test_a_replica_that_is_silent_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE", -1.0)
    replicas = Replicas()
    await connected(replicas, "leader", term=4)
    with pytest.raises(ApiError, match="no scheduler replica is connected"):
        await replicas.ask_once(QUESTION)


async def test_a_waiting_caller_is_told_when_the_replica_goes() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    await leader.questions.get()
    leader.hang_up()
    with pytest.raises(ApiError, match="the replica has disconnected") as why:
        await asking
    assert why.value.code is StatusCode.UNAVAILABLE


async def test_a_replica_that_does_not_answer_costs_its_asker_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.001)
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    with pytest.raises(ApiError, match="leader has not answered") as why:
        await replicas.ask_once(QUESTION)
    assert why.value.code is StatusCode.DEADLINE_EXCEEDED
    asked, cancelled = await leader.questions.get(), await leader.questions.get()
    assert cancelled == Question(id=asked.id, cancel=True)


async def test_answers_follow_one_another_until_the_asker_leaves() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    found: list[str] = []
    async with aclosing(replicas.ask(QUESTION)) as answers:
        first = asyncio.create_task(anext(answers))
        question = await leader.questions.get()
        leader.answer(question, "1", more=True)
        leader.answer(question, "2", more=True)
        found = [(await first).explanation.message, (await anext(answers)).explanation.message]
    assert found == ["1", "2"]
    assert (await leader.questions.get()).cancel


async def test_a_refusal_keeps_its_code_and_words() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    question = await leader.questions.get()
    refusal = Answer(id=question.id, code=StatusCode.NOT_FOUND, message='pods "web" not found')
    leader.send(ReplicaMessage(answer=refusal))
    with pytest.raises(ApiError, match='pods "web" not found') as why:
        await asking
    assert why.value.code is StatusCode.NOT_FOUND


async def test_questions_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUESTIONS", 2)
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    waiting = [asyncio.create_task(replicas.ask_once(QUESTION)) for _ in range(2)]
    await leader.questions.get()
    with pytest.raises(ApiError, match="2 questions to the replica are under way"):
        await replicas.ask_once(QUESTION)
    for task in waiting:
        task.cancel()


async def test_questions_to_a_replica_that_does_not_read_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_QUESTIONS", 2)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.001)
    replicas = Replicas()

    async def messages() -> AsyncIterator[bytes]:
        yield ReplicaMessage(state=ReplicaState(name="stuck")).SerializeToString()
        await asyncio.Event().wait()

    async with aclosing(replicas.serve(messages())) as stream:
        reading = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.001)
        refusals = []
        for _ in range(10):
            with pytest.raises(ApiError) as why:
                await replicas.ask_once(QUESTION)
            refusals.append(why.value.message)
        await reading
    assert "questions to the replica are under way" in refusals[-1]


async def test_a_replica_whose_first_message_comes_while_the_server_drains_is_sent_away() -> None:
    replicas = Replicas()
    drains = asyncio.Event()

    async def messages() -> AsyncIterator[bytes]:
        await drains.wait()
        while True:
            yield ReplicaMessage(state=ReplicaState(name="late")).SerializeToString()
            await asyncio.sleep(0)

    reading = asyncio.create_task(anext(replicas.serve(messages())))
    await asyncio.sleep(0)
    replicas.close()
    drains.set()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ApiError, match="shutting down"):
            await reading


async def test_a_replica_that_sends_too_much_is_cut_off_before_that_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 100)
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    leader.answer(await leader.questions.get(), "x" * 200)
    with pytest.raises(ApiError, match="the replica has disconnected"):
        await asking
    await leader.task
    assert leader.failure is not None
    assert leader.failure.code is StatusCode.RESOURCE_EXHAUSTED
    assert "the limit is 100" in leader.failure.message


async def test_a_replica_with_an_endless_name_is_refused() -> None:
    replicas = Replicas()
    endless = await connected(replicas, "x" * 300)
    assert endless.failure is not None
    assert endless.failure.code is StatusCode.INVALID_ARGUMENT
    assert replicas.names() == []


async def test_a_code_that_gRPC_does_not_have_is_an_unknown_failure() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    question = await leader.questions.get()
    leader.send(ReplicaMessage(answer=Answer(id=question.id, code=-7, message="y" * 100_000)))
    with pytest.raises(ApiError, match="y") as why:
        await asking
    assert why.value.code is StatusCode.UNKNOWN
    assert len(why.value.message) < 10_000


async def test_of_a_question_with_one_answer_the_first_one_counts() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    question = await leader.questions.get()
    for number in range(3):
        leader.answer(question, str(number), more=True)
    async with asyncio.timeout(PATIENCE):
        assert (await asking).explanation.message == "0"
    assert (await leader.questions.get()).cancel


async def test_an_answer_that_no_client_could_show_is_an_error() -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    asking = asyncio.create_task(replicas.ask_once(QUESTION))
    answer = Answer(id=(await leader.questions.get()).id)
    answer.explanation.answered_by.time.seconds = 2**60
    leader.send(ReplicaMessage(answer=answer))
    with pytest.raises(ApiError, match=r"invalid answer.*answeredBy.time") as why:
        await asking
    assert why.value.code is StatusCode.INTERNAL


async def test_unread_answers_beyond_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    monkeypatch.setattr(module, "MAX_UNREAD", 3)
    async with aclosing(replicas.ask(QUESTION)) as answers:
        first = asyncio.create_task(anext(answers))
        question = await leader.questions.get()
        leader.answer(question, "0", more=True)
        await first
        for number in range(5):
            leader.answer(question, str(number), more=True)
        with pytest.raises(ApiError, match="faster than they are read"):
            async for _ in answers:
                await asyncio.sleep(0)


async def test_connections_are_bounded_and_end_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_REPLICAS", 1)
    replicas = Replicas()
    leader = await connected(replicas, "leader", term=4)
    other = await connected(replicas, "other")
    assert other.failure is not None
    assert "1 replicas are connected already" in other.failure.message
    replicas.close()
    await leader.task
    assert leader.failure is not None
    assert leader.failure.message == "the server is shutting down"


async def test_a_stream_that_breaks_as_it_is_closed_leaves_no_error_to_log() -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield ReplicaMessage(state=ReplicaState(name="leader")).SerializeToString()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise errors.bad_request("the stream broke") from None

    replicas = Replicas()
    async with no_lost_errors():
        stream = replicas.serve(breaking())
        first = asyncio.create_task(anext(stream))
        await eventually("the replica is known", replicas.names)
        asking = asyncio.create_task(replicas.ask_once(QUESTION))
        await first
        await stream.aclose()
        with pytest.raises(ApiError):
            await asking
