"""What a process keeps of the memory that it allocates, by where it was allocated.

Tracing takes time and memory itself, so it runs on demand and not for long: a heap profile holds
what was allocated while it ran and is still there. A process that traces from its start
(``PYTHONTRACEMALLOC=8``) has a profile of all its memory at any time.
"""

from __future__ import annotations

import asyncio
import math
import time
import tracemalloc

from podsched.telemetry.profiling.profile import Call, Stack, ValueType, encode

#: Calls of a stack that are kept; each takes 16 bytes of every block's trace.
_DEPTH = 8
#: Bytes that tracing may take for itself before it ends early: a snapshot of 64 MB of traces holds
#: the process up for less than a second, and a leader that does not answer for two is replaced.
_MOST = 64 << 20
_LOOK = 0.05
_TYPES = (ValueType("inuse_objects", "count"), ValueType("inuse_space", "bytes"))
#: Held while we trace.
_tracing = asyncio.Lock()


class AlreadyTracing(RuntimeError):
    """Somebody else asks for a heap profile as well."""


async def heap_profile(seconds: float) -> bytes:
    """Return what is allocated during some seconds, or less if that is much.

    If memory has been traced from the start, returns at once what was allocated since. Raises
    ``AlreadyTracing``.
    """
    if _tracing.locked():
        raise AlreadyTracing("heap profiling already in use")
    began = time.time()
    if tracemalloc.is_tracing():
        return _profile(began, 0.0)
    async with _tracing:
        tracemalloc.start(_DEPTH)
        try:
            for _ in range(math.ceil(seconds / _LOOK)):
                await asyncio.sleep(min(_LOOK, seconds))
                if tracemalloc.get_tracemalloc_memory() >= _MOST:
                    break
            return _profile(began, time.time() - began)
        finally:
            tracemalloc.stop()


def _profile(began: float, seconds: float) -> bytes:
    samples: dict[Stack, tuple[int, ...]] = {}
    for statistic in tracemalloc.take_snapshot().statistics("traceback"):
        # The outermost call is first. tracemalloc knows lines, but not the functions around them.
        frames = reversed(tuple(statistic.traceback))
        calls = (Call(_name(f), f.filename, 0, f.lineno) for f in frames)
        samples[tuple(calls)] = statistic.count, statistic.size
    return encode(_TYPES, samples, began=began, seconds=seconds)


def _name(frame: tracemalloc.Frame) -> str:
    file = "/".join(frame.filename.rsplit("/", 2)[-2:])
    return f"{file}:{frame.lineno}"
