"""The loop that keeps a list and watch going over many streams; all watchers in podsched use it.

    listing  --all listed-->                      watching
    watching --ended or broke, pause-->           watching, from the last revision
    watching --the revision has expired, pause--> listing
    listing  --ended or broke, pause-->           listing
    any      --other errors, cancelled-->         ended

The caller knows the last revision, and so decides whether a stream begins with a list. This loop
decides when the next stream is opened.

A stream that has worked for ``HEALTHY`` seconds resets the backoff. A shorter one counts as a
failure, whatever it delivered and however it ended, as in client-go's reflector. So a server (or a
proxy before it) that ends all streams immediately gets requests at a decreasing rate.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from podsched.lib.backoff import Backoff

#: Seconds from which on a stream counts as healthy; client-go logs a shorter one as a "very short
#: watch".
HEALTHY: Final = 1.0

T = TypeVar("T")
ErrorT = TypeVar("ErrorT", bound=Exception)


async def list_and_watch(
    stream: Callable[[], AsyncGenerator[T | None, None]],
    on_error: Callable[[ErrorT], float | None],
    *,
    transient: tuple[type[ErrorT], ...],
    backoff: Backoff,
) -> AsyncGenerator[T, None]:
    """Yield the items of one stream after another, with pauses between them; endless.

    stream: opens a stream that continues where the last one ended. An item None means that the
    stream works but has nothing to yield. on_error: called with each transient error; it returns
    the min seconds to wait (None: 0), or raises an exception to end this loop. transient: the
    errors after which to open another stream; others are raised. Close this generator to end the
    open stream.
    """
    clock = asyncio.get_running_loop().time
    while True:
        opened, works_since, failed = clock(), math.inf, None
        try:
            async with aclosing(stream()) as items:
                async for item in items:
                    if works_since == math.inf:
                        works_since = clock()
                    if item is not None:
                        yield item
            # Servers end every watch after some time, possibly without having sent anything, so a
            # stream that ended regularly has worked from its start.
            works_since = opened
        except transient as error:
            failed = error
        if clock() - works_since >= HEALTHY:
            backoff.reset()
        pause = on_error(failed) if failed is not None else None
        await asyncio.sleep(max(backoff.next_delay(), pause or 0.0))
