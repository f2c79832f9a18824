"""The wall clock of a replica is stepped, and stepped back."""

from __future__ import annotations

from contextlib import asynccontextmanager

from podsched.lab.chaos.faults.fault import Doing, chosen
from podsched.lab.chaos.system import System

#: Seconds of a step, up to a day; each forward and backward.
_STEPS = (2, 20, 600, 7_200, 86_400)


@asynccontextmanager
async def step(system: System, pick: float) -> Doing:
    """Step the clock of the leader or of a standby."""
    if system.clocks is None:
        raise LookupError("clocks cannot be stepped")
    names = (system.leader, *system.standbys)
    name, rest = chosen(names, pick), pick * len(names) % 1.0
    seconds = chosen([sign * size for size in _STEPS for sign in (1, -1)], rest)
    system.clocks.step(name, seconds)
    try:
        yield f"the clock of {name} is stepped by {seconds:+,} s"
    finally:
        system.clocks.step(name, -seconds)
