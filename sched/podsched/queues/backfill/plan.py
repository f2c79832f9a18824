"""Which waiting units start now, and which get a reservation of quota and nodes for later.

Units are looked at by priority, and within a priority in the order of the queue:

1. the reservations that units of the priority have are kept if they still fit
2. in order, each unit gets the first time at which it fits beside everything above and all
   reservations that are kept. A unit with a reservation never gets a later time that way.

| policy | who gets a reservation | who is not delayed |
| --- | --- | --- |
| Conservative | every unit | anybody, by a unit of no higher priority |
| EASY | the first units of each queue that cannot start now | these units |

A reservation that no longer fits is withdrawn: what it was made of is gone (a node, quota), was
taken by a higher priority, or is used by a unit that has not ended in time.

Source: A. W. Mu'alem and D. G. Feitelson, Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling, IEEE TPDS 12 (6), 2001.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np

from podsched.queues.backfill.profile import Demand, Occupation, Profile, Start
from podsched.queues.quota import Amounts


class Backfill(StrEnum):
    """Who gets a reservation."""

    CONSERVATIVE = "Conservative"
    EASY = "EASY"


class Option(NamedTuple):
    """A choice of flavors for a unit: what it uses of quota, and the pods that need nodes."""

    usage: Amounts
    demands: tuple[Demand, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Ask:
    """A unit that waits."""

    key: str
    queue: str
    priority: int
    occupied: float
    """Seconds from its start until all that it takes is free again, at the latest."""
    options: tuple[Option, ...]
    not_now: bool = False
    """It cannot start now for another reason than quota and room on nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class Reservation:
    """Quota and nodes that are kept for a unit, which starts ``start`` at the latest."""

    start: float
    end: float
    occupation: Occupation


@dataclass(frozen=True, slots=True)
class PlanRules:
    """How far a plan goes."""

    policy: Backfill = Backfill.EASY
    horizon: float = 86_400.0
    """A start later than that after now is not planned, in seconds."""
    resolution: float = 0.0
    """A reservation is made anew only for a start that is earlier by that, in seconds."""
    reservations: int = 1
    """EASY: of each queue, how many units that cannot start now get a reservation."""


@dataclass(eq=False, slots=True)
class Plan:
    """The result, in order."""

    starts: dict[str, Reservation] = field(default_factory=dict)
    """What starts now, by key, and what it is expected to take."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    withdrawn: dict[str, Reservation] = field(default_factory=dict)
    """Reservations that could not be kept."""


def make_plan(
    profile: Profile,
    asks: Sequence[Ask],
    kept: Mapping[str, Reservation],
    rules: PlanRules,
    plan: Plan,
) -> Iterator[None]:
    """Plan for units in the order of the queue, in steps; the profile has what runs.

    ``kept``: the reservations of earlier plans, by key. The result is put into ``plan``, and the
    profile has it in the end.
    """
    work = _Planning(profile, kept, rules, plan)
    by_priority = sorted(asks, key=lambda ask: -ask.priority)
    for _, alike in groupby(by_priority, key=lambda ask: ask.priority):
        yield from work.of_priority(list(alike))


class _Planning:
    def __init__(
        self, profile: Profile, kept: Mapping[str, Reservation], rules: PlanRules, plan: Plan
    ) -> None:
        self._profile = profile
        self._kept = kept
        self._rules = rules
        self._plan = plan
        #: By queue, how many units have a reservation.
        self._reserving: Counter[str] = Counter()

    def of_priority(self, asks: Collection[Ask]) -> Iterator[None]:
        profile, held = self._profile, {}
        for ask in asks:
            old = self._kept.get(ask.key)
            if old is None:
                continue
            start, end = self._times(old, ask)
            if profile.fits(old.occupation, start, end):
                held[ask.key] = Reservation(start, end, old.occupation)
                profile.occupy(old.occupation, start, end)
            else:
                self._plan.withdrawn[ask.key] = old
        for ask in asks:
            self._plan_one(ask, held.get(ask.key))
            yield

    def _times(self, old: Reservation, ask: Ask) -> tuple[float, float]:
        """Return when a reservation begins and ends from now on; its time may have come."""
        start = max(old.start, self._profile.now)
        return start, start + ask.occupied

    def _plan_one(self, ask: Ask, held: Reservation | None) -> None:
        now = self._profile.now
        if held is not None:
            self._profile.release(held.occupation, held.start, held.end)
        reserves = held is not None or self._may_reserve(ask)
        found = self._first_start(ask, reserves=reserves)
        if held is not None and self._stays(held, found, ask):
            found = Start(held.start, held.occupation)
        if found is None:
            if held is not None:
                self._plan.withdrawn[ask.key] = self._kept[ask.key]
            return
        made = Reservation(found.at, found.at + ask.occupied, found.occupation)
        self._profile.occupy(made.occupation, made.start, made.end)
        if made.start <= now:
            self._plan.starts[ask.key] = made
            return
        self._plan.reservations[ask.key] = made
        self._reserving[ask.queue] += 1
        if held is not None and held.start < made.start:
            self._plan.withdrawn[ask.key] = self._kept[ask.key]

    def _stays(self, held: Reservation, found: Start | None, ask: Ask) -> bool:
        """Whether a reservation is no worse than what was found; other nodes are no reason."""
        now = self._profile.now
        if held.start <= now and ask.not_now:
            return False
        if found is None or found.at >= held.start:
            return True
        return now < found.at and found.at >= held.start - self._rules.resolution

    def _may_reserve(self, ask: Ask) -> bool:
        if self._rules.policy is Backfill.CONSERVATIVE:
            return True
        return self._reserving[ask.queue] < self._rules.reservations

    def _first_start(self, ask: Ask, *, reserves: bool) -> Start | None:
        """Return the first start with any choice of flavors; the first choice, if several do."""
        now = self._profile.now
        after = float(np.nextafter(now, np.inf)) if ask.not_now else now
        until = now + self._rules.horizon if reserves else now
        found: Start | None = None
        for option in ask.options:
            if found is not None:
                until = float(np.nextafter(found.at, -np.inf))
            start = self._profile.earliest(
                ask.queue, *option, limit=ask.occupied, after=after, until=until
            )
            found = start if start is not None else found
            if found is not None and found.at <= now:
                break
        return found
