"""Finds equal devices of a node, and equal counter sets.

Two devices are equal *from a request on* if neither this request nor any later one sees a
difference in selectors, node, taints, capacity, counters and attributes of constraints. If the
search fails with one of them, it fails with the other: exchanging the two in a solution gives a
solution.

Counter sets are exchanged as a whole, with all devices that consume them, such as the partitions of
a GPU. Two sets are equal if their counters and devices are and if none of these devices is taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import PoolKey
from podsched.plugins.dynamic_resources.taken import TakenDevices

#: A counter set by its pool and name.
CounterSet = tuple[PoolKey, str]


class EqualDevices:
    """The classes of equal devices and counter sets by level, each computed on first use.

    ``sets``: the counter set that each device consumes, by the device's index; ``members``: the
    devices of each set. Both are empty if a device consumes two, because sets cannot be exchanged
    then.
    """

    def __init__(self, levels: Sequence[Level], taken: TakenDevices) -> None:
        self._levels = levels
        self._candidates = candidates = taken.candidates
        self._counters = taken.counters
        self._classes: dict[tuple[int, int], int] = {}
        self._set_classes: dict[tuple[int, CounterSet], int] = {}
        #: The numbers of classes by what their devices, or sets, have in common.
        self._numbers: dict[Hashable, int] = {}
        #: By device: the last level that may want it, -1 for none.
        self._last_wanted: dict[int, int] = {}
        self._unknown_values: dict[Alternative, bool] = {}
        self.sets: dict[int, CounterSet] = {}
        self.members: dict[CounterSet, list[Candidate]] = defaultdict(list)
        consumers = [consumer for consumer in candidates.devices if consumer.device.counter_sets]
        if all(len(consumer.device.counter_sets) == 1 for consumer in consumers):
            for consumer in consumers:
                (self.sets[consumer.index],) = consumer.counter_sets
                self.members[self.sets[consumer.index]].append(consumer)

    def of_device(self, index: int, candidate: Candidate) -> int:
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

    def of_set(self, index: int, counter_set: CounterSet) -> int:
        """Return the number of a counter set's class of equal sets from a level on."""
        key = (index, counter_set)
        if key not in self._set_classes:
            members = self.members[counter_set]
            content = (
                counter_set[0],
                self._counters.content(members[0].pool, counter_set[1]),
                frozenset(Counter(self.of_device(index, member) for member in members).items()),
            )
            self._set_classes[key] = self._numbers.setdefault(content, len(self._numbers))
        return self._set_classes[key]

    def is_wanted(self, index: int, candidate: Candidate) -> bool:
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

    def _own_content(self, candidate: Candidate) -> Hashable:
        """Return the properties of a device that all requests see."""
        device = candidate.device
        counters: Hashable = None
        if candidate.index in self.sets:
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
