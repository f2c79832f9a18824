"""Finds equal choices of a search, so that only the first of them is tried.

Two devices are equal *from a request on* if neither this request nor any later one sees a
difference in selectors, node, taints, capacity, counters and attributes of constraints. If the
search fails with one of them, it fails with the other: exchanging the two in a solution gives a
solution.

Counter sets are exchanged as a whole, with all devices that consume them, such as the partitions of
a GPU. Two sets are equal if their counters and devices are and if none of these devices is taken.

Two states before a request are equal if equal devices are used in equal ways, equal amounts of
counters are taken, and the claim's constraints have the same values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import PoolKey
from podsched.plugins.dynamic_resources.taken import Taken, TakenDevices

#: Max failed states that are remembered; one takes about 1 KiB.
_MOST_STATES = 1 << 14
#: A counter set by its pool and name.
_CounterSet = tuple[PoolKey, str]


class Equivalence:
    """The classes of equal devices by level, each computed on first use, and failed states.

    ``prunes``: False lets the search try every choice: all devices differ, and all may fail.
    """

    def __init__(self, levels: Sequence[Level], taken: TakenDevices, *, prunes: bool) -> None:
        self._prunes = prunes
        self._levels = levels
        self._candidates = candidates = taken.candidates
        self._taken = taken
        self._classes: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}
        #: By device: the last level that may want it, -1 for none.
        self._last_wanted: dict[int, int] = {}
        self._safe: dict[int, bool] = {}
        self._unknown_values: dict[Alternative, bool] = {}
        self._set_classes: dict[tuple[int, _CounterSet], int] = {}
        self._failed: set[Hashable] = set()
        #: The counter set that each device consumes, by the device's index, and the devices of each
        #: set. Both are empty if a device consumes two, because sets cannot be exchanged then.
        self._sets: dict[int, _CounterSet] = {}
        self._members: dict[_CounterSet, list[Candidate]] = defaultdict(list)
        consumers = [consumer for consumer in candidates.devices if consumer.device.counter_sets]
        if all(len(consumer.device.counter_sets) == 1 for consumer in consumers):
            for consumer in consumers:
                (self._sets[consumer.index],) = consumer.counter_sets
                self._members[self._sets[consumer.index]].append(consumer)

    def choice(self, level: Level, candidate: Candidate) -> Hashable:
        """Return a key that is the same for all devices that are equal in the current state."""
        if not self._prunes:
            return candidate.index
        use = self._taken.use(candidate.index, level.claim_index)
        of_class = self._class(level.index, candidate)
        counter_set = self._sets.get(candidate.index)
        if counter_set is None:
            return of_class, use
        members = self._members[counter_set]
        if all(self._taken.use(member.index, level.claim_index) is None for member in members):
            return of_class, self._set_class(level.index, counter_set)
        return of_class, use, counter_set

    def has_failed(self, level: Level) -> bool:
        """Return whether a state before a request that equals the current one failed before."""
        return bool(self._failed) and self._state(level) in self._failed

    def remember_failure(self, level: Level) -> None:
        """Remember that the search fails with the current state before a request."""
        if self._prunes and len(self._failed) < _MOST_STATES:
            self._failed.add(self._state(level))

    def _state(self, level: Level) -> Hashable:
        """Return a key that is the same for all equal states before a request."""
        claim_index = level.claim_index
        uses: Counter[Hashable] = Counter()
        of_sets: dict[_CounterSet, Counter[Hashable]] = defaultdict(Counter)
        for index in self._taken.touched():
            candidate = self._candidates.devices[index]
            use = self._class(level.index, candidate), self._taken.use(index, claim_index)
            if index in self._sets:
                of_sets[self._sets[index]][use] += 1
            elif self._is_wanted(level.index, candidate):
                uses[use] += 1
        sets = Counter(
            (self._set_class(level.index, counter_set), frozenset(set_uses.items()))
            for counter_set, set_uses in of_sets.items()
        )
        return (
            level.index,
            len(self._taken.by_claim[claim_index]),
            frozenset(uses.items()),
            frozenset(sets.items()),
            None if self._sets else self._taken.counters.state(),
            self._taken.constraints.state(claim_index),
        )

    def is_in_state(self, level: Level, taken: Taken) -> bool:
        """Return whether a taken device may make a difference to the state before a request."""
        return (
            taken.has_counters
            or taken.alternative.claim_index == level.claim_index
            or self._is_wanted(level.index, taken.candidate)
        )

    def is_safe(self, level: Level) -> bool:
        """Return whether no alternative of a request can raise an error."""
        if not self._prunes:
            return False
        if level.index not in self._safe:
            self._safe[level.index] = not any(
                self._may_fail(alternative) for alternative in level.alternatives
            )
        return self._safe[level.index]

    def _may_fail(self, alternative: Alternative) -> bool:
        if alternative.all_devices is not None and alternative.constraints:
            return True
        try:
            for candidate in self._candidates.devices:
                self._candidates.needs(alternative, candidate)
        except AllocationError:
            return True
        return False

    def _class(self, index: int, candidate: Candidate) -> int:
        """Return the number of a device's class of equal devices from a level on."""
        # A loop, not a recursion: a pod may have a thousand claims.
        missing = []
        while (index, candidate.index) not in self._classes:
            missing.append(index)
            if index == len(self._levels):
                break
            index += 1
        for level in reversed(missing):
            content: Hashable
            if level == len(self._levels):
                content = self._own_content(candidate)
            else:
                seen = (
                    self._seen(alternative, candidate)
                    for alternative in self._levels[level].alternatives
                )
                content = (self._classes[level + 1, candidate.index], *seen)
            number = self._numbers.setdefault(content, len(self._numbers))
            self._classes[level, candidate.index] = number
        return self._classes[missing[0] if missing else index, candidate.index]

    def _set_class(self, index: int, counter_set: _CounterSet) -> int:
        """Return the number of a counter set's class of equal sets from a level on."""
        key = (index, counter_set)
        if key not in self._set_classes:
            members = self._members[counter_set]
            content = (
                counter_set[0],
                self._taken.counters.content(members[0].pool, counter_set[1]),
                frozenset(Counter(self._class(index, member) for member in members).items()),
            )
            self._set_classes[key] = self._numbers.setdefault(content, len(self._numbers))
        return self._set_classes[key]

    def _own_content(self, candidate: Candidate) -> Hashable:
        """Return the properties of a device that all requests see."""
        device = candidate.device
        counters: Hashable = None
        if candidate.index in self._sets:
            counters = frozenset((name, amount) for (_, name), amount in device.counters.items())
        elif device.counter_sets:
            counters = (candidate.id[:2], frozenset(device.counters.items()))
        capacity: Hashable = None
        if self._candidates.is_shareable(candidate):
            consumed = candidate.consumed
            capacity = (
                frozenset((name, offered.value) for name, offered in device.capacity.items()),
                None if consumed is None else frozenset(consumed.items()),
            )
        return candidate.is_allocated, counters, capacity

    def _seen(self, alternative: Alternative, candidate: Candidate) -> Hashable:
        """Return the properties of a device that a request sees; None if it does not suit."""
        try:
            needs = self._candidates.needs(alternative, candidate)
        except AllocationError as error:
            return str(error)
        if needs is None:
            return None
        shareable = self._candidates.is_shareable(candidate)
        values = tuple(
            self._candidates.values(alternative, index, candidate)
            for index in alternative.constraints
        )
        # With the allocation mode All, it is an error if a constraint refuses a device, but a
        # failure if a device is in use. The order of the devices decides which comes first.
        is_all = alternative.all_devices is not None and bool(values)
        is_ordered = is_all or self._has_unknown_values(alternative)
        return (
            frozenset(needs.items()) if shareable else None,
            self._candidates.tolerates(alternative, candidate),
            values,
            candidate.index if is_ordered else None,
        )

    def _has_unknown_values(self, alternative: Alternative) -> bool:
        """Return whether a device has an attribute of unknown type.

        A constraint takes such a device only as the first one, so the order matters.
        """
        if alternative not in self._unknown_values:
            self._unknown_values[alternative] = any(
                self._candidates.values(alternative, index, candidate) == frozenset()
                for index in alternative.constraints
                for candidate in self._candidates.devices
            )
        return self._unknown_values[alternative]

    def _is_wanted(self, index: int, candidate: Candidate) -> bool:
        """Return whether the device suits any request from a level on."""
        if candidate.index not in self._last_wanted:
            wanting = (
                level.index
                for level in reversed(self._levels)
                if any(
                    self._seen(alternative, candidate) is not None
                    for alternative in level.alternatives
                )
            )
            self._last_wanted[candidate.index] = next(wanting, -1)
        return self._last_wanted[candidate.index] >= index
