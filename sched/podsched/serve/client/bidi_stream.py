"""A bidirectional gRPC stream with one of the API servers, opened within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import grpc

from podsched.serve.client.channels import Channels
from podsched.serve.client.errors import Unavailable, of_rpc


class BidiStream:
    """Reads and writes messages as bytes; raises ClientError if the stream is broken.

    gRPC replaces the server's status by "Internal error from Core" if a message is being sent when
    the stream ends (grpc/grpc#36066; with a client that always sends, in six of ten streams of a
    server that stops). So the first status is kept.
    """

    def __init__(
        self, call: Any, failing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """failing: around what awaits the call; see ``Channels.failing``."""
        self._call, self._failing = call, failing
        self._first: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._keep_status)

    async def metadata(self) -> Mapping[str, Any]:
        """Return the server's initial metadata."""
        return dict(await self._call.initial_metadata() or ())

    async def read(self) -> bytes | None:
        """Return the next message, or None if the server has ended the stream without an error."""
        try:
            with self._failing():
                raw = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise of_rpc(self._first or error) from error
        return None if raw is grpc.aio.EOF else raw

    async def write(self, raw: bytes) -> None:
        """Send a message, once flow control permits it."""
        try:
            with self._failing():
                await self._call.write(raw)
        except grpc.aio.AioRpcError as error:
            raise of_rpc(self._first or error) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError):
            raise Unavailable("the stream has ended") from None

    async def done_writing(self) -> None:
        """Tell the server that no more messages follow."""
        await self._call.done_writing()

    def cancel(self) -> None:
        """End the stream; no effect if it has ended."""
        self._call.cancel()

    def _keep_status(self, call: Any) -> None:
        # gRPC calls this before anything else can change the status. A read of a call that is done
        # raises its status without waiting.
        reading = call.read()
        try:
            reading.send(None)
        except grpc.aio.AioRpcError as error:
            self._first = self._first or error
        except (StopIteration, asyncio.CancelledError):
            pass  # no error, or cancelled by this client
        finally:
            reading.close()


async def open_bidi_stream(
    channels: Channels, method: str, timeout: float, metadata: Iterable[tuple[str, str]] = ()
) -> BidiStream:
    """Open a stream that the server in use accepts within ``timeout`` seconds.

    Raises ClientError.
    """
    endpoint, channel = channels.endpoint, channels.current()
    call = channel.stream_stream(method)(metadata=(*metadata, *channels.credentials()) or None)
    channels.opened(endpoint, call)
    failing = partial(channels.failing, channel)
    try:
        async with asyncio.timeout(timeout):
            with failing():
                await call.initial_metadata()  # the server has accepted or refused the stream
                if call.done():
                    await call.read()  # raises the refusal
    except TimeoutError:
        call.cancel()
        raise Unavailable("the server did not take the stream in time") from None
    except grpc.aio.AioRpcError as error:
        raise of_rpc(error) from error
    except asyncio.CancelledError:
        call.cancel()
        raise
    return BidiStream(call, failing)
