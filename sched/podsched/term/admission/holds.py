"""What is kept for units that wait for their victims: quota, until they are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        #: By the key of a victim, those of the units that wait for it.
        self._waiting_for: dict[str, set[str]] = {}
        #: Keys of units whose holds have to be counted anew.
        self._changed: dict[str, None] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Count the holds in a new snapshot, with the next ``recount``."""
        self._snapshot = snapshot
        for key, hold in self.of.items():
            hold.counted = {}
            self._changed[key] = None

    def add(self, key: str, hold: Hold) -> None:
        """Keep quota for a unit that waits for victims; count it with ``recount``."""
        self.of[key] = hold
        self._changed[key] = None
        for victim in hold.victims:
            self._waiting_for.setdefault(victim, set()).add(key)
        self._stale |= dict.fromkeys(hold.victims)

    def lift(self, key: str) -> None:
        """End the hold of a unit, which is decided about, or gone."""
        hold = self.of.pop(key, None)
        if hold is None:
            return
        self._wait_no_longer(key, hold.victims)
        if hold.queue in self._snapshot.queues:
            self._snapshot.remove_usage(hold.queue, hold.counted)
            self._stale |= dict.fromkeys((key, *hold.victims))

    def is_victim(self, key: str) -> bool:
        """Whether a unit waits for this one to be gone."""
        return key in self._waiting_for

    def note(self, key: str) -> None:
        """Note that a unit has changed, which may be a victim."""
        self._changed |= dict.fromkeys(self._waiting_for.get(key, ()))

    def recount(self) -> Iterator[str]:
        """Count the holds as they are now; yield the queues of those whose last victim is gone."""
        changed, self._changed = self._changed, {}
        for key in changed:
            hold = self.of.get(key)
            if hold is not None and hold.queue in self._snapshot.queues:
                if self._forget_gone(key, hold):
                    yield hold.queue
                self._count(hold)

    def _forget_gone(self, key: str, hold: Hold) -> bool:
        """Forget the victims that are gone; return whether the last one is gone now."""
        units = self._units
        gone = {one for one in hold.victims if one not in units or not units[one].held}
        hold.victims -= gone
        self._wait_no_longer(key, gone)
        return bool(gone) and not hold.victims

    def _wait_no_longer(self, key: str, victims: Iterable[str]) -> None:
        for victim in victims:
            waiting = self._waiting_for[victim]
            waiting.discard(key)
            if not waiting:
                del self._waiting_for[victim]

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
