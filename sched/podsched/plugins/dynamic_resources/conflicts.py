"""Which earlier choices a failed choice depends on, so that the others are not tried again for it.

Conflict-directed backjumping (Prosser, Hybrid Algorithms for the Constraint Satisfaction Problem,
1993). Choices are bits, by their place among the open ones. A failed choice depends on those that
hold a device that it could have had, or the counters or constraints because of which a device was
refused. A choice that a failure does not depend on cannot help: its other devices are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from podsched.plugins.dynamic_resources.choices import Alternative, Candidate
from podsched.plugins.dynamic_resources.taken import Taken

#: Depends on all earlier choices.
ALL_CHOICES = -1


@dataclass(slots=True)
class Refused:
    """The devices that suit a choice but could not be had.

    ``busy``: in use, or without room. ``refused``: because of counters, constraints or taints.
    """

    busy: list[Candidate] = field(default_factory=list)
    refused: list[Candidate] = field(default_factory=list)

    def conflicts(self, alternative: Alternative, holders: Iterable[tuple[int, Taken]]) -> int:
        """Return the choices because of which; ``holders``: earlier choices and what they hold."""
        if not self.busy and not self.refused:
            return 0
        indexes = {candidate.index for candidate in (*self.busy, *self.refused)}
        counters = {counter for of in self.refused for counter in _counter_sets(of)}
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
