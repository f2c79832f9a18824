"""Faults of etcd: members that are killed, paused, slow, full, or reconfigured."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from signal import Signals

from podsched.lab.chaos.faults.fault import chosen
from podsched.lab.chaos.system import MEMBERS, System
from podsched.lib.tasks import in_background
from podsched.serve.store.errors import StoreError

#: A disk that is slow: for how long a member stands still and goes on, in seconds.
_STILL, _GOING = 0.15, 0.15
#: Revisions that a compaction leaves, for watches that are a little behind.
_KEPT = 100


@asynccontextmanager
async def kill_member(system: System, pick: float) -> AsyncIterator[str]:
    """Kill a member and start it again."""
    index = chosen(range(MEMBERS), pick)
    async with _down(system, index):
        yield f"etcd-{index} is down"


@asynccontextmanager
async def kill_leader(system: System, _: float) -> AsyncIterator[str]:
    """Kill etcd's leader and start it again."""
    index = await system.etcd.leader()
    async with _down(system, index):
        yield f"etcd-{index}, etcd's leader, is down"


@asynccontextmanager
async def majority_down(system: System, pick: float) -> AsyncIterator[str]:
    """Kill all members but one, and start them again."""
    left = chosen(range(MEMBERS), pick)
    async with _down(system, *(index for index in range(MEMBERS) if index != left)):
        yield f"of etcd only etcd-{left} is up"


@asynccontextmanager
async def _down(system: System, *indices: int) -> AsyncIterator[None]:
    async with system.etcd_lock:
        try:
            for index in indices:
                await system.etcd.members[index].kill()
            yield
        finally:
            await system.etcd.start(indices)


@asynccontextmanager
async def move_leader(system: System, pick: float) -> AsyncIterator[str]:
    """Let etcd's leader hand over to another member."""
    leader = await system.etcd.leader()
    to = chosen([index for index in range(MEMBERS) if index != leader], pick)
    member, _ = await system.etcd.control(to).ids()
    await system.etcd.control(leader).move_leader(member)
    yield f"etcd's leader moves from etcd-{leader} to etcd-{to}"


@asynccontextmanager
async def pause_leader(system: System, _: float) -> AsyncIterator[str]:
    """Pause the process of etcd's leader, and resume it."""
    index = await system.etcd.leader()
    pid = system.etcd.pid(index)
    os.kill(pid, Signals.SIGSTOP)
    try:
        yield f"SIGSTOP etcd-{index}, etcd's leader"
    finally:
        _go_on(pid)


@asynccontextmanager
async def slow_disk(system: System, pick: float) -> AsyncIterator[str]:
    """Pause a member half of the time, like a slow disk."""
    index = chosen(range(MEMBERS), pick)
    pid = system.etcd.pid(index)
    try:
        async with in_background(_stutter(pid), "slow disk"):
            yield f"etcd-{index} stands still every {(_STILL + _GOING) * 1000:.0f} ms"
    finally:
        _go_on(pid)


async def _stutter(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, Signals.SIGSTOP)
            await asyncio.sleep(_STILL)
            os.kill(pid, Signals.SIGCONT)
            await asyncio.sleep(_GOING)


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, Signals.SIGCONT)


@asynccontextmanager
async def compact(system: System, _: float) -> AsyncIterator[str]:
    """Compact etcd's history up to the recorded revision, and defragment all members."""
    store = await system.etcd.connect()
    try:
        revision = max(system.recorded - _KEPT, 1)
        await store.compact(revision)
    finally:
        await store.close()
    yield f"etcd is compacted to {revision} and defragmented"
    for index in range(MEMBERS):
        with contextlib.suppress(StoreError):
            await system.etcd.control(index).defragment()


@asynccontextmanager
async def full(system: System, pick: float) -> AsyncIterator[str]:
    """Raise the NOSPACE alarm: etcd refuses all writes until it is disarmed."""
    index = chosen(range(MEMBERS), pick)
    await system.etcd.control(index).raise_no_space()
    try:
        yield f"etcd-{index} has no space left"
    finally:
        await _disarm(system)


async def _disarm(system: System) -> None:
    """Disarm the alarms at the first member that answers."""
    for attempt in range(30):
        try:
            await system.etcd.control(attempt % MEMBERS).disarm()
            return
        except StoreError:
            await asyncio.sleep(0.5)
    raise LookupError("no member of etcd ends the alarm")
