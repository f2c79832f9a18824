"""What is broken when: a plan from a seed. Pure.

Who is meant is decided when a fault begins ("the leader"), from the plan's ``pick``. The same seed
gives the same plan; what the system makes of it depends on the machine.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

#: Seconds before the first fault, and the most after which one begins while another one lasts.
WARM_UP, OVERLAP = 3.0, 2.0
#: Seconds between the end of a fault and the beginning of the next one.
PAUSE = (0.5, 5.0)
#: How often a fault begins before the one before it is over.
OVERLAPPING = 0.25


@dataclass(frozen=True, slots=True)
class Span:
    """How long a fault may last, in seconds."""

    shortest: float
    longest: float


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault at a time, for so many seconds. ``pick``: in [0, 1), chooses among targets."""

    number: int
    at: float
    name: str
    seconds: float
    pick: float


def shortest_run(span: Span) -> float:
    """Return the seconds that a run has to last for a fault to be part of it: four times its own.

    A longer one would leave no time for others.
    """
    return 4 * span.longest


def plan(seed: int, seconds: float, spans: Mapping[str, Span]) -> list[PlannedFault]:
    """Return the faults of a run of so many seconds, in the order in which they begin.

    Every kind comes once before one comes again. What may last too long for the run is left out.
    """
    chance = random.Random(seed)
    names = sorted(name for name, span in spans.items() if shortest_run(span) <= seconds)
    faults: list[PlannedFault] = []
    bag: list[str] = []
    at = WARM_UP
    while names:
        if not bag:
            bag = chance.sample(names, len(names))
        name = bag.pop()
        span = spans[name]
        lasts = chance.uniform(span.shortest, span.longest)
        if at + lasts > seconds:
            break
        faults.append(PlannedFault(len(faults) + 1, at, name, lasts, chance.random()))
        pause, overlap = chance.uniform(*PAUSE), chance.uniform(0, OVERLAP)
        overlaps = chance.random() < OVERLAPPING
        at += overlap if overlaps and overlap < lasts else lasts + pause
    return faults
