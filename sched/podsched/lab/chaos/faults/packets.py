"""Replicas in namespaces of their own that lose packets: nothing answers, nothing is refused."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import Do, Doing, Target, leader
from podsched.lab.chaos.system import System

_BOTH = (True, False)


def drop(
    target: Target, what: str = "all packets of {} are lost", *, sent: bool | None = None
) -> Do:
    """Lose all packets that a replica sends, or all for it, or both (None)."""

    @asynccontextmanager
    async def do(system: System, pick: float) -> Doing:
        if system.namespaces is None:
            raise LookupError("replicas have no namespaces of their own")
        name = target(system, pick)
        async with AsyncExitStack() as healing:
            for direction in _BOTH if sent is None else (sent,):
                await system.namespaces.lose(name, sent=direction)
                healing.push_async_callback(system.namespaces.heal, name, sent=direction)
            yield what.format(name)

    return do


@asynccontextmanager
async def kill_unheard_leader(system: System, pick: float) -> Doing:
    """Kill the leader while its packets are lost: its connections stay half open."""
    name = system.leader
    async with drop(leader)(system, pick):
        system.process(name).kill(Signals.SIGKILL)
        yield f"SIGKILL {name}, whose packets are all lost"
