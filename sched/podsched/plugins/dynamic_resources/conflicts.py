"""Finds the earlier choices that a failed choice depends on, so that only these are changed.

This is conflict-directed backjumping (Prosser, Hybrid Algorithms for the Constraint Satisfaction
Problem, 1993). A set of choices is an int with one bit per open choice. A failed choice depends on
the choices that hold a device that it could have used, or that hold counters or constraints for
which a device was refused. Another device for any other choice would fail in the same way, so these
are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate
from podsched.plugins.dynamic_resources.taken import Taken

#: Depends on all earlier choices.
ALL_CHOICES = -1


@dataclass(slots=True)
class Refused:
    """The devices that suit a choice but could not be taken.

    ``busy``: in use, or with too little capacity left. ``refused``: for counters, constraints or
    taints.
    """

    busy: list[Candidate] = field(default_factory=list)
    refused: list[Candidate] = field(default_factory=list)

    def conflicts(self, alternative: Alternative, holders: Iterable[tuple[int, Taken]]) -> int:
        """Return the earlier choices because of which the devices could not be taken.

        ``holders``: the earlier choices that have taken a device, by their bit's number.
        """
        if not self.busy and not self.refused:
            return 0
        indexes = {candidate.index for candidate in (*self.busy, *self.refused)}
        counters = {counter for candidate in self.refused for counter in _counter_sets(candidate)}
        constraints = set(alternative.constraints) if self.refused else set()
        found = 0
        for depth, taken in holders:
            other = taken.alternative
            if (
                taken.candidate.index in indexes
                or (taken.has_counters and not counters.isdisjoint(_counter_sets(taken.candidate)))
                or (
                    other.claim_index == alternative.claim_index
                    and not constraints.isdisjoint(other.constraints)
                )
            ):
                found |= 1 << depth
        return found


def _counter_sets(candidate: Candidate) -> list[tuple[str, str, str]]:
    pool = candidate.pool
    return [(pool.driver, pool.name, name) for name in candidate.device.counter_sets]
