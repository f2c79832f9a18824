"""Forwards questions to the scheduler replicas connected to this server.

    ask --Question--> outbox --stream--> replica --Answer--> inbox of the question --> ask
                                                             (bounded)

Replicas open the streams, so they need no port for questions. A replica that has been silent for
``SILENCE`` seconds gets no questions. A caller waits at most ``ANSWER_SECONDS`` for the next
answer; if it disconnects, its question is cancelled at the replica. When a stream ends, all callers
that wait for its replica are notified.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from google.protobuf.message import DecodeError

from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusCode, StatusReason
from podsched.api.validation.storable import validate_storable
from podsched.lib.tasks import in_background
from podsched.serve.server import errors
from podsched.serve.server.access.rights import rights
from podsched.serve.server.errors import ApiError
from podsched.telemetry.logs import get_logger
from podsched.v1.scheduling_pb2 import Answer, Question, ReplicaMessage, ReplicaState

_log = get_logger("apiserver")

#: Max replicas connected.
MAX_REPLICAS: Final = 32
#: Max open questions to one replica.
MAX_QUESTIONS: Final = 32
#: Max unread answers to one question.
MAX_UNREAD: Final = 64
#: Max bytes of a message: the largest explanation has about 200 KB. A larger message ends the
#: stream undecoded, as decoding could take gigabytes; replicas check the size before they send.
MAX_ANSWER_BYTES: Final = 4 << 20
#: Max characters of a replica's name and identity, and of its message about a failure.
MAX_NAME: Final = 253
_MAX_WORDS: Final = 4000
#: Max seconds to wait for each answer.
ANSWER_SECONDS: Final = 10.0
#: Seconds of silence after which a replica is not asked; it sends a message every second.
SILENCE: Final = 5.0


_CODES: Final = frozenset(StatusCode)


class _Connected:
    """The stream of one replica, and its open questions."""

    def __init__(self, state: ReplicaState) -> None:
        self.state = state
        self.heard_at = time.monotonic()
        self.inboxes: dict[int, asyncio.Queue[Answer]] = {}
        #: Holds at most twice ``MAX_QUESTIONS`` and a cancellation of each; None ends the stream.
        self.outbox: asyncio.Queue[Question | None] = asyncio.Queue()
        self._ids = itertools.count(1)

    def put(self, question: Question) -> tuple[int, asyncio.Queue[Answer]]:
        """Send a question; return its id and the queue of its answers. Raises ApiError."""
        # A replica that does not read leaves questions in the outbox whose callers have gone.
        if len(self.inboxes) >= MAX_QUESTIONS or self.outbox.qsize() >= 2 * MAX_QUESTIONS:
            raise errors.overloaded(f"{MAX_QUESTIONS} questions to the replica are under way")
        number = next(self._ids)
        inbox = self.inboxes[number] = asyncio.Queue()
        sent = Question(timeout_seconds=ANSWER_SECONDS)
        sent.MergeFrom(question)
        sent.id = number
        self.outbox.put_nowait(sent)
        return number, inbox

    def cancel(self, number: int) -> None:
        """Drop a question here, and tell the replica to drop it."""
        if self.inboxes.pop(number, None) is not None:
            self.outbox.put_nowait(Question(id=number, cancel=True))

    def deliver(self, answer: Answer) -> None:
        """Pass an answer to the caller of its question, if that still waits."""
        inbox = self.inboxes.get(answer.id)
        if inbox is None:
            return
        refusal = None
        if inbox.qsize() >= MAX_UNREAD:
            why = "answers come faster than they are read"
            refusal = Answer(code=StatusCode.RESOURCE_EXHAUSTED, message=why)
        elif wrong := validate_storable(answer):
            why = f"replica {self.state.name} has sent an invalid answer: {wrong[0]}"
            refusal = Answer(code=StatusCode.INTERNAL, message=why)
        if refusal is not None:
            self.cancel(answer.id)
            answer = refusal
        elif not answer.more:
            del self.inboxes[answer.id]
        inbox.put_nowait(answer)

    def disconnect(self) -> None:
        """Notify all waiting callers that the replica has disconnected."""
        why = "the replica has disconnected"
        for inbox in self.inboxes.values():
            inbox.put_nowait(Answer(code=StatusCode.UNAVAILABLE, message=why))
        self.inboxes.clear()


class Replicas:
    """The scheduler replicas that are connected to this server."""

    def __init__(self) -> None:
        self._connected: set[_Connected] = set()
        self._closing = False

    def names(self) -> list[str]:
        """Return the identities of the replicas that can answer, the leader first."""
        return [replica.state.identity for replica in self._heard()]

    def close(self) -> None:
        """End all streams, so that the server can drain."""
        self._closing = True
        for replica in self._connected:
            replica.outbox.put_nowait(None)

    # ------------------------------------------------------------------ replicas

    async def serve(self, messages: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield serialized Questions for one replica, whose messages are read meanwhile.

        Raises ApiError if the caller may not answer questions, or its message is invalid.
        """
        rights().check("answer", KINDS["Pod"], subresource="explain")
        if self._closing:
            raise errors.shutting_down()
        if len(self._connected) >= MAX_REPLICAS:
            raise errors.overloaded(f"{MAX_REPLICAS} replicas are connected already")
        replica = _Connected(ReplicaState())
        async with in_background(self._read(replica, messages), "read answers") as reading:
            try:
                while (question := await replica.outbox.get()) is not None:
                    yield question.SerializeToString()
                if self._closing:
                    raise errors.shutting_down()
                await reading
            finally:
                self._connected.discard(replica)
                replica.disconnect()

    async def _read(self, replica: _Connected, messages: AsyncIterator[bytes]) -> None:
        try:
            async for raw in messages:
                if self._closing:
                    return  # ``close`` has not ended a stream whose first message comes after it
                replica.heard_at = time.monotonic()
                message = _decoded(raw)
                if message.HasField("state"):
                    if replica not in self._connected:
                        _log.info("A replica answers questions", replica=message.state.identity)
                    self._connected.add(replica)
                    replica.state = message.state
                elif message.HasField("answer"):
                    replica.deliver(message.answer)
        finally:
            # Ends ``serve``, which raises the error of this task, if there is one.
            replica.outbox.put_nowait(None)

    # ------------------------------------------------------------------ questions

    async def ask(self, question: Question, name: str = "") -> AsyncGenerator[Answer, None]:
        """Yield the answers to a question. Raises ApiError.

        name: name or identity of the replica to ask; "": the leader, or a standby without a leader.
        """
        replica = self._chosen(name)
        number, inbox = replica.put(question)
        try:
            while True:
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        answer = await inbox.get()
                except TimeoutError:
                    raise _failed(
                        StatusCode.DEADLINE_EXCEEDED,
                        f"replica {replica.state.name} has not answered "
                        f"within {ANSWER_SECONDS:g} s",
                    ) from None
                if answer.code:
                    raise _failed(answer.code, answer.message[:_MAX_WORDS])
                yield answer
                if not answer.more:
                    return
        finally:
            replica.cancel(number)

    async def ask_once(self, question: Question, name: str = "") -> Answer:
        """Return the answer to a question with a single answer; see ``ask``."""
        async with aclosing(self.ask(question, name)) as answers:
            return await anext(answers)

    async def ask_all(self, question: Question) -> list[tuple[str, Answer | ApiError]]:
        """Return each replica's identity and answer, the leader first. Raises ApiError.

        For questions with a single answer. If a replica fails, its error is in place of the answer.
        """
        # Without any replica, ``_chosen`` raises the error.
        names = self.names() or [self._chosen("").state.identity]
        asked = (errors.awaited(self.ask_once(question, name)) for name in names)
        return list(zip(names, await asyncio.gather(*asked), strict=True))

    def _heard(self) -> list[_Connected]:
        """Return those that can answer: leaders first, and of two leaders the later term's."""
        since = time.monotonic() - SILENCE
        heard = [replica for replica in self._connected if replica.heard_at >= since]
        return sorted(heard, key=lambda each: (each.state.leading, each.state.term), reverse=True)

    def _chosen(self, name: str) -> _Connected:
        """Return the replica to ask. Raises ApiError."""
        heard = self._heard()
        if not heard:
            raise _failed(
                StatusCode.UNAVAILABLE, "no scheduler replica is connected to this API server"
            )
        found = next((r for r in heard if name in ("", r.state.name, r.state.identity)), None)
        if found is None:
            known = ", ".join(sorted(replica.state.name for replica in heard))
            raise errors.bad_request(
                f'no replica "{name[:100]}" is connected; there are: {known}', "replica"
            )
        return found


