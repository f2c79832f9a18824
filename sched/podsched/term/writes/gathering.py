"""Gather what gets ready one by one, so that it is sent in few calls.

Pods that differ from each other are decided one at a time. While further decisions follow at once,
items are gathered for at most GATHER_FOR seconds. If no other decision follows, they are released
at once, but at least INTERVAL seconds after the last ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: Items are released once this many are gathered, or after this many seconds. Without gathering,
#: at 5,000 nodes and with different requests for every pod, calls had some 5 pods, and API server
#: and etcd took 1.5 times as long for a pod.
ENOUGH: Final = 100
GATHER_FOR: Final = 0.02
#: Min seconds between two releases of few items. Without it, each pod would get its own call when
#: pods are created one by one, from some 300 pods a second on.
INTERVAL: Final = 0.005


class Gathering(Generic[T]):
    """Items that are not released yet; create it in an event loop."""

    def __init__(self, release: Callable[[Sequence[T]], None]) -> None:
        self._on_release = release
        self._items: list[T] = []
        self._timer: asyncio.TimerHandle | None = None
        self._clock = asyncio.get_running_loop().time
        # As if the last release were long ago, so that the first item is released at once.
        self._released_at = -INTERVAL

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: Sequence[T], *, others_follow: bool, others_wait: bool) -> None:
        """Add items; ``others_follow``: wait a little for more.

        ``others_wait``: released items wait for a call, so gathering more would gain nothing.
        """
        self._items += items
        if not self._items:
            return
        now = self._clock()
        due = now + GATHER_FOR if others_follow else self._released_at + INTERVAL
        if due <= now or others_wait or len(self._items) >= ENOUGH:
            self._release()
        elif self._timer is None or due < self._timer.when():
            self._stop_timer()
            self._timer = asyncio.get_running_loop().call_at(due, self._release)

    def _release(self) -> None:
        self._stop_timer()
        self._released_at = self._clock()
        items, self._items = self._items, []
        self._on_release(items)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
