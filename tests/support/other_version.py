"""A peer of another version, on the wire: a gRPC proxy that changes what passes.

What passes is real: requests and responses of the processes on both sides, of every method. To each
message a field is added that this version does not know, as a newer peer would send. Out of
bindings the revision is left, which an older scheduler would not send.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import grpc

from podsched.v1 import api_pb2

#: A field of number 1000 with the bytes "new", which no message of this version has.
UNKNOWN = b"\xc2\x3e\x03new"

Pass = Callable[[bytes], bytes]


class OtherVersion:
    """Passes the calls of those who connect to ``address`` on to an API server."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.aio.insecure_channel(target)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers([_Everything(self._channel)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
        await self._channel.close()


class _Everything(grpc.GenericRpcHandler):
    """Handles every method as a stream of bytes in both directions, which all methods are."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        call = self._channel.stream_stream(details.method)
        older = without_revisions if details.method.endswith("/BindPods") else bytes

        async def handle(
            requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
        ) -> AsyncIterator[bytes]:
            async def changed() -> AsyncIterator[bytes]:
                async for request in requests:
                    yield older(request) + UNKNOWN

            left = context.time_remaining()
            answers = call(changed(), metadata=context.invocation_metadata(), timeout=left)
            try:
                async for answer in answers:
                    yield answer + UNKNOWN
            except grpc.aio.AioRpcError as error:
                trailing = error.trailing_metadata() or ()
                await context.abort(error.code(), error.details() or "", tuple(trailing))
            finally:
                answers.cancel()

        return grpc.stream_stream_rpc_method_handler(handle)


def without_revisions(request: bytes) -> bytes:
    """Return a BindPods request as it was before bindings had a revision."""
    message = api_pb2.BindPodsRequest.FromString(request)
    for binding in message.bindings:
        binding.ClearField("revision")
    return message.SerializeToString()
