"""Numbers of units, and usage, of each ClusterQueue and LocalQueue, for the queues' statuses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from podsched.queues.quota import FlavorResource
from podsched.term.admission.units import Unit


class QueueKey(NamedTuple):
    """A ClusterQueue, by its name, or a LocalQueue, by "namespace/name"."""

    kind: str
    key: str


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
        self.changed: dict[QueueKey, None] = {}
        """The queues whose tally has changed since the reader last cleared this."""

    def of(self, key: QueueKey) -> Tally:
        """Return the tally of a queue."""
        return self._of.get(key) or Tally()

    def clear(self) -> None:
        """Remove all counts; all units are made anew and counted."""
        self.changed |= dict.fromkeys(self._of)
        self._of.clear()

    def update(self, unit: Unit) -> None:
        """Count a changed unit in its queues; one without pods no more."""
        old, new = unit.counted, None
        if unit.held or unit.waiting:
            new = unit.queue, unit.local_queue_key, bool(unit.held)
        unit.counted = new
        for one, sign in ((old, -1), (new, 1)) if old != new else ():
            if one is not None:
                *queues, is_admitted = one
                for tally in self._both(*queues):
                    tally.admitted += sign * is_admitted
                    tally.pending += sign * (not is_admitted)

    def use(self, queue: str, local_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Add amounts to the usage of both queues; amounts below 0 reduce it."""
        for tally in self._both(queue, local_queue):
            for key, amount in amounts.items():
                tally.usage[key] += amount

    def _both(self, queue: str, local_queue: str) -> list[Tally]:
        keys = QueueKey("ClusterQueue", queue), QueueKey("LocalQueue", local_queue)
        self.changed |= dict.fromkeys(keys)
        return [self._of[key] for key in keys]
