"""What runs and what is reserved for later, and when a unit can start beside it.

Units are looked at in the order of their queue. Each gets the first time at which it fits beside
all that runs and all reservations of others of no lower priority. So a reservation only moves to an
earlier time, unless what it was made of is gone.

| policy | who gets a reservation | who is not delayed |
| --- | --- | --- |
| Conservative | every unit | anybody, by a unit of no higher priority |
| EASY | the first unit of each queue that cannot start now | this unit |

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
    """Quota and nodes that are kept for a unit from ``start``, for so many ``seconds``."""

    queue: str
    priority: int
    start: float
    """The unit starts then at the latest."""
    seconds: float
    usage: Amounts
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By node: what the unit's pods request there, by resource; "pods" is their number."""
    devices: tuple[tuple[Any, ...], ...] = ()
    """Devices of claims that are kept, as ``PromisedDevice``."""

    @property
    def end(self) -> float:
        return self.start + self.seconds


class Delay(NamedTuple):
    """A reservation, by the key of its unit, and the quota that another unit would take from it."""

    key: str
    quota: FlavorResource


class Plan:
    """See the module. The profile has what runs; reservations are added to it here."""

    def __init__(self, profile: Profile, reservations: Mapping[str, Reservation]) -> None:
        """``reservations``: by the key of their unit."""
        self._profile = profile
        self.reservations: dict[str, Reservation] = {}
        for key, one in reservations.items():
            self.reserve(key, one)

    def reserve(self, key: str, made: Reservation) -> None:
        """Keep quota for a unit, instead of what was kept for it."""
        self.drop(key)
        self.reservations[key] = made
        self._profile.occupy(made.queue, made.usage, made.start, made.end)

    def drop(self, key: str) -> None:
        """Keep nothing for a unit any longer."""
        old = self.reservations.pop(key, None)
        if old is not None:
            self._profile.release(old.queue, old.usage, old.start, old.end)

    def start(self, key: str, queue: str, usage: Amounts, seconds: float) -> None:
        """Count a unit that starts now."""
        self.drop(key)
        now = self._profile.now
        self._profile.occupy(queue, usage, now, now + seconds)

    def others(self, key: str, priority: int) -> dict[str, Reservation]:
        """Return the reservations that a unit of a priority must not delay."""
        return {
            other: one
            for other, one in self.reservations.items()
            if other != key and one.priority >= priority
        }

    def may_reserve(
        self, key: str, queue: str, priority: int, policy: Backfill, most: int = 1
    ) -> bool:
        """Whether a unit that cannot start now gets a reservation; it keeps one that it has.

        ``most``: with EASY, so many units of a queue may have one.
        """
        if key in self.reservations or policy is Backfill.CONSERVATIVE:
            return True
        others = self.others(key, priority).values()
        return sum(one.queue == queue for one in others) < most

    def starts(
        self,
        key: str,
        queue: str,
        priority: int,
        usage: Amounts,
        seconds: float,
    ) -> list[float]:
        """Return the times, ascending, from which on quota has room for a unit for so long.

        Those reservations are kept that it must not delay.
        """
        with self._without_lower(key, priority):
            return self._profile.starts(queue, usage, seconds)

    def delays(
        self,
        key: str,
        queue: str,
        priority: int,
        usage: Amounts,
        seconds: float,
        gone: Sequence[tuple[str, Amounts, float]] = (),
    ) -> Delay | None:
        """Return whose start a unit would delay by its use of quota, if it started now.

        ``gone``: queue, usage and end of units that run, and are gone before this one starts.
        """
        profile, now = self._profile, self._profile.now
        with self._without_lower(key, priority):
            for of_queue, used, end in gone:
                profile.release(of_queue, used, now, end)
            short = profile.shortage(queue, usage, seconds)
            for of_queue, used, end in gone:
                profile.occupy(of_queue, used, now, end)
        if short is None:
            return None
        at, quota = short
        others = self.others(key, priority).items()
        using = [(one.start, k) for k, one in others if one.start <= at < one.end]
        using = [one for one in using if quota in self.reservations[one[1]].usage]
        return Delay(min(using)[1], quota) if using else None

    @contextmanager
    def _without_lower(self, key: str, priority: int) -> Iterator[None]:
        """Count the unit's own reservation, and those of lower priority, no longer for a while."""
        gone = [one for k, one in self.reservations.items() if k == key or one.priority < priority]
        for one in gone:
            self._profile.release(one.queue, one.usage, one.start, one.end)
        yield
        for one in gone:
            self._profile.occupy(one.queue, one.usage, one.start, one.end)
