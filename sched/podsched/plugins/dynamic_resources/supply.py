"""Finds out by counting that a search fails, because trying all devices might take long.

``Supply`` finds out whether too few devices are left for the remaining requests. It compares the
number of devices that the requests want with an upper bound of the number that they can get. For
devices that consume a counter, the bound assumes that those with the least consumption are taken
first.

``is_unsatisfiable`` finds out whether a request or constraint can never be satisfied, whatever the
others get. A request is compared with the number of devices that it can get alone; a matchAttribute
with the number of these that have a value in common; a distinctAttribute with the number of their
values. The search never gets past a request that cannot be satisfied, so later requests, and errors
that they may raise, do not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from podsched.lib.groups import lists_by_key
from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Candidates, Level
from podsched.plugins.dynamic_resources.constraints import Values
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.model import MAX_RESULTS, Amount
from podsched.plugins.dynamic_resources.taken import TakenDevices

#: For each counter of a counter set, the devices with the amount they consume, least first.
_Consumers = Sequence[tuple[tuple[str, str], Sequence[tuple[Amount, Candidate]]]]

#: The alternatives of a request that can be satisfied alone.
_Request = Sequence[Alternative]
#: For each alternative of a request: the number of devices, and the values of those it can get.
_Wanted = Sequence[tuple[int, Sequence[Values]]]


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
        self, levels: Sequence[Level], taken: TakenDevices, equivalence: Equivalence
    ) -> None:
        self._levels = levels
        self._candidates = taken.candidates
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
        sets = lists_by_key(
            ((candidate.id[:2], min(counters)[0]), candidate)
            for candidate in wanted
            if (counters := candidate.device.counters)
        )
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


def is_unsatisfiable(
    levels: Sequence[Level], candidates: Candidates, equivalence: Equivalence
) -> Iterator[bool]:
    """Yield, after each pass over all devices, whether the search certainly fails.

    The caller stops after the first True. Without a True, the search may still fail.
    """
    by_claim: dict[int, list[_Request]] = defaultdict(list)
    for level in levels:
        if not equivalence.is_safe(level):
            break
        request = [
            alternative for alternative in level.alternatives if _is_enough(alternative, candidates)
        ]
        yield not request
        by_claim[level.claim_index].append(request)
    for requests in by_claim.values():
        for index, constraint in enumerate(requests[0][0].claim.constraints):
            wanted = list(_wanted(requests, index, candidates))
            if all(all(values) for request in wanted for _, values in request):
                yield _has_no_common(wanted) if constraint.match_attribute else _has_too_few(wanted)


def _is_enough(alternative: Alternative, candidates: Candidates) -> bool:
    count = alternative.count
    return count > 0 and len(candidates.available(alternative)) >= count


def _wanted(
    requests: Sequence[_Request], constraint: int, candidates: Candidates
) -> Iterator[_Wanted]:
    """Yield the wants of the requests whose alternatives are all subject to a constraint."""
    for request in requests:
        if all(constraint in alternative.constraints for alternative in request):
            yield [
                (
                    alternative.count,
                    [
                        candidates.values(alternative, constraint, device) or frozenset()
                        for device in candidates.available(alternative)
                    ],
                )
                for alternative in request
            ]


def _has_no_common(wanted: Sequence[_Wanted]) -> bool:
    """Return whether there is no value of which each request can get enough devices."""
    common: set[Any] | None = None
    for request in wanted:
        mine = {
            value
            for count, values in request
            for value, number in Counter(value for own in values for value in own).items()
            if number >= count
        }
        common = mine if common is None else common & mine
    return common is not None and not common


def _has_too_few(wanted: Sequence[_Wanted]) -> bool:
    """Return whether the requests want more devices than there are values."""
    least = sum(min(count for count, _ in request) for request in wanted)
    found = {
        value for request in wanted for _, values in request for own in values for value in own
    }
    return least > len(found)
