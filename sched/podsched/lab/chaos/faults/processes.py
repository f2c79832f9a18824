"""Faults of processes: killed, stopped, paused and restarted, and clocks that are stepped."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import APIS, Fault, Target, chosen, chosen_with_rest
from podsched.lab.chaos.system import System
from podsched.lib.processes import session_members, session_processes


def send(target: Target, signal: Signals) -> Fault:
    """Send a signal to a process, which is started again when it ends."""

    @asynccontextmanager
    async def fault(system: System, pick: float) -> AsyncIterator[str]:
        yield _send(system, target(system, pick), signal)

    return fault


def pause(target: Target) -> Fault:
    """Pause a process; when resumed, it may still believe that it leads."""

    @asynccontextmanager
    async def fault(system: System, pick: float) -> AsyncIterator[str]:
        name = target(system, pick)
        try:
            yield _send(system, name, Signals.SIGSTOP)
        finally:
            _send(system, name, Signals.SIGCONT)

    return fault


@asynccontextmanager
async def all_apis_down(system: System, _: float) -> AsyncIterator[str]:
    """Kill all API servers and keep them down."""
    processes = [system.process(name) for name in APIS]
    try:
        for process in processes:
            process.may_restart.clear()
            process.kill(Signals.SIGKILL)
        yield "all API servers are down"
    finally:
        for process in processes:
            process.may_restart.set()


@asynccontextmanager
async def rolling_restart(system: System, _: float) -> AsyncIterator[str]:
    """Restart every process with SIGTERM, each when the one before is ready again."""
    yield "rolling restart of everything"
    for process in system.cluster.processes:
        restarts = process.restarts
        process.kill(Signals.SIGTERM)
        await process.wait_restarted(restarts)
        await process.wait_ready()


def _send(system: System, name: str, signal: Signals) -> str:
    """Send a signal; return a description."""
    system.process(name).kill(signal)
    return f"{signal.name} {name}"


#: Seconds of a step, up to a day; each forward and backward.
_STEPS = (2, 20, 600, 7_200, 86_400)


@asynccontextmanager
async def step_clock(system: System, pick: float) -> AsyncIterator[str]:
    """Step the clock of the leader or of a standby."""
    if system.clocks is None:
        raise LookupError("clocks cannot be stepped")
    name, rest = chosen_with_rest((system.leader, *system.standbys), pick)
    seconds = chosen([sign * size for size in _STEPS for sign in (1, -1)], rest)
    system.clocks.step(name, seconds)
    try:
        yield f"the clock of {name} is stepped by {seconds:+,} s"
    finally:
        system.clocks.step(name, -seconds)


def kill_ray(among: Callable[[int], Sequence[int]], what: str) -> Fault:
    """Kill a Ray process, selected from its head's session; ``what`` describes it with {}."""

    @asynccontextmanager
    async def fault(system: System, pick: float) -> AsyncIterator[str]:
        head = system.cluster.ray.pid if system.cluster.ray is not None else None
        if head is None:
            raise LookupError("Ray does not run")
        pid = chosen(among(head), pick)
        os.kill(pid, Signals.SIGKILL)
        yield what.format(pid)

    return fault


def ray_workers(head: int) -> list[int]:
    """Return the processes of the head's session without itself: raylet, control store, workers."""
    return [pid for pid in session_members(head) if pid != head]


def ray_actors(head: int) -> list[int]:
    """Return the processes of actors, such as ``ray::EvaluatorActor``; not Ray's agents."""
    return [
        process.pid
        for process in session_processes(head)
        if "Actor" in process.command and process.pid != head and not process.has_ended
    ]
