"""Works on large bodies in a thread, so that other callers are not held up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from podsched.serve.server.fairness.turns import charge_call
from podsched.serve.server.rest.bodies import parsed
from podsched.serve.server.rest.messages import Request

_T = TypeVar("_T")
_P = ParamSpec("_P")
#: Bytes from which on a body is large: about 2 ms of work, ten times what a thread costs.
_LARGE: Final = 32 << 10
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def parsed_body(request: Request, expected: str) -> tuple[Any, list[str]]:
    """Return what ``parsed`` returns. Raises RestError 400 and 415."""
    return await apart(len(request.body), parsed, request, expected)


async def apart(size: int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what a function returns for a body of ``size`` bytes. Raises its exceptions.

    For a large body it is called in a thread, so it must only read what others use. Parsing,
    decoding and patching 3 MB takes up to a second. One thread at a time competes with the event
    loop, which waits for it for at most a switch of threads (``sys.setswitchinterval``), or until a
    call of C code has returned, such as of the JSON parser: 20 ms. The caller's flow is charged.
    """
    if size < _LARGE:
        return function(*args, **kwargs)
    seconds = 0.0

    def measured() -> _T:
        nonlocal seconds
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            seconds = time.thread_time() - began

    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        try:
            return await asyncio.to_thread(measured)
        finally:
            charge_call(seconds)
