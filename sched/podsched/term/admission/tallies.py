"""Counts of units and usage by ClusterQueue and LocalQueue, kept current unit by unit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from podsched.queues.quota import FlavorResource


class QueueKey(NamedTuple):
    """A ClusterQueue, by its name, or a LocalQueue, by "namespace/name"."""

    kind: str
    key: str


class Standing(NamedTuple):
    """Where a unit stands. It may run and wait: for some of its pods."""

    queue: str
    local_queue: str
    waits: bool
    runs: bool


@dataclass(slots=True)
class Tally:
    """The units of a queue, and what they use."""

    pending: int = 0
    admitted: int = 0
    usage: Counter[FlavorResource] = field(default_factory=Counter)


class Tallies:
    """See the module."""

    def __init__(self) -> None:
        self._of: defaultdict[QueueKey, Tally] = defaultdict(Tally)
        self._standings: dict[str, Standing] = {}
        self.changed: dict[QueueKey, None] = {}
        """The queues whose tally has changed since its reader cleared this."""

    def of(self, key: QueueKey) -> Tally:
        """Return the tally of a queue."""
        return self._of.get(key) or Tally()

    def clear(self) -> None:
        """Forget everything: it is counted anew."""
        self.changed |= dict.fromkeys(self._of)
        self._of.clear()
        self._standings.clear()

    def place(self, unit: str, standing: Standing | None) -> None:
        """Note where a unit stands; None: it is gone."""
        old = self._standings.get(unit)
        if old == standing:
            return
        for one, sign in ((old, -1), (standing, 1)):
            if one is not None:
                for tally in self._both(one.queue, one.local_queue):
                    tally.pending += sign * (one.waits and not one.runs)
                    tally.admitted += sign * one.runs
        if standing is None:
            del self._standings[unit]
        else:
            self._standings[unit] = standing

    def use(self, queue: str, local_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Count usage; amounts below 0 are not used any longer."""
        for tally in self._both(queue, local_queue):
            for key, amount in amounts.items():
                tally.usage[key] += amount

    def _both(self, queue: str, local_queue: str) -> list[Tally]:
        keys = QueueKey("ClusterQueue", queue), QueueKey("LocalQueue", local_queue)
        self.changed |= dict.fromkeys(keys)
        return [self._of[key] for key in keys]
