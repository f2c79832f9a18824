"""Visits the pods that exist already, for objects that are new and select pods of their namespace.

There may be very many pods, so they are visited in parts. Objects that come together share a pass.
One that comes during a pass waits for the next one, which visits all pods again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from podsched.api.objects import Pod
from podsched.term.controllers.controller import Objects, find
from podsched.term.controllers.write_queues import Writes

#: Cost of a pod in a namespace without such objects; other pods cost 1.
_PASSED_OVER: Final = 0.05


class PodPass:
    """The objects, by key, whose pods have not all been visited."""

    def __init__(self, objects: Objects, writes: Writes, visit: Callable[[str, Pod], None]) -> None:
        self._objects = objects
        self._writes = writes
        self._visit = visit
        self._waiting: dict[str, None] = {}
        self._present: dict[str, None] = {}
        """The objects of the present pass."""
        self._left: Iterator[str] | None = None
        """The pods that it has not visited; None between two passes."""

    def __contains__(self, key: str) -> bool:
        return key in self._waiting or key in self._present

    def __bool__(self) -> bool:
        return bool(self._waiting) or self._left is not None

    def add(self, key: str) -> None:
        self._waiting[key] = None

    def discard(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._present.pop(key, None)

    def clear(self) -> None:
        self._waiting, self._present, self._left = {}, {}, None

    def go_on(self, most: int) -> list[str]:
        """Visit pods up to a cost; return the objects whose pods have all been visited."""
        if not self:
            return []
        if self._left is None:
            self._present, self._waiting = self._waiting, {}
            self._left = iter(list(self._objects.objects("Pod")))
        namespaces = {key.partition("/")[0] for key in self._present}
        cost = 0.0
        for key in self._left:
            is_wanted = key.partition("/")[0] in namespaces
            pod = find(self._objects, Pod, key) if is_wanted else None
            if pod is not None:
                with self._writes.skipping("Pod", key):
                    self._visit(key, pod)
            cost += 1.0 if is_wanted else _PASSED_OVER
            if cost >= most:
                return []
        self._left = None
        ended, self._present = list(self._present), {}
        return ended
