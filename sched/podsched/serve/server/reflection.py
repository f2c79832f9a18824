"""Serves gRPC server reflection to authenticated callers.

gRPC's own reflection service would answer every client that can connect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from podsched.serve.server import errors
from podsched.serve.server.calls import bidirectional
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.scheduling import SCHEDULING
from podsched.serve.server.service import AUTHORIZATION, OBJECTS, PODS

_METHOD = "ServerReflectionInfo"
_OWN = (OBJECTS, PODS, AUTHORIZATION, SCHEDULING)
_SERVICES = (*_OWN, health.SERVICE_NAME, reflection.SERVICE_NAME)


def reflection_handlers(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handlers to register with gRPC; the audit log does not record their calls."""
    servicer = reflection.aio.ReflectionServicer(_SERVICES)

    async def reflect(requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for response in servicer.ServerReflectionInfo(_decoded(requests), None):
            yield response.SerializeToString()

    handler = bidirectional(_METHOD, reflect, replace(pipeline, audit=None))
    return grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {_METHOD: handler})


async def _decoded(requests: AsyncIterator[bytes]) -> AsyncIterator[ServerReflectionRequest]:
    async for raw in requests:
        try:
            yield ServerReflectionRequest.FromString(raw)
        except DecodeError:
            raise errors.bad_request("the request cannot be decoded") from None
