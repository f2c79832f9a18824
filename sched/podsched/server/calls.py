"""Wraps a handler of bytes as a gRPC method: decoding, errors, measuring."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from podsched.api.reasons import StatusCode
from podsched.server import errors
from podsched.server.errors import ApiError
from podsched.server.status import details, short

log = logging.getLogger(__name__)

_Request = TypeVar("_Request")


class CallObserver(Protocol):
    """Is told of every call that has ended: for metrics and traces."""

    def call_ended(
        self, method: str, request: Any, code: str, started: float, ended: float, parent: str
    ) -> None:
        """`started` and `ended` are monotonic seconds; code is the gRPC status' name.

        request: the decoded message, None if it could not be decoded; parent: a traceparent or "".
        """


def unary(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], Awaitable[bytes]],
    observer: CallObserver | None,
) -> grpc.RpcMethodHandler:
    """One request, one response."""

    async def call(raw: bytes, context: Any) -> bytes:
        started = time.monotonic()
        code, request = StatusCode.OK.name, None
        try:
            request = _decoded(parse, raw)
            return await handle(request)
        except ApiError as error:
            code = error.code.name
            raise await _abort(context, error) from None
        except asyncio.CancelledError:
            code = StatusCode.CANCELLED.name
            raise
        except Exception as error:
            code = StatusCode.INTERNAL.name
            raise await _abort(context, _incident(method, error)) from None
        finally:
            if observer is not None:
                _observe(observer, method, request, code, started, context)

    return grpc.unary_unary_rpc_method_handler(call)


def streaming(
    method: str,
    parse: Callable[[bytes], _Request],
    handle: Callable[[_Request], AsyncIterator[bytes]],
    observer: CallObserver | None,
) -> grpc.RpcMethodHandler:
    """One request, many responses."""

    async def call(raw: bytes, context: Any) -> AsyncIterator[bytes]:
        started = time.monotonic()
        code, request = StatusCode.OK.name, None
        try:
            request = _decoded(parse, raw)
            async for response in handle(request):
                yield response
        except ApiError as error:
            code = error.code.name
            raise await _abort(context, error) from None
        except (asyncio.CancelledError, GeneratorExit):
            code = StatusCode.CANCELLED.name
            raise
        except Exception as error:
            code = StatusCode.INTERNAL.name
            raise await _abort(context, _incident(method, error)) from None
        finally:
            if observer is not None:
                _observe(observer, method, request, code, started, context)

    return grpc.unary_stream_rpc_method_handler(call)


def _decoded(parse: Callable[[bytes], _Request], raw: bytes) -> _Request:
    try:
        return parse(raw)
    except DecodeError:
        raise errors.bad_request("the request cannot be decoded") from None


async def _abort(context: Any, error: ApiError) -> BaseException:
    """End the call with a status; returns what gRPC wants to be raised then."""
    context.set_trailing_metadata((("grpc-status-details-bin", details(error)),))
    try:
        await context.abort(grpc.StatusCode[error.code.name], short(error.message))
    except BaseException as aborted:
        return aborted
    return error


def _incident(method: str, error: Exception) -> ApiError:
    incident = secrets.token_hex(6)
    log.error("internal error %s in %s", incident, method, exc_info=error)
    return errors.internal(incident)


def _observe(
    observer: CallObserver, method: str, request: Any, code: str, started: float, context: Any
) -> None:
    metadata = context.invocation_metadata() or ()
    parent = next((value for key, value in metadata if key == "traceparent"), "")
    observer.call_ended(method, request, code, started, time.monotonic(), parent)
