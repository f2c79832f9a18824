"""A bidirectional stream as its client sees it, against a call that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from podsched.serve.client import errors
from podsched.serve.client.bidi_stream import BidiStream


class Call:
    """The gRPC call: ends with a status, and replaces it as gRPC does if a write fails later."""

    def __init__(self) -> None:
        self.error: grpc.aio.AioRpcError | None = None
        self.on_done: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.on_done.append(callback)

    def end(self, code: grpc.StatusCode, message: str) -> None:
        nothing = grpc.aio.Metadata()
        self.error = grpc.aio.AioRpcError(code, nothing, nothing, message)
        for callback in self.on_done:
            callback(self)

    async def read(self) -> Any:
        if self.error is not None:
            raise self.error
        return grpc.aio.EOF

    async def write(self, raw: bytes) -> None:
        self.end(grpc.StatusCode.INTERNAL, "Internal error from Core")
        await self.read()


async def test_a_write_that_fails_does_not_hide_why_the_server_ended_the_stream() -> None:
    call = Call()
    stream = BidiStream(call)
    call.end(grpc.StatusCode.PERMISSION_DENIED, "pods are forbidden")
    with pytest.raises(errors.Forbidden, match="pods are forbidden"):
        await stream.write(b"message")
    with pytest.raises(errors.Forbidden, match="pods are forbidden"):
        await stream.read()


async def test_a_stream_that_the_server_ends_without_an_error_ends_with_none() -> None:
    assert await BidiStream(Call()).read() is None
