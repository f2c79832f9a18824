"""Faults of the network: links that are cut, half open, slow or lossy, and lost packets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import APIS, Fault, Target, chosen, chosen_with_rest, leader
from podsched.lab.chaos.system import CLIENT, System
from podsched.lib.relay import LinkState

CUT = LinkState(forward=False, backward=False)
#: What was sent arrives, its answer does not.
HALF_OPEN = LinkState(backward=False)
#: The least, and by how much it may be more: seconds of delay, and share of the chunks lost.
_SLOW, _LOSSY = (0.01, 0.14), (0.01, 0.09)


def impair(target: Target, state: LinkState, what: str, *ends: tuple[str, str]) -> Fault:
    """Change the state of links of a process.

    Its name stands for {} in the description ``what``, and in ``ends``: prefixes of the names of a
    link's source and target.
    """

    @asynccontextmanager
    async def fault(system: System, pick: float) -> AsyncIterator[str]:
        name = target(system, pick)
        links = [(source.format(name), to.format(name)) for source, to in ends]
        async with _impaired(system, links, state):
            yield what.format(name)

    return fault


@asynccontextmanager
async def _impaired(
    system: System, ends: Sequence[tuple[str, str]], state: LinkState
) -> AsyncIterator[None]:
    relays = [relay for source, target in ends for relay in system.links.between(source, target)]
    for relay in relays:
        relay.link.impair(state)
    try:
        yield
    finally:
        for relay in relays:
            relay.link.restore(state)


@asynccontextmanager
async def cut_clients(system: System, pick: float) -> AsyncIterator[str]:
    """Cut clients off from one API server, or from both."""
    target = chosen((*APIS, "apiserver"), pick)
    async with _impaired(system, [(CLIENT, target)], CUT):
        yield f"clients -x- {target if target in APIS else 'API servers'}"


@asynccontextmanager
async def slow(system: System, pick: float) -> AsyncIterator[str]:
    """Delay all traffic of a process."""
    name, part = _anybody(system, pick)
    delay = _SLOW[0] + part * _SLOW[1]
    async with _impaired(system, [(name, "")], LinkState(delay=delay)):
        yield f"{name} is {delay * 1000:.0f} ms away"


@asynccontextmanager
async def lossy(system: System, pick: float) -> AsyncIterator[str]:
    """Lose a part of a process's traffic, so that TCP must send it again."""
    name, part = _anybody(system, pick)
    loss = _LOSSY[0] + part * _LOSSY[1]
    async with _impaired(system, [(name, "")], LinkState(loss=loss)):
        yield f"{name} loses {loss:.0%}"


@asynccontextmanager
async def reset(system: System, pick: float) -> AsyncIterator[str]:
    """Close all connections of a process; it may connect again at once."""
    name, _ = _anybody(system, pick)
    for relay in system.links.between(name, ""):
        relay.reset()
    yield f"connections of {name} are reset"


def etcd_user(system: System, pick: float) -> str:
    """Return a process that talks to etcd."""
    return chosen((*APIS, system.leader), pick)


def api_user(system: System, pick: float) -> str:
    """Return a process that talks to the API servers, or the clients."""
    return chosen((CLIENT, "agent", system.leader), pick)


def _anybody(system: System, pick: float) -> tuple[str, float]:
    """Return the name of a process and the rest of ``pick``, again in [0, 1)."""
    return chosen_with_rest((CLIENT, "agent", *APIS, *system.standbys, system.leader), pick)


def drop(
    target: Target, what: str = "all packets of {} are lost", *, sent: bool | None = None
) -> Fault:
    """Lose all packets from a replica, to it, or both (None)."""

    @asynccontextmanager
    async def fault(system: System, pick: float) -> AsyncIterator[str]:
        if system.namespaces is None:
            raise LookupError("replicas have no namespaces of their own")
        name = target(system, pick)
        async with AsyncExitStack() as healing:
            for direction in (True, False) if sent is None else (sent,):
                await system.namespaces.lose(name, sent=direction)
                healing.push_async_callback(system.namespaces.heal, name, sent=direction)
            yield what.format(name)

    return fault


@asynccontextmanager
async def kill_unheard_leader(system: System, pick: float) -> AsyncIterator[str]:
    """Kill the leader while its packets are lost: its connections stay half open."""
    name = system.leader
    async with drop(leader)(system, pick):
        system.process(name).kill(Signals.SIGKILL)
        yield f"SIGKILL {name}, whose packets are all lost"
