"""Waiting for what other tasks or processes do: the one way in which tests poll."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

_TRUE = object()
#: Seconds in which anything comes, also on a machine with far too much to do.
PATIENCE = 180.0


async def eventually(
    what: str,
    read: Callable[[], Any],
    wanted: object = _TRUE,
    *,
    within: float = PATIENCE,
    pause: float = 0.02,
) -> Any:
    """Repeat ``read``, a function or a coroutine function, until it returns ``wanted``.

    Without ``wanted``, until it returns something true. Return that; fail with ``what`` when it
    does not come within the seconds. Time is the event loop's, which may be virtual.
    """
    wait = _Wait(what, wanted, within, asyncio.get_running_loop().time)
    while True:
        value = read()
        if inspect.isawaitable(value):
            value = await value
        if wait.is_over(value):
            return value
        await asyncio.sleep(pause)


def eventually_blocking(
    what: str,
    read: Callable[[], Any],
    wanted: object = _TRUE,
    *,
    within: float = PATIENCE,
    pause: float = 0.02,
) -> Any:
    """Do what `eventually` does where no event loop runs."""
    wait = _Wait(what, wanted, within, time.monotonic)
    while not wait.is_over(value := read()):
        time.sleep(pause)
    return value


class _Wait:
    """What is waited for, and until when."""

    def __init__(
        self, what: str, wanted: object, within: float, clock: Callable[[], float]
    ) -> None:
        self._what = what
        self._wanted = wanted
        self._within = within
        self._clock = clock
        self._deadline = clock() + within

    def is_over(self, value: Any) -> bool:
        """Whether the value is the one waited for; fails when it is not and the time is up."""
        if value == self._wanted or (self._wanted is _TRUE and value):
            return True
        if self._clock() >= self._deadline:
            wanted = "" if self._wanted is _TRUE else f", wanted {self._wanted!r}"
            raise AssertionError(
                f"not within {self._within:g} s: {self._what} (last {value!r}{wanted})"
            )
        return False
