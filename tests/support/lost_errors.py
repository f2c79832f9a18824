"""Errors of tasks that nobody has asked for, which asyncio logs when the task is freed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def no_lost_errors() -> AsyncIterator[None]:
    """Fail if the event loop has something to log of the tasks that end in the block."""
    lost: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: lost.append(context))
    try:
        yield
        await asyncio.sleep(0)
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert not lost
