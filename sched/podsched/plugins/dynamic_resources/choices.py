"""The open choices of a search, and the choices that a failure depends on.

Such *conflicts* are those of conflict-directed backjumping (Prosser, Hybrid Algorithms for the
Constraint Satisfaction Problem, 1993). A set of choices is an int with one bit per open choice. A
failed choice depends on the choices that hold a device that it could have used, or that hold
counters or constraints for which a device was refused. Another device for any other choice would
fail in the same way, so the search skips these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.taken import Taken

#: The conflicts of a failure that depends on all earlier choices.
ALL_CHOICES = -1


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no solution after the open choices.

    ``conflicts``: the choices that the failure depends on. ``within_order``: only devices after the
    device of the request's previous place were tried.
    """

    conflicts: int
    within_order: bool = False


@dataclass(slots=True)
class Choice:
    """An open choice for a request.

    ``depth``: the number of choices before it. ``conflicts``: the earlier choices that failures so
    far depend on.
    """

    level: Level
    depth: int
    conflicts: int = 0

    @property
    def bit(self) -> int:
        """The set with only this choice."""
        return 1 << self.depth

    def note(self, failed: Failed) -> bool:
        """Note a failure after this choice; return whether it depends on the choice."""
        self.conflicts |= failed.conflicts & ~self.bit
        return bool(failed.conflicts & self.bit)


@dataclass(slots=True)
class AlternativeChoice(Choice):
    """The choice of an alternative of ``firstAvailable``; ``next``: the index of the next one."""

    next: int = 0
    all_exceeded: bool = True


@dataclass(slots=True)
class DeviceChoice(Choice):
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

    def refused_for(self, earlier: Iterable[Choice]) -> int:
        """Return the earlier choices because of which devices could not be taken."""
        if not self.busy and not self.refused:
            return 0
        indexes = {candidate.index for candidate in (*self.busy, *self.refused)}
        counters = {counter for candidate in self.refused for counter in candidate.counter_sets}
        constraints = set(self.alternative.constraints) if self.refused else set()
        found = 0
        for holder in earlier:
            if not isinstance(holder, DeviceChoice) or holder.taken is None:
                continue
            taken, other = holder.taken, holder.taken.alternative
            if (
                taken.candidate.index in indexes
                or (taken.has_counters and not counters.isdisjoint(taken.candidate.counter_sets))
                or (
                    other.claim_index == self.alternative.claim_index
                    and not constraints.isdisjoint(other.constraints)
                )
            ):
                found |= holder.bit
        return found


def conflicts_of_state(level: Level, choices: Iterable[Choice], equivalence: Equivalence) -> int:
    """Return the choices that the state before a request depends on."""
    found = 0
    for choice in choices:
        if isinstance(choice, DeviceChoice) and choice.taken is not None:
            depends = equivalence.is_in_state(level, choice.taken)
        else:
            depends = choice.level.claim_index == level.claim_index
        if depends:
            found |= choice.bit
    return found
