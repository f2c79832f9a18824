"""Processes that are killed, stopped, paused and restarted."""

from __future__ import annotations

from contextlib import asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import Block, Doing, chosen
from podsched.lab.chaos.system import System

_APIS = ("apiserver-0", "apiserver-1")


@asynccontextmanager
async def kill_leader(system: System, pick: float) -> Doing:
    """Kill the leader; it is started again."""
    del pick
    yield _send(system, system.leader, Signals.SIGKILL)


@asynccontextmanager
async def kill_standby(system: System, pick: float) -> Doing:
    """Kill a standby; it is started again."""
    yield _send(system, chosen(system.standbys, pick), Signals.SIGKILL)


@asynccontextmanager
async def stop_leader(system: System, pick: float) -> Doing:
    """Ask the leader to end; it is started again."""
    del pick
    yield _send(system, system.leader, Signals.SIGTERM)


def pause_leader(system: System, pick: float) -> Block:
    """Stop the leader's process; it goes on where it was, leading as far as it knows."""
    del pick
    return _paused(system, system.leader)


def pause_standby(system: System, pick: float) -> Block:
    """Stop a standby's process, and let it go on."""
    return _paused(system, chosen(system.standbys, pick))


@asynccontextmanager
async def kill_api(system: System, pick: float) -> Doing:
    """Kill an API server; it is started again."""
    yield _send(system, chosen(_APIS, pick), Signals.SIGKILL)


def hang_api(system: System, pick: float) -> Block:
    """Stop an API server's process: it accepts connections and answers nothing."""
    return _paused(system, chosen(_APIS, pick))


@asynccontextmanager
async def all_apis_down(system: System, pick: float) -> Doing:
    """Kill all API servers and keep them down."""
    del pick
    processes = [system.process(name) for name in _APIS]
    try:
        for process in processes:
            process.hold()
            process.kill(Signals.SIGKILL)
        yield "all API servers are down"
    finally:
        for process in processes:
            process.release()


@asynccontextmanager
async def kill_agent(system: System, pick: float) -> Doing:
    """Kill the agent of all nodes; it is started again."""
    del pick
    yield _send(system, "agent", Signals.SIGKILL)


def silent_agent(system: System, pick: float) -> Block:
    """Stop the agent's process: no node sends heartbeats, no pod starts or ends."""
    del pick
    return _paused(system, "agent")


@asynccontextmanager
async def rolling_restart(system: System, pick: float) -> Doing:
    """Ask every process to end, one after the other, each when the one before is ready again."""
    del pick
    yield "rolling restart of everything"
    for process in system.cluster.processes:
        restarts = process.restarts
        process.kill(Signals.SIGTERM)
        await process.wait_restarted(restarts)
        await process.wait_ready()


@asynccontextmanager
async def _paused(system: System, name: str) -> Doing:
    try:
        yield _send(system, name, Signals.SIGSTOP)
    finally:
        _send(system, name, Signals.SIGCONT)


def _send(system: System, name: str, signal: Signals) -> str:
    """Send a signal. Returns that in words."""
    system.process(name).kill(signal)
    return f"{signal.name} {name}"
