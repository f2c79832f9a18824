"""The search for devices: the first solution of a depth-first search, as Kubernetes finds it.

Source: allocateOne of Kubernetes v1.36 (allocator_incubating.go). The requests are satisfied one
after another, device by device. Within a request, combinations of devices are tried in the order of
the devices. Kubernetes uses recursion. Here a list has the open choices, so that the search can
pause, and its depth is not limited by the stack.

Three methods avoid choices that cannot lead to a solution:

* ``equivalence``: a choice that equals a failed one is not tried again;
* conflicts: choices on which a failure does not depend are not changed;
* ``supply``: a search ends where fewer devices are left than are wanted, and after the first
  failure if a request can never be satisfied.

Conflicts are those of conflict-directed backjumping (Prosser, Hybrid Algorithms for the Constraint
Satisfaction Problem, 1993). A set of choices is an int with one bit per open choice. A failed
choice depends on the choices that hold a device that it could have used, or that hold counters or
constraints for which a device was refused. Another device for any other choice would fail in the
same way, so these are skipped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import attrgetter

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.model import MAX_RESULTS
from podsched.plugins.dynamic_resources.supply import Supply, is_unsatisfiable
from podsched.plugins.dynamic_resources.taken import Taken, TakenDevices

#: The number of devices that are looked at between two pauses; each choice counts as ten devices. A
#: device takes about 1 µs, or 20 µs if its selectors are evaluated.
_DEVICES_PER_PAUSE = 500
_DEVICES_PER_CHOICE = 10
#: A search with fewer choices takes a millisecond: less than remembering failed states and counting
#: the devices that are left.
_EASY = 32


#: Depends on all earlier choices.
_ALL_CHOICES = -1


class _Outcome(Enum):
    FOUND = auto()
    #: The claim's requests want more devices than a claim can get: other devices do not help. It is
    #: never the outcome of a claim's first choice, because ``requests`` refuses a claim whose
    #: smallest alternatives want too many.
    EXCEEDED = auto()


@dataclass(frozen=True, slots=True)
class _Failed:
    """There is no solution after the open choices.

    ``conflicts``: the choices that the failure depends on, as a bit set: bit n for the open choice
    with n others before it. ``within_order``: only devices after the device of the request's
    previous place were tried.
    """

    conflicts: int
    within_order: bool = False


@dataclass(slots=True)
class _Choice:
    """An open choice for a request.

    ``conflicts``: the earlier choices that failures so far depend on.
    """

    level: Level
    conflicts: int = 0


@dataclass(slots=True)
class _AlternativeChoice(_Choice):
    """The choice of an alternative of ``firstAvailable``; ``next``: the index of the next one."""

    next: int = 0
    all_exceeded: bool = True


@dataclass(slots=True)
class _DeviceChoice(_Choice):
    """The choice of a device for a place of a request.

    ``place``: 0 for the first device of the request. ``position``: the position of the next
    candidate. ``skipped``: from and to which position candidates were not looked at, because none
    can be had. ``busy``: suitable devices that are in use, or have too little capacity left;
    ``refused``: those that were refused for counters, constraints or taints.
    """

    alternative: Alternative = field(kw_only=True)
    place: int = field(kw_only=True)
    position: int = field(kw_only=True)
    skipped: tuple[int, int] = (0, 0)
    taken: Taken | None = None
    failed: set[Hashable] = field(default_factory=set)
    busy: list[Candidate] = field(default_factory=list)
    refused: list[Candidate] = field(default_factory=list)

    def refused_for(self, holders: Iterable[tuple[int, Taken]]) -> int:
        """Return the earlier choices because of which devices could not be taken.

        ``holders``: the earlier choices that have taken a device, by their bit's number.
        """
        if not self.busy and not self.refused:
            return 0
        indexes = {candidate.index for candidate in (*self.busy, *self.refused)}
        counters = {counter for candidate in self.refused for counter in candidate.counter_sets}
        constraints = set(self.alternative.constraints) if self.refused else set()
        found = 0
        for depth, taken in holders:
            other = taken.alternative
            if (
                taken.candidate.index in indexes
                or (taken.has_counters and not counters.isdisjoint(taken.candidate.counter_sets))
                or (
                    other.claim_index == self.alternative.claim_index
                    and not constraints.isdisjoint(other.constraints)
                )
            ):
                found |= 1 << depth
        return found


_INDEX = attrgetter("index")

_Step = _Choice | _Failed | _Outcome


class Search:
    """Searches devices for all requests."""

    def __init__(
        self, levels: Sequence[Level], taken: TakenDevices, equivalence: Equivalence
    ) -> None:
        self._levels = levels
        self._candidates = taken.candidates
        self._taken = taken
        self._equivalence = equivalence
        self._supply = Supply(levels, taken, equivalence)
        self._open: list[_Choice] = []
        #: The chosen alternative of each level.
        self.chosen: list[Alternative] = [level.alternatives[0] for level in levels]
        #: The number of choices that were made or changed.
        self.choices = 0
        self._looked_at = 0
        self._has_failed_once = False

    def run(self) -> Generator[None, None, bool]:
        """Search to the end, with pauses; return whether there is a solution.

        Raises AllocationError.
        """
        step = self._enter(0)
        while True:
            outcome: _Failed | _Outcome | None = None
            if isinstance(step, _Choice):
                self._open.append(step)
            elif step is _Outcome.FOUND or not self._open:
                return step is _Outcome.FOUND
            else:
                outcome = step
                if not self._has_failed_once:
                    self._has_failed_once = True
                    if (yield from self._is_unsatisfiable()):
                        return False
            self.choices += 1
            yield from self._count_devices(_DEVICES_PER_CHOICE)
            last = self._open[-1]
            if isinstance(last, _AlternativeChoice):
                step = self._next_alternative(last, outcome)
            else:
                assert isinstance(last, _DeviceChoice)
                step = self._next_device(last, outcome)

    def _count_devices(self, count: int) -> Iterator[None]:
        """Count devices that were looked at, and pause if there were many."""
        self._looked_at += count
        if self._looked_at > _DEVICES_PER_PAUSE:
            self._looked_at = 0
            yield

    def _is_unsatisfiable(self) -> Generator[None, None, bool]:
        """Return whether it is certain that there is no solution."""
        for is_certain in is_unsatisfiable(self._levels, self._candidates, self._equivalence):
            if is_certain:
                return True
            yield from self._count_devices(len(self._candidates.devices))
        return False

    def _enter(self, index: int) -> _Step:
        """Return the first choice of a request, or the outcome if there is none."""
        if index == len(self._levels):
            return _Outcome.FOUND
        level = self._levels[index]
        if self._equivalence.has_failed(level):
            return _Failed(self._conflicts_of_state(level))
        if level.is_prioritized:
            return _AlternativeChoice(level)
        return self._place(level, level.alternatives[0], 0, 0)

    def _place(self, level: Level, alternative: Alternative, place: int, position: int) -> _Step:
        """Return the choice of a device for a place; after the last place, enter the next level."""
        if alternative.all_devices is not None and not alternative.all_devices:
            # Mode All without any device: of the choices so far, only another alternative can help.
            return _Failed(self._last_choice() if level.is_prioritized else 0)
        if place >= alternative.count:
            return self._enter(level.index + 1)
        missing = alternative.count - place
        if len(self._taken.by_claim[level.claim_index]) + missing > MAX_RESULTS:
            return _Outcome.EXCEEDED
        if self._lacks_devices(level, alternative, missing):
            return _Failed(self._conflicts_of_state(level))
        return _DeviceChoice(level, alternative=alternative, place=place, position=position)

    def _next_alternative(
        self, choice: _AlternativeChoice, outcome: _Failed | _Outcome | None
    ) -> _Step:
        """Choose the next alternative; ``outcome`` is that of the previous one."""
        if isinstance(outcome, _Failed):
            choice.all_exceeded = False
            if self._can_skip(choice, outcome):
                return self._close(choice, outcome)
            choice.conflicts |= outcome.conflicts & ~self._last_choice()
        elif outcome is not None:
            # How many devices the claim has already depends on the alternatives chosen before.
            choice.conflicts = _ALL_CHOICES
        alternatives = choice.level.alternatives
        if choice.next == len(alternatives):
            exceeded = choice.all_exceeded
            return self._close(choice, _Outcome.EXCEEDED if exceeded else _Failed(choice.conflicts))
        alternative = alternatives[choice.next]
        choice.next += 1
        self.chosen[choice.level.index] = alternative
        return self._place(choice.level, alternative, 0, 0)

    def _next_device(self, choice: _DeviceChoice, outcome: _Failed | _Outcome | None) -> _Step:
        """Choose the next device; ``outcome`` is that of the previous one."""
        if choice.taken is not None:
            self._taken.give_back(choice.taken)
            if not isinstance(outcome, _Failed):
                return self._close(choice, _Outcome.EXCEEDED)
            if self._can_skip(choice, outcome):
                if outcome.within_order:
                    return self._exhausted(choice, outcome.conflicts)
                return self._close(choice, outcome)
            choice.conflicts |= outcome.conflicts & ~self._last_choice()
            if choice.alternative.all_devices is not None:
                # In mode All, each place has one device only.
                return self._exhausted(choice, 0)
            failed = self._equivalence.choice(choice.level, choice.taken.candidate)
            choice.failed.add(failed)
        choice.taken = self._take_next(choice)
        if choice.taken is None:
            return self._exhausted(choice, 0)
        return self._place(choice.level, choice.alternative, choice.place + 1, choice.position)

    def _take_next(self, choice: _DeviceChoice) -> Taken | None:
        """Take the next device that can be taken, and return it, or None."""
        alternative, taken = choice.alternative, self._taken
        if alternative.all_devices is not None:
            candidate = alternative.all_devices[choice.place]
            choice.refused.append(candidate)
            return taken.take(alternative, candidate, must=True)
        busy, is_in_use, equivalence = choice.busy, taken.is_in_use, self._equivalence
        for candidate in self._next_candidates(choice):
            self._looked_at += 1
            if is_in_use(alternative, candidate) or not taken.fits(alternative, candidate):
                taken.note_busy(alternative, candidate)
                busy.append(candidate)
                continue
            if choice.failed and equivalence.choice(choice.level, candidate) in choice.failed:
                busy.append(candidate)
                continue
            if (found := taken.take(alternative, candidate, must=False)) is not None:
                if found.consumed is None:
                    taken.note_busy(alternative, candidate)
                choice.position = candidate.index + 1
                return found
            choice.refused.append(candidate)
        return None

    def _next_candidates(self, choice: _DeviceChoice) -> Sequence[Candidate]:
        """Return the devices to try; after the first failure, only those that are available."""
        devices: Sequence[Candidate] = self._candidates.devices
        position, first = choice.position, self._taken.first(choice.alternative)
        if position < first:
            choice.skipped = (position, first)
            position = first
        if self._has_failed_once and self._equivalence.is_safe(choice.level):
            devices = self._candidates.available(choice.alternative)
            position = bisect_left(devices, position, key=_INDEX)
        return devices[position:]

    def _exhausted(self, choice: _DeviceChoice, conflicts: int) -> _Failed | _Outcome:
        """Close the last choice after all of its devices failed."""
        alternative, place = choice.alternative, choice.place
        conflicts |= choice.conflicts
        is_all = alternative.all_devices is not None
        if is_all and not self._equivalence.is_safe(choice.level):
            conflicts = _ALL_CHOICES
        elif conflicts != _ALL_CHOICES:
            busy = (*self._candidates.devices[slice(*choice.skipped)], *choice.busy)
            choice.busy = [
                candidate for candidate in busy if self._candidates.may_suit(alternative, candidate)
            ]
            holders = (
                (depth, other.taken)
                for depth, other in enumerate(self._open[:-1])
                if isinstance(other, _DeviceChoice) and other.taken is not None
            )
            conflicts |= choice.refused_for(holders)
        if choice.level.is_prioritized and (is_all or not place):
            # The choice of the alternative is ``place + 1`` choices before the last. Another
            # alternative may succeed.
            conflicts |= self._last_choice() >> (place + 1)
        return self._close(choice, _Failed(conflicts, within_order=place > 0 and not is_all))

    def _can_skip(self, choice: _Choice, failed: _Failed) -> bool:
        """Return whether other devices, or alternatives, of the last choice would fail, too.

        A choice is not skipped if a selector or a constraint may raise an error.
        """
        depends = failed.conflicts & self._last_choice()
        return not depends and self._equivalence.is_safe(choice.level)

    def _close(self, choice: _Choice, outcome: _Failed | _Outcome) -> _Failed | _Outcome:
        """Close the last choice; return its outcome for the choice before."""
        self._open.pop()
        is_first = not self._open or self._open[-1].level is not choice.level
        if is_first and isinstance(outcome, _Failed) and self.choices >= _EASY:
            self._equivalence.remember_failure(choice.level)
        return outcome

    def _last_choice(self) -> int:
        """Return the bit of the last open choice."""
        return 1 << (len(self._open) - 1)

    def _lacks_devices(self, level: Level, alternative: Alternative, missing: int) -> bool:
        """Return whether there are certainly too few devices; False in an easy search."""
        is_hard = self._has_failed_once and self.choices >= _EASY
        return is_hard and self._supply.lacks(alternative, level, missing)

    def _conflicts_of_state(self, level: Level) -> int:
        """Return the choices that the state before a request depends on."""
        found = 0
        for depth, choice in enumerate(self._open):
            if isinstance(choice, _DeviceChoice) and choice.taken is not None:
                if self._equivalence.is_in_state(level, choice.taken):
                    found |= 1 << depth
            elif choice.level.claim_index == level.claim_index:
                found |= 1 << depth
        return found
