"""Calls that are tried again, on a server that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from podsched.serve.client import channels
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import OutcomeUnknown, ServerBug, TooManyRequests, Unavailable
from podsched.serve.server.errors import too_many_requests
from podsched.serve.server.status import details
from podsched.v1 import api_pb2 as v1

pytestmark = pytest.mark.looptime

BINDINGS = [v1.Binding(name="web", uid="u", node_name="n1")]
FENCE = v1.Fence(lock="l", term=7)
BROKEN = (grpc.StatusCode.UNAVAILABLE, "Socket closed")
REFUSED = (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses")
BUG = (grpc.StatusCode.INTERNAL, "a bug")

Answer = tuple[grpc.StatusCode, str] | grpc.aio.AioRpcError | v1.BatchResponse
Bind = Callable[..., Any]


class Channel:
    """Gives these answers in turn; the last one again and again."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)

    def unary_unary(self, _: str) -> Callable[..., Any]:
        async def call(_: bytes, **__: Any) -> bytes:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if isinstance(answer, v1.BatchResponse):
                return answer.SerializeToString()
            if isinstance(answer, grpc.aio.AioRpcError):
                raise answer
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(answer[0], nothing, nothing, answer[1])

        return call

    async def close(self) -> None:
        pass


@pytest.fixture
def bind(monkeypatch: pytest.MonkeyPatch) -> Bind:
    """Binds a pod at a server that gives some answers."""

    async def bind(*answers: Answer) -> Sequence[v1.BatchResult]:
        monkeypatch.setattr(channels, "_open", lambda *_: Channel(answers))
        async with ApiClient("a:1") as client:
            return await client.bind_pods(BINDINGS, fence=FENCE)

    return bind


def item(code: int, reason: str) -> v1.BatchResponse:
    return v1.BatchResponse(results=[v1.BatchResult(code=code, reason=reason)])


async def test_a_server_that_cannot_be_reached_has_done_nothing(bind: Bind) -> None:
    with pytest.raises(Unavailable) as raised:
        await bind(REFUSED)
    assert not raised.value.outcome_unknown


async def test_a_call_stays_in_doubt_while_its_server_cannot_be_reached_again(bind: Bind) -> None:
    with pytest.raises(OutcomeUnknown, match="failed to connect"):
        await bind(BROKEN, REFUSED)


async def test_a_call_stays_in_doubt_if_its_repetition_meets_a_bug(bind: Bind) -> None:
    with pytest.raises(ServerBug) as raised:
        await bind(BROKEN, BUG)
    assert raised.value.outcome_unknown


async def test_an_item_stays_in_doubt_if_the_store_is_away_at_its_repetition(bind: Bind) -> None:
    (result,) = await bind(BROKEN, item(14, "UNAVAILABLE"))
    assert result.reason == "OUTCOME_UNKNOWN"


async def test_the_stores_answer_to_a_repetition_ends_the_doubt(bind: Bind) -> None:
    (result,) = await bind(BROKEN, item(5, "NOT_FOUND"))
    assert result.reason == "NOT_FOUND"


async def test_a_call_says_when_to_try_again_whatever_came_before(bind: Bind) -> None:
    busy, nothing = too_many_requests("calm down", 60.0), grpc.aio.Metadata()
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", details(busy, "request-1")))
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    refusal = grpc.aio.AioRpcError(code, nothing, trailer, busy.message)
    with pytest.raises(TooManyRequests, match="before that: failed to connect") as raised:
        await bind(REFUSED, refusal)
    assert (raised.value.retry_after, raised.value.request_id) == (60.0, "request-1")
