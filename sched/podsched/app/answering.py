"""Answer questions about scheduling, over a stream to each API server.

    connect --refused, broken, or the server's process already has a stream--> pause --> connect
       |
       '--> converse: report the replica every second, and answer each question in its own task

If several server processes share an address, each gets a stream. The kernel distributes connections
at random, so connections are opened until each process has one.

Answers are computed in the event loop that also schedules, so they come one after another, with
pauses for scheduling in between (``Answers``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from podsched.api.reasons import StatusCode
from podsched.lib.backoff import Backoff
from podsched.lib.tasks import TaskSet
from podsched.serve.client.channels import Channels, ClientOptions
from podsched.serve.client.errors import ClientError, Unavailable
from podsched.serve.client.question_stream import QuestionStream, open_question_stream
from podsched.telemetry.logs import get_logger
from podsched.v1.scheduling_pb2 import Answer, Question, ReplicaMessage, ReplicaState

_log = get_logger("replica")

#: Seconds between two reports of the replica; a change is reported within ``_LOOK_EVERY``.
STATE_EVERY: Final = 1.0
_LOOK_EVERY: Final = 0.1
#: Max bytes of an answer; an API server accepts messages of 4 MiB.
MOST_BYTES: Final = (4 << 20) - (1 << 10)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_FIRST_SEARCH, _LONGEST_SEARCH = 0.02, 0.5
_CONNECT_SECONDS: Final = 5.0

Answerer = Callable[[Question], AsyncGenerator[Answer, None]]
"""Yields the answers to a question, without ids; raises ``Unanswerable``."""


class Unanswerable(Exception):
    """The question cannot be answered; the caller gets a status."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Answering:
    """The streams of one replica to all its API servers."""

    def __init__(
        self,
        endpoints: Sequence[str],
        client: ClientOptions,
        state: Callable[[], ReplicaState],
        answer: Answerer,
    ) -> None:
        """``state``: returns the replica's identity and whether it leads."""
        self._endpoints = tuple(endpoints)
        self._client = client
        self._state = state
        self._answer = answer
        self._tasks = TaskSet("answers")
        #: By endpoint: the server processes with a stream, and the number of connecting tasks.
        self._met: dict[str, set[int]] = {endpoint: set() for endpoint in self._endpoints}
        self._serving: Counter[str] = Counter()

    async def run(self) -> None:
        """Answer until cancelled."""
        for endpoint in self._endpoints:
            self._look_for(endpoint, 1)
        await self._tasks.run()

    def _look_for(self, endpoint: str, processes: int) -> None:
        """Start tasks until there is one for each server process behind the endpoint."""
        while self._serving[endpoint] < processes:
            self._serving[endpoint] += 1
            name = f"answer {endpoint} {self._serving[endpoint]}"
            self._tasks.start(self._serve(endpoint), name, endless=True)

    async def _serve(self, endpoint: str) -> None:
        channels = Channels(endpoint, self._client)
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        searches = Backoff(_FIRST_SEARCH, _LONGEST_SEARCH, random.random)
        met = self._met[endpoint]
        try:
            while True:
                try:
                    async with open_question_stream(channels, _CONNECT_SECONDS) as stream:
                        self._look_for(endpoint, stream.workers)
                        if stream.worker not in met:
                            pauses.reset()
                            searches.reset()
                            met.add(stream.worker)
                            try:
                                await self._converse(stream)
                            finally:
                                met.discard(stream.worker)
                    await channels.close()  # the next connection may be another process's
                    await asyncio.sleep(searches.next_delay())
                    continue
                except ClientError as error:
                    # Otherwise this replica has no right to answer, or the server is too old.
                    log = _log.debug if isinstance(error, Unavailable) else _log.warning
                    log("The API server cannot send questions", server=endpoint, error=str(error))
                await asyncio.sleep(pauses.next_delay())
        finally:
            await channels.close()

    async def _converse(self, stream: QuestionStream) -> None:
        """Answer the questions of one stream until it breaks. Raises ClientError."""
        under_way: dict[int, asyncio.Task[None]] = {}
        tasks = TaskSet("a stream of questions")
        telling = asyncio.create_task(self._tell(stream), name="tell who answers")
        try:
            async for question in stream.questions():
                if question.cancel:
                    if (asked := under_way.pop(question.id, None)) is not None:
                        asked.cancel()
                else:
                    reply = self._reply(stream, question, under_way)
                    under_way[question.id] = tasks.start(reply, "answer a question")
        finally:
            telling.cancel()
            await tasks.stop()
            await asyncio.wait([telling])

    async def _tell(self, stream: QuestionStream) -> None:
        """Report this replica until the stream breaks; ``_converse`` raises the error then."""
        told, due = None, 0.0
        clock = asyncio.get_running_loop().time
        while True:
            state = self._state()
            if state != told or clock() >= due:
                try:
                    await stream.send(ReplicaMessage(state=state))
                except ClientError:
                    return
                told, due = state, clock() + STATE_EVERY
            await asyncio.sleep(_LOOK_EVERY)

    async def _reply(
        self, stream: QuestionStream, question: Question, under_way: dict[int, asyncio.Task[None]]
    ) -> None:
        try:
            async for answer in self._answers(question):
                size = answer.ByteSize()
                if size > MOST_BYTES:
                    # The server would end the stream, and with it all other questions.
                    why = f"the answer has {size} bytes, the limit is {MOST_BYTES}"
                    answer = Answer(code=StatusCode.RESOURCE_EXHAUSTED, message=why)
                answer.id = question.id
                await stream.send(ReplicaMessage(answer=answer))
                if answer.code:
                    return
        except ClientError:
            return  # The stream has broken: ``_converse`` raises the error.
        finally:
            under_way.pop(question.id, None)

    async def _answers(self, question: Question) -> AsyncGenerator[Answer, None]:
        """Yield the answers to a question; a failure comes last."""
        try:
            async with aclosing(self._answer(question)) as answers:
                async for answer in answers:
                    yield answer
        except Unanswerable as why:
            yield Answer(code=why.code, message=str(why))
        except Exception as bug:
            _log.error("A question could not be answered", exc_info=bug)
            said = f"the replica failed to answer: {type(bug).__name__}; see its log"
            yield Answer(code=StatusCode.INTERNAL, message=said)


def answerer(handlers: Mapping[str, Answerer]) -> Answerer:
    """Return an answerer that passes each question to the handler of its field."""

    async def answer(question: Question) -> AsyncGenerator[Answer, None]:
        handler = handlers.get(question.WhichOneof("question") or "")
        if handler is None:
            why = "this replica does not know such questions"
            raise Unanswerable(StatusCode.UNIMPLEMENTED, why)
        async with aclosing(handler(question)) as answers:
            async for each in answers:
                yield each

    return answer
