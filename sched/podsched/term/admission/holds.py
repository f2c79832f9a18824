"""Holds: quota that is kept for units that wait for their victims, until they are tried again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from podsched.lib.taking import take_all
from podsched.queues.quota import Amounts
from podsched.term.admission.books import Books

#: Seconds between two choices of victims for a unit.
PAUSE: Final = 1.0


@dataclass(eq=False, slots=True)
class Hold:
    """The quota that is kept for one unit.

    It is what the unit needs, less what its victims still use: their usage counts until they are
    gone.
    """

    queue: str
    need: Amounts
    victims: set[str]
    """The keys of their units."""
    since: float
    """When the victims were chosen."""
    helped: bool = False
    """An event may have helped the unit: it is tried again before its victims are gone."""
    counted: Amounts = field(default_factory=dict)


class Holds:
    """The holds of a cluster. They count as usage in the snapshot."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.of: dict[str, Hold] = {}
        """By the key of the unit that waits for its victims."""
        #: Keys of units whose holds have to be counted again.
        self._changed: dict[str, None] = {}

    def begin(self) -> None:
        """Have all holds counted in a new snapshot by the next ``recount``."""
        for key, hold in self.of.items():
            hold.counted = {}
            self._changed[key] = None

    def add(self, key: str, queue: str, need: Amounts, victims: set[str]) -> None:
        """Keep quota for a unit that waits for victims; ``recount`` counts it."""
        self.of[key] = Hold(queue, need, victims, self._books.now)
        self._changed[key] = None
        self._books.stale |= dict.fromkeys(victims)

    def lift(self, key: str) -> None:
        """End the hold of a unit, if it has one, and release the quota that it kept."""
        hold = self.of.pop(key, None)
        if hold is None:
            return
        self._books.stale |= dict.fromkeys((key, *hold.victims))
        if hold.queue in self._books.snapshot.queues:
            self._books.snapshot.remove_usage(hold.queue, hold.counted)
            # Others may preempt the victims that are left.
            units = (self._books.units.get(victim) for victim in hold.victims)
            of_victims = (unit.usage for unit in units if unit is not None)
            self._books.freed.append((hold.queue, {*hold.counted, *chain(*of_victims)}))

    def is_victim(self, key: str) -> bool:
        """Whether another unit waits for this one to be gone."""
        return any(key in hold.victims for hold in self.of.values())

    def by_queue(self) -> tuple[set[str], dict[str, list[str]]]:
        """Return the queues in which a unit waits for its victims, and the units tried by queue.

        The latter have holds whose victims are gone, or may have been helped by an event.
        """
        waiting, tried = set[str](), dict[str, list[str]]()
        for key, hold in self.of.items():
            if hold.victims and not hold.helped:
                waiting.add(hold.queue)
            else:
                tried.setdefault(hold.queue, []).append(key)
        return waiting, tried

    def tried_again_at(self, key: str) -> float:
        """Return when a unit is tried again after an event that may have helped it.

        A unit that waits for victims is tried only after a pause. It needs another try if they
        could not be evicted, or if they are gone but their bindings are not yet known to have
        failed.
        """
        hold = self.of.get(key)
        return hold.since + PAUSE if hold is not None and hold.victims else 0.0

    def note_changed(self, key: str) -> None:
        """Note that a unit has changed: the holds that it is a victim of are counted again."""
        self._changed |= {of: None for of, hold in self.of.items() if key in hold.victims}

    def recount(self) -> Iterator[str]:
        """Count the changed holds; yield the queue of each whose last victim is gone."""
        units = self._books.units
        for key in take_all(self._changed):
            hold = self.of.get(key)
            if hold is not None and hold.queue in self._books.snapshot.queues:
                gone = {one for one in hold.victims if one not in units or not units[one].held}
                hold.victims -= gone
                if gone and not hold.victims:
                    yield hold.queue
                self._count(hold)

    def _count(self, hold: Hold) -> None:
        """Count what the unit needs beyond what its victims still use."""
        wanted = {}
        for key, need in hold.need.items():
            still = sum(self._books.units[one].usage.get(key, 0) for one in hold.victims)
            if need > still:
                wanted[key] = need - still
        if wanted != hold.counted:
            self._books.snapshot.remove_usage(hold.queue, hold.counted)
            self._books.snapshot.add_usage(hold.queue, wanted)
            hold.counted = wanted
