"""Calls of the API servers, with deadlines, failover and translated errors.

A call is retried on the next server if it was certainly not executed, and, for reads and idempotent
writes, also if its outcome is unknown; within the call's deadline, with growing pauses. A call that
fails after an attempt of unknown outcome has an unknown outcome, too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from podsched.api.trace_context import to_metadata
from podsched.lib.backoff import Backoff
from podsched.serve.client import errors
from podsched.serve.client.channels import Channels, ClientOptions
from podsched.serve.client.errors import (
    ClientError,
    TooManyRequests,
    Unavailable,
    Unreadable,
)
from podsched.serve.client.http_terms import code_of, verb_of, warnings_in
from podsched.v1.api_pb2 import BatchResponse

if TYPE_CHECKING:
    from podsched.serve.client.call_metrics import ClientTelemetry

_Message = TypeVar("_Message", bound=Message)
#: Seconds before a call is tried again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class Calls:
    """Calls one of several API servers; ``channels`` says which one is in use."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        options: ClientOptions,
        observer: ClientTelemetry | None,
    ) -> None:
        self.options = options
        self.channels = Channels(endpoints, options)
        self._observer = observer

    async def unary(
        self,
        method: str,
        request: Message,
        answer: type[_Message],
        *,
        repeatable: bool = False,
        timeout: float | None = None,
        traceparent: str = "",
    ) -> _Message:
        """Return the response of a unary method. Raises ClientError.

        repeatable: the call is idempotent, so it is retried if its outcome is unknown.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout or self.options.timeout)
        sent = request.SerializeToString()
        traced = to_metadata(traceparent or self.options.traceparent)
        backoff = Backoff(
            _FIRST_PAUSE,
            _LONGEST_PAUSE,
            random.random,
            immediate=len(self.channels.endpoints) - 1,  # try every server before the first pause
        )
        cause, unreached, in_doubt = "", 0, False
        while True:
            endpoint = self.channels.endpoint
            try:
                channel = self.channels.current()
                began = loop.time()
                left = max(deadline - began, 0.001)
                metadata = (*traced, *self.channels.credentials()) or None
                under_way = channel.unary_unary(method)(sent, timeout=left, metadata=metadata)
                with self.channels.failing(channel):
                    raw = await under_way
                await self._pass_on_warnings(under_way)
                code = code_of(_name(method), "OK")
                self._tried(method, code, endpoint, began, (len(sent), len(raw)))
                return _decoded(answer, raw, in_doubt=in_doubt)
            except grpc.aio.AioRpcError as rpc_error:
                error = errors.of_rpc(rpc_error)
                answered = not isinstance(error, Unavailable) or bool(error.reason)
                code = code_of(_name(method), rpc_error.code().name, answered=answered)
                self._tried(method, code, endpoint, began, (len(sent), None))
                in_doubt = in_doubt or error.outcome_unknown
                if not isinstance(error, Unavailable):
                    raise _last(error, "", in_doubt) from rpc_error
                self._leave(endpoint, error)
                delay = max(backoff.next_delay(), error.retry_after)
                may_repeat = repeatable or not error.outcome_unknown
                unreached = 0 if error.reason or error.outcome_unknown else unreached + 1
                if unreached == len(self.channels.endpoints) and not self.options.wait_for_server:
                    raise _last(error, "", in_doubt) from rpc_error
                if not may_repeat or loop.time() + delay >= deadline:
                    raise _last(error, cause, in_doubt) from rpc_error
                cause = error.message
            await asyncio.sleep(delay)
            if self._observer is not None:
                self._observer.call_repeated(verb_of(_name(method)), code, self.channels.endpoint)

    async def _pass_on_warnings(self, call: grpc.aio.Call) -> None:
        if self.options.on_warning is not None:
            for text in warnings_in(await call.trailing_metadata()):
                self.options.on_warning(text)

    def _leave(self, endpoint: str, error: ClientError) -> None:
        """Use the next server if this one is unavailable."""
        # The calls of a client that has too many would be too many for another server, too.
        if isinstance(error, Unavailable) and not isinstance(error, TooManyRequests):
            self.channels.leave(endpoint)

    def _tried(
        self, method: str, code: str, endpoint: str, began: float, sizes: tuple[int, int | None]
    ) -> None:
        if self._observer is not None:
            seconds = asyncio.get_running_loop().time() - began
            self._observer.call_tried(verb_of(_name(method)), code, endpoint, seconds, *sizes)

    async def stream(
        self, method: str, request: Message, answer: type[_Message]
    ) -> AsyncGenerator[_Message, None]:
        """Yield the responses of one stream until it breaks. Raises ClientError."""
        endpoint = self.channels.endpoint
        channel = self.channels.current()
        call = channel.unary_stream(method)(
            request.SerializeToString(), metadata=self.channels.credentials() or None
        )
        self.channels.opened(endpoint, call)
        try:
            while True:
                async with asyncio.timeout(self.options.watch_silence):
                    with self.channels.failing(channel):
                        raw = await call.read()
                if raw is grpc.aio.EOF:
                    self.channels.leave(endpoint)
                    raise Unavailable("the server ended the watch")
                yield answer.FromString(raw)
        except DecodeError:
            self.channels.leave(endpoint)
            raise Unavailable("what came on the watch cannot be decoded") from None
        except TimeoutError:
            self.channels.leave(endpoint)
            raise Unavailable("nothing came on the watch, not even a bookmark") from None
        except grpc.aio.AioRpcError as error:
            translated = errors.of_rpc(error)
            self._leave(endpoint, translated)
            raise translated from error
        finally:
            call.cancel()


def _decoded(kind: type[_Message], raw: bytes, *, in_doubt: bool) -> _Message:
    """Return an answer; ``in_doubt``: an earlier attempt may have done what this one could not."""
    try:
        message = kind.FromString(raw)
    except DecodeError:
        raise Unreadable(f"the answer is not a {kind.DESCRIPTOR.name}") from None
    if in_doubt and isinstance(message, BatchResponse):
        errors.doubt_unavailable(message.results)
    return message


def _name(method: str) -> str:
    return method.rpartition("/")[2]


def _last(error: ClientError, cause: str, in_doubt: bool) -> ClientError:
    """Return the last error of several attempts, with the message of the one before.

    A deadline error alone does not name the cause. in_doubt: an attempt may have been executed.
    """
    if cause and cause != error.message:
        error.message = f"{error.message}; before that: {cause}"
        error.args = (error.message,)
    return errors.in_doubt(error) if in_doubt else error
