"""The handle that plugins get: the cluster, random numbers, and the pods waiting at Permit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from podsched.decide.runtime.waiting_pods import WaitingPods
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import WaitingPod


class Chance:
    """Random numbers that can be repeated: seed and number of draws determine the next number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.draws = 0
        self._source = random.Random(seed)
        self._next: float | None = None

    def random(self) -> float:
        """Draw a number."""
        number, self._next = self.peek(), None
        self.draws += 1
        return number

    def peek(self) -> float:
        """Return the number that will be drawn next.

        So dry runs of preemption made ahead try the nodes that PostFilter will try.
        """
        if self._next is None:
            self._next = self._source.random()
        return self._next

    def go_to(self, draws: int) -> None:
        """Continue as if this many numbers had been drawn."""
        if draws < self.draws:
            self.draws, self._source, self._next = 0, random.Random(self.seed), None
        while self.draws < draws:
            self.random()


@dataclass(slots=True)
class PluginHandle:
    """``framework.plugin.Handle`` of a profile's plugins."""

    cluster: ClusterView
    chance: Chance
    waiting: WaitingPods = field(default_factory=WaitingPods)

    def random(self) -> float:
        return self.chance.random()

    def waiting_pods(self) -> Iterable[WaitingPod]:
        return self.waiting

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        return self.waiting.get(uid)

    def reject_waiting_pod(self, uid: str) -> bool:
        return self.waiting.reject(uid, "a plugin's decision")
