"""What calls see of a server that is left because it is silent (``lib.server_health``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc


@contextmanager
def failing(is_left: Callable[[], bool]) -> Iterator[None]:
    """Raise AioRpcError where calls end because the channel of a silent server was closed.

    Otherwise they end as if their caller was cancelled.
    """
    try:
        yield
    except (asyncio.CancelledError, grpc.aio.UsageError):
        task = asyncio.current_task()
        if not is_left() or (task is not None and task.cancelling()):
            raise
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, nothing, nothing, "the server did not answer"
        ) from None
