"""Objects that nothing stands for any more are deleted, whatever has become of some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.agent.deletions import deletions
from podsched.v1.api_pb2 import BatchResult, DeleteRequest

pytestmark = pytest.mark.looptime


class Server:
    """The deletions that a server was asked for, and what it answers at first, by name."""

    def __init__(self, reason: StatusReason | None = None, **answers: StatusCode) -> None:
        self.asked: list[list[str]] = []
        self._answers = answers
        self._reason = reason or ""

    async def delete_many(self, requests: Sequence[DeleteRequest]) -> list[BatchResult]:
        self.asked.append([request.name for request in requests])
        codes = (self._answers.pop(request.name, StatusCode.OK) for request in requests)
        return [BatchResult(code=code, reason=self._reason) for code in codes]


async def delete(server: Server, *names: str) -> None:
    outbox = deletions(cast(Any, server))
    for name in names:
        outbox.put(name, DeleteRequest(kind="Lease", name=name))
    running = asyncio.create_task(outbox.run())
    await asyncio.sleep(10)
    running.cancel()


async def test_objects_that_are_gone_or_have_changed_are_left_alone() -> None:
    server = Server(StatusReason.PRECONDITION_FAILED, b=StatusCode.ABORTED)
    await delete(server, "b", "c")
    assert server.asked == [["b", "c"]]
    server = Server(a=StatusCode.NOT_FOUND)
    await delete(server, "a", "c")
    assert server.asked == [["a", "c"]]


@pytest.mark.parametrize("answer", [StatusCode.UNAVAILABLE, StatusCode.ABORTED])
async def test_what_the_server_cannot_delete_now_is_deleted_later(answer: StatusCode) -> None:
    server = Server(b=answer)
    await delete(server, "a", "b")
    assert server.asked == [["a", "b"], ["a", "b"]]


async def test_what_may_not_be_deleted_does_not_keep_the_others() -> None:
    server = Server(b=StatusCode.PERMISSION_DENIED)
    await delete(server, "a", "b", "c")
    assert [name for names in server.asked[1:] for name in names] == ["a", "b", "c"]
