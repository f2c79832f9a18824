"""Replicas in namespaces of their own that lose packets: nothing answers, nothing is refused."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import Block, Doing, chosen
from podsched.lab.chaos.namespaces import Namespaces
from podsched.lab.chaos.system import System

_BOTH = (True, False)


def drop_leader(system: System, pick: float) -> Block:
    """Lose all packets of the leader."""
    del pick
    name = system.leader
    return _lost(system, name, f"all packets of {name} are lost", *_BOTH)


def drop_leader_sent(system: System, pick: float) -> Block:
    """Lose all packets that the leader sends; it gets those of others."""
    del pick
    name = system.leader
    return _lost(system, name, f"all packets that {name} sends are lost", True)


def drop_leader_received(system: System, pick: float) -> Block:
    """Lose all packets for the leader; others get what it sends."""
    del pick
    name = system.leader
    return _lost(system, name, f"all packets for {name} are lost", False)


def drop_standby(system: System, pick: float) -> Block:
    """Lose all packets of a standby."""
    name = chosen(system.standbys, pick)
    return _lost(system, name, f"all packets of {name} are lost", *_BOTH)


@asynccontextmanager
async def kill_unheard_leader(system: System, pick: float) -> Doing:
    """Kill the leader while its packets are lost: its connections stay half open."""
    del pick
    name = system.leader
    async with _lost(system, name, "", *_BOTH):
        system.process(name).kill(Signals.SIGKILL)
        yield f"SIGKILL {name}, whose packets are all lost"


@asynccontextmanager
async def _lost(system: System, name: str, what: str, *directions: bool) -> Doing:
    async with AsyncExitStack() as healing:
        for sent in directions:
            await _namespaces(system).lose(name, sent=sent)
            healing.push_async_callback(_namespaces(system).heal, name, sent=sent)
        yield what


def _namespaces(system: System) -> Namespaces:
    if system.namespaces is None:
        raise LookupError("replicas have no namespaces of their own")
    return system.namespaces
