"""Works on large bodies in a thread, so that other callers are not held up.

One thread at a time; users take turns. In the order of arrival, another user waited for minutes
behind a hundred bodies of one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from podsched.api.etcd_keys import local_key
from podsched.api.objects import AnyObject, copy_of
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.turns import charge_call
from podsched.serve.server.rest.bodies import parsed
from podsched.serve.server.rest.messages import Request
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.rewriting import Make
from podsched.serve.server.watchcache import WatchCache

_T = TypeVar("_T")
_P = ParamSpec("_P")
#: Bytes from which on a body is large: about 2 ms of work, ten times what a thread costs.
_LARGE: Final = 32 << 10


class _Turns:
    """Turns of an event loop's users, one at a time."""

    def __init__(self) -> None:
        self._is_taken = False
        #: By user, in the order of the next turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of the user, which lasts until the end of the block."""
        if self._is_taken:
            begins = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(user, deque()).append(begins)
            try:
                await begins
            except asyncio.CancelledError:
                if not begins.cancelled():  # it had just begun
                    self._end(user)
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._end(user)

    def _end(self, user: str) -> None:
        if user in self._waiting:  # after all others
            self._waiting[user] = self._waiting.pop(user)
        while self._waiting:
            following = next(iter(self._waiting))
            begins = self._waiting[following].popleft()
            if not self._waiting[following]:
                del self._waiting[following]
            if not begins.done():
                begins.set_result(None)
                return
        self._is_taken = False


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


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

    turns = _turns.setdefault(asyncio.get_running_loop(), _Turns())
    async with turns.turn(caller().user):
        try:
            return await asyncio.to_thread(measured)
        finally:
            charge_call(seconds)


async def made_before(cache: WatchCache, target: Target, size: int, make: Make) -> Make:
    """Return ``make``, called already for the cached version if that may take long.

    size: of the request's body.
    """
    kind = target.resource.kind
    cached = cache.get(kind, local_key(kind, target.namespace, target.name))
    if cached is None:
        return make
    # The storage calls ``make`` between reading and writing, where it cannot wait for a thread.
    made = await errors.awaited(apart(size + len(cached.value), make, cached))

    def remade(entry: Entry) -> AnyObject:
        if entry.revision != cached.revision:
            return make(entry)
        if isinstance(made, ApiError):
            raise made
        return copy_of(made)  # it is completed in place, maybe several times

    return remade
