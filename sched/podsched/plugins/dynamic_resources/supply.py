"""Finds out whether too few devices are left for the remaining requests, by counting.

It compares the number of devices that the requests want with an upper bound of the number that they
can get. For devices that consume a counter, the bound assumes that those with the least consumption
are taken first. If too few are left, the search ends there; trying all orders might take long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Candidates, Level
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.model import MAX_RESULTS, Amount, PoolKey
from podsched.plugins.dynamic_resources.taken import TakenDevices

#: For each counter of a counter set, the devices with the amount they consume, least first.
_Consumers = Sequence[tuple[tuple[str, str], Sequence[tuple[Amount, Candidate]]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Needs:
    """The number of devices that requests need, and the devices that they may get.

    ``others``: devices without counters. ``of_sets``: the devices of each counter set.
    """

    count: int
    others: Sequence[Candidate]
    of_sets: Sequence[_Consumers]


class Supply:
    """Compares the devices that are left with the needs of the requests from a level on."""

    def __init__(
        self,
        levels: Sequence[Level],
        candidates: Candidates,
        taken: TakenDevices,
        equivalence: Equivalence,
    ) -> None:
        self._levels = levels
        self._candidates = candidates
        self._taken = taken
        self._equivalence = equivalence
        #: The needs from each level on; None if the bound does not hold for them.
        self._needs: dict[int, _Needs | None] = {}
        self._may_exceed = _may_exceed(levels)

    def lacks(self, alternative: Alternative, level: Level, missing: int) -> bool:
        """Return whether there are certainly too few devices.

        ``missing``: the number of devices that the alternative of the level still wants.
        """
        needs = self._needs_from(level.index)
        if needs is None:
            return False
        following = self._needs_from(level.index + 1)
        wanted = missing if _least(alternative) else 0
        wanted += following.count if following is not None else 0
        if not wanted:
            return False
        found = sum(self._taken.is_untaken(candidate) for candidate in needs.others)
        if found >= wanted:
            return False
        return found + sum(map(self._most, needs.of_sets)) < wanted

    def _most(self, consumers: _Consumers) -> int:
        """Return the max number of devices of a counter set that can be taken."""
        return min(self._most_of(counter, devices) for counter, devices in consumers)

    def _most_of(
        self, counter: tuple[str, str], devices: Sequence[tuple[Amount, Candidate]]
    ) -> int:
        room = self._taken.counters.room(devices[0][1].pool, counter)
        amounts = (amount for amount, candidate in devices if self._taken.is_untaken(candidate))
        return sum(room is None or total <= room for total in accumulate(amounts))

    def _needs_from(self, index: int) -> _Needs | None:
        if index not in self._needs:
            self._needs[index] = self._find_needs(self._levels[index:])
        return self._needs[index]

    def _find_needs(self, levels: Sequence[Level]) -> _Needs | None:
        if self._may_exceed or not all(map(self._equivalence.is_safe, levels)):
            return None
        alternatives = [
            alternative
            for level in levels
            for alternative in level.alternatives
            if _least(alternative)
        ]
        indexes = {
            candidate.index
            for each in alternatives
            for candidate in self._candidates.available(each)
        }
        wanted = [candidate for candidate in self._candidates.devices if candidate.index in indexes]
        if any(map(self._candidates.is_shareable, wanted)):
            return None
        # A device that consumes counters of several sets counts only for one of them. This makes
        # the bound less tight, not wrong.
        sets: dict[tuple[PoolKey, str], list[Candidate]] = {}
        for candidate in wanted:
            if candidate.device.counters:
                name, _ = min(candidate.device.counters)
                sets.setdefault((candidate.id[:2], name), []).append(candidate)
        return _Needs(
            sum(min(map(_least, level.alternatives)) for level in levels),
            [candidate for candidate in wanted if not candidate.device.counters],
            [_consumers(name, devices) for (_, name), devices in sets.items()],
        )


def _least(alternative: Alternative) -> int:
    """Return the number of devices that an alternative uses up; 0 with admin access."""
    return 0 if alternative.request.admin_access else alternative.count


def _consumers(name: str, devices: Sequence[Candidate]) -> _Consumers:
    """Return the devices of a counter set by counter."""
    counters = {
        counter
        for candidate in devices
        for counter in candidate.device.counters
        if counter[0] == name
    }
    return [
        (
            counter,
            sorted(
                ((candidate.device.counters.get(counter, 0), candidate) for candidate in devices),
                key=itemgetter(0),
            ),
        )
        for counter in counters
    ]


def _may_exceed(levels: Sequence[Level]) -> bool:
    """Return whether a claim may want more devices than a claim can get.

    The search finds that out (``_Outcome.EXCEEDED``), and must not end before with a failure.
    """
    most: Counter[int] = Counter()
    for level in levels:
        most[level.claim_index] += max(alternative.count for alternative in level.alternatives)
    return any(count > MAX_RESULTS for count in most.values())
