"""Links that are cut, half open, slow or lossy, and connections that are reset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from podsched.lab.chaos.faults.fault import Block, Doing, chosen
from podsched.lab.chaos.system import CLIENT, System
from podsched.lib.relay import Relay, Weather

_CUT = Weather(forth=False, back=False)
#: What was sent arrives, its answer does not.
_HALF_OPEN = Weather(back=False)
#: Seconds at least and in addition, and share of the chunks that are lost at least and in addition.
_SLOW, _LOSSY = (0.01, 0.14), (0.01, 0.09)


@asynccontextmanager
async def _struck(relays: Sequence[Relay], weather: Weather, what: str) -> AsyncIterator[str]:
    for relay in relays:
        relay.strike(weather)
    try:
        yield what
    finally:
        for relay in relays:
            relay.mend(weather)


def cut_leader_etcd(system: System, pick: float) -> Block:
    """Cut the leader off from etcd; it reaches the API servers."""
    del pick
    name = system.leader
    return _struck(system.links(name, "etcd"), _CUT, f"{name} -x- etcd")


def cut_leader_api(system: System, pick: float) -> Block:
    """Cut the leader off from the API servers; it reaches etcd."""
    del pick
    name = system.leader
    return _struck(system.links(name, "apiserver"), _CUT, f"{name} -x- API servers")


def cut_leader_standbys(system: System, pick: float) -> Block:
    """Cut the standbys off from the leader, which lives."""
    del pick
    name = system.leader
    return _struck(system.links("peers", name), _CUT, f"{name} -x- standbys")


def cut_leader(system: System, pick: float) -> Block:
    """Cut the leader off from everything."""
    del pick
    name = system.leader
    links = [*system.links(name, ""), *system.links("peers", name)]
    return _struck(links, _CUT, f"{name} -x- everything")


def cut_clients(system: System, pick: float) -> Block:
    """Cut clients off from one API server, or from both."""
    target = chosen(("apiserver-0", "apiserver-1", "apiserver"), pick)
    what = f"clients -x- {target if target[-1].isdigit() else 'API servers'}"
    return _struck(system.links(CLIENT, target), _CUT, what)


def cut_api_etcd(system: System, pick: float) -> Block:
    """Cut an API server off from etcd; everybody reaches it."""
    name = chosen(("apiserver-0", "apiserver-1"), pick)
    return _struck(system.links(name, "etcd"), _CUT, f"{name} -x- etcd")


def cut_agent(system: System, pick: float) -> Block:
    """Cut the agent off from the API servers."""
    del pick
    return _struck(system.links("agent", ""), _CUT, "agent -x- API servers")


def half_open_etcd(system: System, pick: float) -> Block:
    """Let what a process sends to etcd arrive, and lose the answers."""
    name = chosen(("apiserver-0", "apiserver-1", system.leader), pick)
    return _struck(system.links(name, "etcd"), _HALF_OPEN, f"{name} -> etcd, half open")


def half_open_api(system: System, pick: float) -> Block:
    """Let what a process sends to the API servers arrive, and lose the answers."""
    name = chosen((CLIENT, "agent", system.leader), pick)
    what = f"{name} -> API servers, half open"
    return _struck(system.links(name, "apiserver"), _HALF_OPEN, what)


def slow(system: System, pick: float) -> Block:
    """Delay all that a process sends and gets."""
    name, part = _anybody(system, pick)
    delay = _SLOW[0] + part * _SLOW[1]
    what = f"{name} is {delay * 1000:.0f} ms away"
    return _struck(system.links(name, ""), Weather(delay=delay), what)


def lossy(system: System, pick: float) -> Block:
    """Lose a part of what a process sends and gets, so that TCP has to send it again."""
    name, part = _anybody(system, pick)
    loss = _LOSSY[0] + part * _LOSSY[1]
    what = f"{name} loses {loss:.0%}"
    return _struck(system.links(name, ""), Weather(loss=loss), what)


def _anybody(system: System, pick: float) -> tuple[str, float]:
    """Return the name of a process and, in [0, 1), what the choice has left of ``pick``."""
    names = (CLIENT, "agent", "apiserver-0", "apiserver-1", *system.standbys, system.leader)
    return chosen(names, pick), pick * len(names) % 1.0


@asynccontextmanager
async def reset(system: System, pick: float) -> Doing:
    """Close all connections of a process; it may connect again at once."""
    name, _ = _anybody(system, pick)
    for relay in system.links(name, ""):
        relay.reset()
    yield f"connections of {name} are reset"
