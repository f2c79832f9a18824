"""What is kept for units that wait for their victims: quota, until they are tried again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.units import Unit


@dataclass(eq=False, slots=True)
class Hold:
    """What is kept for a unit that waits for its victims.

    It is the need, less what the victims still use: they are counted until they are gone.
    """

    queue: str
    need: Mapping[FlavorResource, int]
    victims: set[str]
    """The keys of their units."""
    since: float
    """When the victims were chosen."""
    counted: dict[FlavorResource, int] = field(default_factory=dict)


class Holds:
    """The holds of a cluster, which are counted as usage of the snapshot."""

    def __init__(self, units: Mapping[str, Unit], stale: dict[str, None]) -> None:
        """``stale`` gets the keys of units to look at again."""
        self._units = units
        self._stale = stale
        self._snapshot = Snapshot(())
        self.of: dict[str, Hold] = {}
        """By the key of the unit that waits for its victims."""

    def begin(self, snapshot: Snapshot) -> None:
        """Count the holds in a new snapshot, with the next ``recount``."""
        self._snapshot = snapshot
        for hold in self.of.values():
            hold.counted = {}

    def add(self, key: str, hold: Hold) -> None:
        """Keep quota for a unit that waits for victims; count it with ``recount``."""
        self.of[key] = hold
        self._stale |= dict.fromkeys(hold.victims)

    def lift(self, key: str) -> None:
        """End the hold of a unit, which is decided about, or gone."""
        hold = self.of.pop(key, None)
        if hold is not None and hold.queue in self._snapshot.queues:
            self._snapshot.remove_usage(hold.queue, hold.counted)
            self._stale |= dict.fromkeys((key, *hold.victims))

    def lift_served(self, queue: str) -> None:
        """End the holds of a queue whose victims are all gone."""
        for key in [k for k, of in self.of.items() if of.queue == queue and not of.victims]:
            self.lift(key)

    def is_victim(self, key: str) -> bool:
        """Whether a unit waits for this one to be gone."""
        return any(key in hold.victims for hold in self.of.values())

    def recount(self) -> Iterator[str]:
        """Count the holds as they are now; yield the queues of those whose last victim is gone."""
        for hold in self.of.values():
            if hold.queue in self._snapshot.queues:
                if self._forget_gone(hold):
                    yield hold.queue
                self._count(hold)

    def _forget_gone(self, hold: Hold) -> bool:
        """Forget the victims that are gone; return whether the last one is gone now."""
        units = self._units
        gone = {key for key in hold.victims if key not in units or not units[key].held}
        hold.victims -= gone
        return bool(gone) and not hold.victims

    def _count(self, hold: Hold) -> None:
        """Count a hold as what is missing of the need, once all its victims are gone."""
        wanted = {}
        for key, need in hold.need.items():
            still = sum(self._units[one].usage.get(key, 0) for one in hold.victims)
            if need > still:
                wanted[key] = need - still
        if wanted != hold.counted:
            self._snapshot.remove_usage(hold.queue, hold.counted)
            self._snapshot.add_usage(hold.queue, wanted)
            hold.counted = wanted
