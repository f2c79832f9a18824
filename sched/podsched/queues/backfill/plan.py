"""The plan: what runs, the reservations of later starts, and when a unit can start beside both.

Units are decided in the order of their queue. Each gets the first time at which it fits beside all
that runs and all reservations of equal or higher priority. So a reservation only moves to an
earlier time, unless quota or nodes that it counts on are gone.

| policy | units with a reservation |
| --- | --- |
| Conservative | every unit that cannot start now |
| EASY | of each queue the first unit that cannot start now, or the first few |

A unit may not delay a reservation of equal or higher priority.

Source: A. W. Mu'alem and D. G. Feitelson, Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling, IEEE TPDS 12 (6), 2001.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podsched.queues.backfill.profile import Profile
from podsched.queues.objects import Backfill
from podsched.queues.quota import Amounts, FlavorResource


@dataclass(frozen=True, slots=True)
class Reservation:
    """Quota and nodes that are kept for a unit from ``start``, for ``seconds``."""

    queue: str
    priority: int
    start: float
    """The time at which the unit starts at the latest."""
    seconds: float
    usage: Amounts
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By node and resource, the requests of the unit's pods there; "pods" is their number.

    Host ports are among them, each by a name of its own.
    """
    devices: tuple[tuple[Any, ...], ...] = ()
    """Devices of claims that are kept, as ``PromisedDevice``."""

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def overlaps(self, start: float, end: float) -> bool:
        """Whether the unit may run at a time between two others."""
        return self.start < end and self.end > start


class Delay(NamedTuple):
    """A reservation that a unit would delay, and the quota that it would take from it."""

    key: str
    quota: FlavorResource


class Plan:
    """Reservations in a profile; see the module."""

    def __init__(self, profile: Profile, reservations: Mapping[str, Reservation]) -> None:
        """Add the reservations, by key of the unit, to a profile that has what runs."""
        self._profile = profile
        self.reservations: dict[str, Reservation] = {}
        for key, one in reservations.items():
            self.reserve(key, one)

    def reserve(self, key: str, made: Reservation) -> None:
        """Add or replace the reservation of a unit."""
        self.drop(key)
        self.reservations[key] = made
        self._profile.occupy(made.queue, made.usage, made.start, made.end)

    def drop(self, key: str) -> None:
        """Remove the reservation of a unit, if it has one."""
        old = self.reservations.pop(key, None)
        if old is not None:
            self._profile.release(old.queue, old.usage, old.start, old.end)

    def start(self, key: str, queue: str, usage: Amounts, seconds: float) -> None:
        """Replace a unit's reservation by its usage from now on, for ``seconds``."""
        self.drop(key)
        now = self._profile.now
        self._profile.occupy(queue, usage, now, now + seconds)

    def others(self, key: str, priority: int) -> dict[str, Reservation]:
        """Return the reservations, by key, that a unit of a priority must not delay."""
        return {
            other: one
            for other, one in self.reservations.items()
            if other != key and one.priority >= priority
        }

    def may_reserve(
        self, key: str, queue: str, priority: int, policy: Backfill, most: int = 1
    ) -> bool:
        """Whether a unit that cannot start now may get a reservation, or keep the one it has.

        ``most``: the number of units of a queue that may have one, with EASY.
        """
        if key in self.reservations or policy is Backfill.CONSERVATIVE:
            return True
        others = self.others(key, priority).values()
        return sum(one.queue == queue for one in others) < most

    def starts(
        self, key: str, queue: str, priority: int, usage: Amounts, seconds: float
    ) -> list[float]:
        """Return the times, ascending, from which on quota has room for a unit for ``seconds``.

        This is beside the reservations that it must not delay; see ``Profile.starts``.
        """
        with self._without_lower(key, priority):
            return self._profile.starts(queue, usage, seconds)

    def delays(
        self,
        key: str,
        queue: str,
        priority: int,
        usage: Amounts,
        until: float,
        gone: Sequence[tuple[str, Amounts, float]] = (),
    ) -> Delay | None:
        """Return which reservation a unit would delay if it used quota from now ``until`` a time.

        ``gone``: queue, usage and end of running units that are gone before this one starts.
        """
        profile, now = self._profile, self._profile.now
        with self._without_lower(key, priority):
            for of_queue, used, end in gone:
                profile.release(of_queue, used, now, end)
            short = profile.shortage(queue, usage, until)
            for of_queue, used, end in gone:
                profile.occupy(of_queue, used, now, end)
        if short is None:
            return None
        at, quota = short
        # What runs only ends, so quota that is enough now runs short later by reservations alone.
        others = self.others(key, priority).items()
        using = [(one.start, k) for k, one in others if one.start <= at < one.end]
        using = [one for one in using if quota in self.reservations[one[1]].usage]
        return Delay(min(using)[1], quota) if using else None

    @contextmanager
    def _without_lower(self, key: str, priority: int) -> Iterator[None]:
        """Leave out the unit's own reservation, and those of lower priority, in the context."""
        gone = [one for k, one in self.reservations.items() if k == key or one.priority < priority]
        for one in gone:
            self._profile.release(one.queue, one.usage, one.start, one.end)
        yield
        for one in gone:
            self._profile.occupy(one.queue, one.usage, one.start, one.end)
