"""Numbers of units, and usage, of each ClusterQueue and LocalQueue, for the queues' statuses."""

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
    """The queues of a unit, and whether it waits or runs: both, if only some of its pods wait."""

    queue: str
    local_queue: str
    waits: bool
    runs: bool


@dataclass(slots=True)
class Tally:
    """The numbers of a queue's units, and what they use."""

    pending: int = 0
    admitted: int = 0
    usage: Counter[FlavorResource] = field(default_factory=Counter)


class Tallies:
    """The tallies of all queues, changed unit by unit."""

    def __init__(self) -> None:
        self._of: defaultdict[QueueKey, Tally] = defaultdict(Tally)
        self._standings: dict[str, Standing] = {}
        self.changed: dict[QueueKey, None] = {}
        """The queues whose tally has changed since the reader last cleared this."""

    def of(self, key: QueueKey) -> Tally:
        """Return the tally of a queue."""
        return self._of.get(key) or Tally()

    def clear(self) -> None:
        """Remove all counts; everything is counted again."""
        self.changed |= dict.fromkeys(self._of)
        self._of.clear()
        self._standings.clear()

    def set_standing(self, unit: str, standing: Standing | None) -> None:
        """Count a unit in its queues; None: it is gone."""
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
        """Add amounts to the usage of both queues; amounts below 0 reduce it."""
        for tally in self._both(queue, local_queue):
            for key, amount in amounts.items():
                tally.usage[key] += amount

    def _both(self, queue: str, local_queue: str) -> list[Tally]:
        keys = QueueKey("ClusterQueue", queue), QueueKey("LocalQueue", local_queue)
        self.changed |= dict.fromkeys(keys)
        return [self._of[key] for key in keys]
