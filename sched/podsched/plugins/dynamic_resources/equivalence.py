"""Finds equal choices of a search, so that only the first of them is tried.

Two choices of a device are equal if the devices are (``equal_devices``) and are used in equal ways.

Two states before a request are equal if equal devices are used in equal ways, equal amounts of
counters are taken, and the claim's constraints have the same values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.equal_devices import CounterSet, EqualDevices
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.taken import Taken, TakenDevices

#: Max failed states that are remembered; one takes about 1 KiB.
_MOST_STATES = 1 << 14


class Equivalence:
    """Equal choices, the states that failed, and the requests that can raise no error.

    ``prunes``: False lets the search try every choice: all devices differ, and all may fail.
    """

    def __init__(self, levels: Sequence[Level], taken: TakenDevices, *, prunes: bool) -> None:
        self._prunes = prunes
        self._candidates = taken.candidates
        self._taken = taken
        self._equal = EqualDevices(levels, taken)
        self._safe: dict[int, bool] = {}
        self._failed: set[Hashable] = set()

    def choice(self, level: Level, candidate: Candidate) -> Hashable:
        """Return a key that is the same for all devices that are equal in the current state."""
        if not self._prunes:
            return candidate.index
        use = self._taken.use(candidate.index, level.claim_index)
        of_class = self._equal.of_device(level.index, candidate)
        counter_set = self._equal.sets.get(candidate.index)
        if counter_set is None:
            return of_class, use
        members = self._equal.members[counter_set]
        if all(self._taken.use(member.index, level.claim_index) is None for member in members):
            return of_class, self._equal.of_set(level.index, counter_set)
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
        of_sets: dict[CounterSet, Counter[Hashable]] = defaultdict(Counter)
        for index in self._taken.touched():
            candidate = self._candidates.devices[index]
            use = self._equal.of_device(level.index, candidate), self._taken.use(index, claim_index)
            if index in self._equal.sets:
                of_sets[self._equal.sets[index]][use] += 1
            elif self._equal.is_wanted(level.index, candidate):
                uses[use] += 1
        sets = Counter(
            (self._equal.of_set(level.index, counter_set), frozenset(set_uses.items()))
            for counter_set, set_uses in of_sets.items()
        )
        return (
            level.index,
            len(self._taken.by_claim[claim_index]),
            frozenset(uses.items()),
            frozenset(sets.items()),
            None if self._equal.sets else self._taken.counters.state(),
            self._taken.constraints.state(claim_index),
        )

    def is_in_state(self, level: Level, taken: Taken) -> bool:
        """Return whether a taken device may make a difference to the state before a request."""
        return (
            taken.has_counters
            or taken.alternative.claim_index == level.claim_index
            or self._equal.is_wanted(level.index, taken.candidate)
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
