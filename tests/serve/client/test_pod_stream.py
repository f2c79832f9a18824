"""A stream of pods as its client sees it, against a call that the test plays."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from podsched.serve.client import errors, pod_stream
from podsched.serve.client.bidi_stream import BidiStream
from podsched.serve.client.pod_stream import PodStream
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.eventually import PATIENCE


class Call:
    """The gRPC call: keeps what is written; answers what the test puts."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled = False

    def add_done_callback(self, callback: Any) -> None:
        pass

    async def write(self, raw: bytes) -> None:
        self.written.append(v1.SubmitPodsRequest.FromString(raw).pod.metadata.name)

    async def read(self) -> Any:
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def done_writing(self) -> None:
        self.answers.put_nowait(grpc.aio.EOF)

    def cancel(self) -> None:
        self.cancelled = True

    def answer(self, *codes: int) -> None:
        results = [v1.BatchResult(code=code) for code in codes]
        self.answers.put_nowait(v1.SubmitPodsResponse(results=results).SerializeToString())

    def breaks(self) -> None:
        nothing = grpc.aio.Metadata()
        error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "Socket closed")
        self.answers.put_nowait(error)


async def test_answers_come_to_the_pods_in_the_order_in_which_they_were_sent() -> None:
    call = Call()
    stream = PodStream(BidiStream(call))
    answers = [await stream.submit(pod(name)) for name in ("a", "b", "c")]
    assert call.written == ["a", "b", "c"]
    call.answer(0, 6)
    call.answer(0)
    assert [(await answer).code for answer in answers] == [0, 6, 0]
    await stream.close()


async def test_submitting_waits_while_too_many_pods_have_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_stream, "MAX_UNANSWERED", 2)
    call = Call()
    stream = PodStream(BidiStream(call))
    await stream.submit(pod("a"))
    await stream.submit(pod("b"))
    third = asyncio.create_task(stream.submit(pod("c")))
    await asyncio.sleep(0)
    assert not third.done()
    call.answer(0)
    await third
    assert call.written == ["a", "b", "c"]
    stream.cancel()


async def test_a_pod_without_an_answer_may_have_been_created_when_the_stream_breaks() -> None:
    call = Call()
    stream = PodStream(BidiStream(call))
    answered, lost = await stream.submit(pod("a")), await stream.submit(pod("b"))
    call.answer(0)
    call.breaks()
    assert (await answered).code == 0
    with pytest.raises(errors.OutcomeUnknown):
        await lost
    with pytest.raises(errors.Unavailable):
        await stream.submit(pod("c"))
    assert call.written == ["a", "b"]
    with pytest.raises(errors.Unavailable):
        await stream.close()


async def test_a_server_that_ends_the_stream_early_leaves_no_one_waiting() -> None:
    call = Call()
    stream = PodStream(BidiStream(call))
    answer = await stream.submit(pod("a"))
    with pytest.raises(errors.Unavailable, match="the server ended the stream"):
        await stream.close()
    with pytest.raises(errors.OutcomeUnknown):
        await answer


async def test_an_answer_that_cannot_be_decoded_leaves_no_one_waiting() -> None:
    call = Call()
    stream = PodStream(BidiStream(call))
    answer = await stream.submit(pod("a"))
    call.answers.put_nowait(b"\xff")
    with pytest.raises(errors.OutcomeUnknown):
        await asyncio.wait_for(answer, PATIENCE)
    with pytest.raises(errors.Unreadable):
        await stream.close()


async def test_cancelling_gives_up_what_has_no_answer() -> None:
    call = Call()
    stream = PodStream(BidiStream(call))
    answer = await stream.submit(pod("a"))
    stream.cancel()
    assert call.cancelled
    with pytest.raises(errors.OutcomeUnknown):
        await answer


class SlowCall(Call):
    """A call whose writes wait, and that gRPC cancels when a write is cancelled."""

    async def write(self, raw: bytes) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_a_pod_that_is_cancelled_before_it_is_sent_leaves_its_room_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_stream, "MAX_UNANSWERED", 2)
    stream = PodStream(BidiStream(SlowCall()))
    sending, waiting = (asyncio.create_task(stream.submit(pod(name))) for name in ("a", "b"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not stream._room.locked()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_a_cancelled_write_breaks_the_stream_for_all_its_pods() -> None:
    call = SlowCall()
    stream = PodStream(BidiStream(call))
    sending, waiting = (asyncio.create_task(stream.submit(pod(name))) for name in ("a", "b"))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    with pytest.raises(errors.Unavailable):
        await asyncio.wait_for(waiting, PATIENCE)
    with pytest.raises(errors.Unavailable):
        await stream.close()


class EndedCall(Call):
    """A call that the server has ended without an error: gRPC refuses to write."""

    async def write(self, raw: bytes) -> None:
        raise asyncio.InvalidStateError


async def test_a_pod_after_the_server_has_ended_the_stream_is_not_waited_for() -> None:
    call = EndedCall()
    stream = PodStream(BidiStream(call))
    call.answers.put_nowait(grpc.aio.EOF)
    await asyncio.wait([stream._answers])
    answer = await stream.submit(pod("a"))
    with pytest.raises(errors.OutcomeUnknown):
        await asyncio.wait_for(answer, PATIENCE)


async def test_who_is_cancelled_while_the_stream_ends_cancels_no_one_else() -> None:
    stream = PodStream(BidiStream(EndedCall()))
    first = asyncio.create_task(stream.submit(pod("a")))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(errors.Unavailable):
        await stream.submit(pod("b"))


class OpenCall(Call):
    """A call that the server does not end when no more pods follow."""

    async def done_writing(self) -> None:
        pass


async def test_answers_still_come_when_closing_is_cancelled() -> None:
    call = OpenCall()
    stream = PodStream(BidiStream(call))
    answer = await stream.submit(pod("a"))
    closing = asyncio.create_task(stream.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    call.answer(0)
    assert (await asyncio.wait_for(answer, PATIENCE)).code == 0
    stream.cancel()