def _decoded(raw: bytes) -> ReplicaMessage:
    """Decode a replica's message. Raises ApiError."""
    if len(raw) > MAX_ANSWER_BYTES:
        raise errors.too_large(f"the message has {len(raw)} bytes, the limit is {MAX_ANSWER_BYTES}")
    try:
        message = ReplicaMessage.FromString(raw)
    except DecodeError:
        raise errors.bad_request("the message cannot be decoded") from None
    for field in ("name", "identity"):
        if len(getattr(message.state, field)) > MAX_NAME:
            raise errors.bad_request(f"more than {MAX_NAME} characters", f"state.{field}")
    return message


def _failed(number: int, message: str) -> ApiError:
    reasons = {
        StatusCode.NOT_FOUND: StatusReason.NOT_FOUND,
        StatusCode.INVALID_ARGUMENT: StatusReason.BAD_REQUEST,
        StatusCode.INTERNAL: StatusReason.INTERNAL,
        StatusCode.UNIMPLEMENTED: StatusReason.BAD_REQUEST,
        StatusCode.RESOURCE_EXHAUSTED: StatusReason.TOO_LARGE,
    }
    # gRPC, too, maps an unknown number to UNKNOWN.
    code = StatusCode(number) if number in _CODES else StatusCode.UNKNOWN
    return ApiError(code, reasons.get(code, StatusReason.UNAVAILABLE), message)
