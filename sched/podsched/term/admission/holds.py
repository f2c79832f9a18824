"""Holds: quota that is kept for units that wait for their victims, until they are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from podsched.lib.taking import take_all
from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.units import Unit


@dataclass(eq=False, slots=True)
class Hold:
    """The quota that is kept for one unit.

    It is what the unit needs, less what its victims still use: their usage counts until they are
    gone.
    """

    queue: str
    need: Mapping[FlavorResource, int]
    victims: set[str]
    """The keys of their units."""
    since: float
    """When the victims were chosen."""
    helped: bool = False
    """An event may have helped the unit: it is tried again before its victims are gone."""
    counted: dict[FlavorResource, int] = field(default_factory=dict)


class Holds:
    """The holds of a cluster. They count as usage in the snapshot."""

    def __init__(self, units: Mapping[str, Unit], stale: dict[str, None]) -> None:
        """``stale``: the set to which this adds the keys of units that have to be refreshed."""
        self._units = units
        self._stale = stale
        self._snapshot = Snapshot(())
        self.of: dict[str, Hold] = {}
        """By the key of the unit that waits for its victims."""
        #: By the key of a victim, those of the units that wait for it.
        self._waiting_for: dict[str, set[str]] = {}
        #: Keys of units whose holds have to be counted again.
        self._changed: dict[str, None] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Use a new snapshot; the next ``recount`` counts the holds in it."""
        self._snapshot = snapshot
        for key, hold in self.of.items():
            hold.counted = {}
            self._changed[key] = None

    def add(self, key: str, hold: Hold) -> None:
        """Keep quota for a unit that waits for victims; ``recount`` counts it."""
        self.of[key] = hold
        self._changed[key] = None
        for victim in hold.victims:
            self._waiting_for.setdefault(victim, set()).add(key)
        self._stale |= dict.fromkeys(hold.victims)

    def lift(self, key: str) -> None:
        """End the hold of a unit, if it has one."""
        hold = self.of.pop(key, None)
        if hold is None:
            return
        self._wait_no_longer(key, hold.victims)
        if hold.queue in self._snapshot.queues:
            self._snapshot.remove_usage(hold.queue, hold.counted)
            self._stale |= dict.fromkeys((key, *hold.victims))

    def is_victim(self, key: str) -> bool:
        """Whether another unit waits for this one to be gone."""
        return key in self._waiting_for

    def note_changed(self, key: str) -> None:
        """Note that a unit has changed: the holds that it is a victim of are counted again."""
        self._changed |= dict.fromkeys(self._waiting_for.get(key, ()))

    def recount(self) -> Iterator[str]:
        """Count the changed holds; yield the queue of each whose last victim is gone."""
        for key in take_all(self._changed):
            hold = self.of.get(key)
            if hold is not None and hold.queue in self._snapshot.queues:
                if self._forget_gone(key, hold):
                    yield hold.queue
                self._count(hold)

    def _forget_gone(self, key: str, hold: Hold) -> bool:
        """Remove the victims that are gone; return whether the last one was among them."""
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
        """Count what the unit needs beyond what its victims still use."""
        wanted = {}
        for key, need in hold.need.items():
            still = sum(self._units[one].usage.get(key, 0) for one in hold.victims)
            if need > still:
                wanted[key] = need - still
        if wanted != hold.counted:
            self._snapshot.remove_usage(hold.queue, hold.counted)
            self._snapshot.add_usage(hold.queue, wanted)
            hold.counted = wanted
