"""A replica's stream of questions from one API server, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from podsched.client import errors
from podsched.client.channels import Channels
from podsched.client.errors import Unavailable, Unreadable
from podsched.v1.scheduling_pb2 import Question, ReplicaMessage

METHOD: Final = "/podsched.v1.Scheduling/Answer"


class QuestionStream:
    """One stream. All methods raise ClientError when it is broken."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._writing = asyncio.Lock()

    async def send(self, message: ReplicaMessage) -> None:
        """Send a message; may be called by several tasks."""
        raw = message.SerializeToString()
        async with self._writing:
            try:
                await self._call.write(raw)
            except grpc.aio.AioRpcError as error:
                raise errors.of_rpc(error) from error
            except (grpc.aio.UsageError, asyncio.InvalidStateError):
                raise Unavailable("the stream has ended") from None

    async def questions(self) -> AsyncIterator[Question]:
        """Yield what is asked, until the stream breaks."""
        try:
            while (raw := await self._call.read()) is not grpc.aio.EOF:
                yield Question.FromString(raw)
        except grpc.aio.AioRpcError as error:
            raise errors.of_rpc(error) from error
        except DecodeError:
            raise Unreadable("what came on the stream is no question") from None
        raise Unavailable("the server ended the stream")


@asynccontextmanager
async def open_question_stream(channels: Channels, timeout: float) -> AsyncIterator[QuestionStream]:
    """Open a stream to the server in use, within so many seconds. Raises ClientError."""
    endpoint = channels.endpoint
    call = channels.current().stream_stream(METHOD)(metadata=channels.credentials() or None)
    try:
        try:
            async with asyncio.timeout(timeout):
                await call.initial_metadata()  # the server has taken the stream, or refused it
                if call.done():
                    await call.read()  # which raises the refusal
        except TimeoutError:
            raise Unavailable("the server did not take the stream in time") from None
        except grpc.aio.AioRpcError as error:
            raise errors.of_rpc(error) from error
        yield QuestionStream(call)
    finally:
        call.cancel()
        channels.leave(endpoint)  # certificates that have changed are used for the next one
