"""The search for devices: the first solution of a depth-first search, as Kubernetes finds it.

Source: allocateOne of Kubernetes v1.36 (allocator_incubating.go). Requests are satisfied one after
the other, device by device. Within a request, combinations of devices are tried in their order.
Kubernetes calls itself recursively; here the open choices are a list, so that the search can pause
and takes any number of devices.

Choices that equal one that failed before are not tried again (``equivalence``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.model import MAX_RESULTS
from podsched.plugins.dynamic_resources.taken import Taken, TakenDevices

#: How many choices are made between two pauses; one takes about 10 µs.
_CHOICES_PER_PAUSE = 64
#: How many failed states are remembered; one takes about 1 KiB.
_MOST_STATES = 1 << 14


class _Outcome(Enum):
    DONE = auto()
    FAILED = auto()
    #: A request wants more devices than its claim can get: other devices do not help.
    EXCEEDED = auto()


@dataclass(slots=True)
class _Choice:
    """An open choice for a request.

    ``starts_claim``: all earlier choices are those of earlier claims. ``is_first``: of its request.
    """

    level: Level
    starts_claim: bool
    is_first: bool


@dataclass(slots=True)
class _AlternativeChoice(_Choice):
    """Which alternative of a prioritized list; ``next`` is the index of the next one."""

    next: int = 0
    all_exceeded: bool = True


@dataclass(slots=True)
class _DeviceChoice(_Choice):
    """Which device for a place of a request; ``position``: of the next candidate."""

    alternative: Alternative
    place: int
    position: int
    taken: Taken | None = None
    failed: set[Hashable] = field(default_factory=set)


class Search:
    """Searches devices for all requests; without ``equivalence`` every choice is tried."""

    def __init__(
        self,
        levels: Sequence[Level],
        candidates: Candidates,
        taken: TakenDevices,
        equivalence: Equivalence | None,
    ) -> None:
        self._levels = levels
        self._devices = candidates.devices
        self._taken = taken
        self._equivalence = equivalence
        self._failed_states: set[Hashable] = set()
        self._open: list[_Choice] = []
        #: By level: the alternative that is chosen.
        self.chosen: list[Alternative] = [level.alternatives[0] for level in levels]
        #: How many choices were made, or made again.
        self.choices = 0
        self.found = False

    def run(self) -> Iterator[None]:
        """Search to the end, with pauses; then ``found`` tells the outcome.

        Raises AllocationError.
        """
        step = self._enter(0, starts_claim=False)
        while True:
            outcome: _Outcome | None = None
            if isinstance(step, _Choice):
                self._open.append(step)
            elif step is _Outcome.DONE or not self._open:
                self.found = step is _Outcome.DONE
                return
            else:
                outcome = step
            self.choices += 1
            if self.choices % _CHOICES_PER_PAUSE == 0:
                yield
            last = self._open[-1]
            if isinstance(last, _AlternativeChoice):
                step = self._next_alternative(last, outcome)
            else:
                assert isinstance(last, _DeviceChoice)
                step = self._next_device(last, outcome)

    def _enter(self, index: int, *, starts_claim: bool) -> _Choice | _Outcome:
        """Return the first choice of a request, or the outcome if there is none."""
        if index == len(self._levels):
            return _Outcome.DONE
        level = self._levels[index]
        starts_claim = starts_claim or level.starts_claim
        if self._has_failed(level):
            return _Outcome.FAILED
        if level.is_prioritized:
            return _AlternativeChoice(level, starts_claim, is_first=True)
        step = self._place(level, level.alternatives[0], 0, 0)
        if isinstance(step, _Choice):
            step.starts_claim, step.is_first = step.starts_claim or starts_claim, True
            return step
        return _for_earlier(step, starts_claim)

    def _place(
        self, level: Level, alternative: Alternative, place: int, position: int
    ) -> _Choice | _Outcome:
        """Return the choice of a device for a place, or what follows the last place."""
        if alternative.all_devices is not None and not alternative.all_devices:
            return _Outcome.FAILED
        if place >= alternative.count:
            return self._enter(level.index + 1, starts_claim=False)
        missing = alternative.count - place
        if self._taken.count(level.claim_index) + missing > MAX_RESULTS:
            return _Outcome.EXCEEDED
        return _DeviceChoice(level, False, False, alternative, place, position)

    def _next_alternative(
        self, choice: _AlternativeChoice, outcome: _Outcome | None
    ) -> _Choice | _Outcome:
        """Go on with the next alternative after the last one had the outcome."""
        if outcome is _Outcome.FAILED:
            choice.all_exceeded = False
        alternatives = choice.level.alternatives
        if choice.next == len(alternatives):
            exceeded = choice.all_exceeded
            return self._close(choice, _Outcome.EXCEEDED if exceeded else _Outcome.FAILED)
        alternative = alternatives[choice.next]
        choice.next += 1
        self.chosen[choice.level.index] = alternative
        return self._place(choice.level, alternative, 0, 0)

    def _next_device(self, choice: _DeviceChoice, outcome: _Outcome | None) -> _Choice | _Outcome:
        """Go on with the next device after the last one had the outcome."""
        alternative = choice.alternative
        if choice.taken is not None:
            self._taken.give_back(choice.taken)
            if outcome is _Outcome.EXCEEDED or alternative.all_devices is not None:
                return self._close(choice, outcome or _Outcome.FAILED)
            if self._equivalence is not None:
                failed = self._equivalence.choice(choice.level, choice.taken.candidate)
                choice.failed.add(failed)
        choice.taken = self._take_next(choice)
        if choice.taken is None:
            return self._close(choice, _Outcome.FAILED)
        return self._place(choice.level, alternative, choice.place + 1, choice.position)

    def _take_next(self, choice: _DeviceChoice) -> Taken | None:
        """Take the next device that can be had."""
        alternative, taken = choice.alternative, self._taken
        if alternative.all_devices is not None:
            candidate = alternative.all_devices[choice.place]
            return taken.take(alternative, candidate, must=True)
        for candidate in self._devices[choice.position :]:
            if taken.is_in_use(alternative, candidate) or not taken.fits(alternative, candidate):
                continue
            if choice.failed and self._equals_failed(choice, candidate):
                continue
            if (found := taken.take(alternative, candidate, must=False)) is not None:
                choice.position = candidate.index + 1
                return found
        return None

    def _equals_failed(self, choice: _DeviceChoice, candidate: Candidate) -> bool:
        assert self._equivalence is not None
        return self._equivalence.choice(choice.level, candidate) in choice.failed

    def _close(self, choice: _Choice, outcome: _Outcome) -> _Outcome:
        """Close the last choice; return its outcome for the choice before."""
        self._open.pop()
        if outcome is _Outcome.FAILED and choice.is_first:
            self._remember_failure(choice.level)
        return _for_earlier(outcome, choice.starts_claim)

    def _has_failed(self, level: Level) -> bool:
        """Whether a state that equals the present one failed before."""
        if not self._failed_states or self._equivalence is None:
            return False
        return self._equivalence.state(level) in self._failed_states

    def _remember_failure(self, level: Level) -> None:
        if self._equivalence is not None and len(self._failed_states) < _MOST_STATES:
            self._failed_states.add(self._equivalence.state(level))


def _for_earlier(outcome: _Outcome, starts_claim: bool) -> _Outcome:
    """Return what an outcome means to the choice before it.

    How many devices a claim gets does not depend on earlier claims' devices, but perhaps on which
    alternatives left some: so an earlier claim goes on as after any failure.
    """
    if outcome is _Outcome.EXCEEDED and starts_claim:
        return _Outcome.FAILED
    return outcome
