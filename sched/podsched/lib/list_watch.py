"""The one loop that lists and watches, over as many streams as it takes.

    listing  --all listed-->                      watching
    watching --ended or broke, pause-->           watching, from the last revision
    watching --the revision has expired, pause--> listing
    listing  --ended or broke, pause-->           listing
    any      --other errors, cancelled-->         ended

Who follows knows the revision, and so whether a stream begins with a list. Here is when the next
stream is opened.

A stream that has worked for ``HEALTHY`` seconds begins the count of failures anew. A shorter one is
a failure whatever it brought, and however it ended, as client-go counts it: a server, or a proxy
before it, that ends all streams at once is asked ever less often.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from podsched.lib.backoff import Backoff

#: Seconds after which a stream has lasted; client-go calls a shorter watch very short.
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
    """Yield what one stream after the other yields; close it to end the last one.

    stream: opens one, where the last has come to. None from it shows that it works, no more.
    on_error: told of each transient error, after ``backoff`` has begun anew if the stream had
    lasted. It returns the seconds to wait at least, or raises what ends this. Other errors do.
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
            # A server ends each watch in the end, maybe without a word.
            works_since = opened
        except transient as error:
            failed = error
        if clock() - works_since >= HEALTHY:
            backoff.reset()
        pause = on_error(failed) if failed is not None else None
        await asyncio.sleep(max(backoff.next_delay(), pause or 0.0))
