"""The search for devices: the first solution of a depth-first search, as Kubernetes finds it.

Source: allocateOne of Kubernetes v1.36 (allocator_incubating.go). The requests are satisfied one
after another, device by device. Within a request, combinations of devices are tried in the order of
the devices. Kubernetes uses recursion. Here a list has the open choices, so that the search can
pause, and its depth is not limited by the stack.

Three methods avoid choices that cannot lead to a solution:

* ``equivalence``: a choice that equals a failed one is not tried again;
* conflicts (``choices``): choices on which a failure does not depend are not changed;
* ``supply``: a search ends where fewer devices are left than are wanted, and after the first
  failure if a request can never be satisfied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from enum import Enum, auto
from operator import attrgetter

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.choices import (
    ALL_CHOICES,
    AlternativeChoice,
    Choice,
    DeviceChoice,
    Failed,
    conflicts_of_state,
)
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


class _Outcome(Enum):
    FOUND = auto()
    #: The claim's requests want more devices than a claim can get: other devices do not help. It is
    #: never the outcome of a claim's first choice, because ``requests`` refuses a claim whose
    #: smallest alternatives want too many.
    EXCEEDED = auto()


_INDEX = attrgetter("index")

_Step = Choice | Failed | _Outcome


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
        self._open: list[Choice] = []
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
            outcome: Failed | _Outcome | None = None
            if isinstance(step, Choice):
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
            if isinstance(last, AlternativeChoice):
                step = self._next_alternative(last, outcome)
            else:
                assert isinstance(last, DeviceChoice)
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
            return Failed(conflicts_of_state(level, self._open, self._equivalence))
        if level.is_prioritized:
            return AlternativeChoice(level, len(self._open))
        return self._place(level, level.alternatives[0], 0, 0)

    def _place(self, level: Level, alternative: Alternative, place: int, position: int) -> _Step:
        """Return the choice of a device for a place; after the last place, enter the next level."""
        if alternative.all_devices is not None and not alternative.all_devices:
            # Mode All without any device: of the choices so far, only another alternative can help.
            return Failed(self._open[-1].bit if level.is_prioritized else 0)
        if place >= alternative.count:
            return self._enter(level.index + 1)
        missing = alternative.count - place
        if len(self._taken.by_claim[level.claim_index]) + missing > MAX_RESULTS:
            return _Outcome.EXCEEDED
        is_hard = self._has_failed_once and self.choices >= _EASY
        if is_hard and self._supply.lacks(alternative, level, missing):
            return Failed(conflicts_of_state(level, self._open, self._equivalence))
        return DeviceChoice(
            level, len(self._open), alternative=alternative, place=place, position=position
        )

    def _next_alternative(
        self, choice: AlternativeChoice, outcome: Failed | _Outcome | None
    ) -> _Step:
        """Choose the next alternative; ``outcome`` is that of the previous one."""
        if isinstance(outcome, Failed):
            choice.all_exceeded = False
            if not choice.note(outcome) and self._equivalence.is_safe(choice.level):
                return self._close(choice, outcome)
        elif outcome is not None:
            # How many devices the claim has already depends on the alternatives chosen before.
            choice.conflicts = ALL_CHOICES
        alternatives = choice.level.alternatives
        if choice.next == len(alternatives):
            exceeded = choice.all_exceeded
            return self._close(choice, _Outcome.EXCEEDED if exceeded else Failed(choice.conflicts))
        alternative = alternatives[choice.next]
        choice.next += 1
        self.chosen[choice.level.index] = alternative
        return self._place(choice.level, alternative, 0, 0)

    def _next_device(self, choice: DeviceChoice, outcome: Failed | _Outcome | None) -> _Step:
        """Choose the next device; ``outcome`` is that of the previous one."""
        if choice.taken is not None:
            self._taken.give_back(choice.taken)
            if not isinstance(outcome, Failed):
                return self._close(choice, _Outcome.EXCEEDED)
            # A choice is not skipped if a selector or a constraint may raise an error.
            if not choice.note(outcome) and self._equivalence.is_safe(choice.level):
                if outcome.within_order:
                    return self._exhausted(choice)
                return self._close(choice, outcome)
            if choice.alternative.all_devices is not None:
                # In mode All, each place has one device only.
                return self._exhausted(choice)
            failed = self._equivalence.choice(choice.level, choice.taken.candidate)
            choice.failed.add(failed)
        choice.taken = self._take_next(choice)
        if choice.taken is None:
            return self._exhausted(choice)
        return self._place(choice.level, choice.alternative, choice.place + 1, choice.position)

    def _take_next(self, choice: DeviceChoice) -> Taken | None:
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

    def _next_candidates(self, choice: DeviceChoice) -> Sequence[Candidate]:
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

    def _exhausted(self, choice: DeviceChoice) -> Failed | _Outcome:
        """Close the last choice after all of its devices failed."""
        alternative, place, conflicts = choice.alternative, choice.place, choice.conflicts
        is_all = alternative.all_devices is not None
        if is_all and not self._equivalence.is_safe(choice.level):
            conflicts = ALL_CHOICES
        elif conflicts != ALL_CHOICES:
            busy = (*self._candidates.devices[slice(*choice.skipped)], *choice.busy)
            choice.busy = [
                candidate for candidate in busy if self._candidates.may_suit(alternative, candidate)
            ]
            conflicts |= choice.refused_for(self._open[:-1])
        if choice.level.is_prioritized and (is_all or not place):
            # The choice of the alternative is ``place + 1`` choices before the last. Another
            # alternative may succeed.
            conflicts |= choice.bit >> (place + 1)
        return self._close(choice, Failed(conflicts, within_order=place > 0 and not is_all))

    def _close(self, choice: Choice, outcome: Failed | _Outcome) -> Failed | _Outcome:
        """Close the last choice; return its outcome for the choice before."""
        self._open.pop()
        is_first = not self._open or self._open[-1].level is not choice.level
        if is_first and isinstance(outcome, Failed) and self.choices >= _EASY:
            self._equivalence.remember_failure(choice.level)
        return outcome
