"""Leaves a server that is silent or unable, long before calls to it time out.

A client of several equal servers asks those in use every ``PERIOD``. If one gives no good answer,
it asks all servers at once, ``CONFIRM`` seconds before the ``silence`` is over. It leaves the
server only if another one answers well in that time. So it does not switch because of its own
delay, or of a fault of all servers, such as an election of etcd.

It also reports whether any server answers at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Protocol

#: Seconds of silence for clients whose delay is felt.
SILENCE: Final = 0.3
#: Seconds between two questions; seconds in which another server must answer; and seconds for which
#: a client stays with a server to which it was moved here. With 0.1 s to answer, leaders on a busy
#: machine gave the lock back although they were not cut off, in 2 of 94 rounds with faults.
PERIOD, CONFIRM, STAY = 0.1, 0.2, 2.0
#: Seconds of an own delay with which silence proves nothing.
LATE = 0.05
#: Seconds in which one own delay is noticed, and after which silence counts despite own delays.
_TICK, _MOST_LATE = 0.02, 10.0


class Health(Enum):
    """What a server answered."""

    WELL = auto()
    UNABLE = auto()
    SILENT = auto()


class Servers(Protocol):
    """The servers of a client."""

    @property
    def in_use(self) -> Collection[str]:
        """The server that gets new calls, and others that have streams."""

    @property
    def endpoints(self) -> Sequence[str]:
        """All servers."""

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return what a server answers within seconds."""

    def reached(self, reached: bool) -> None:
        """Note whether any server answers."""

    async def move(self, endpoint: str, to: str) -> None:
        """Leave one server for another; calls to the former fail."""


async def leave_silent_servers(servers: Servers, silence: float) -> None:
    """Switch away from servers without a good answer, until cancelled."""
    clock = asyncio.get_running_loop().time
    chosen, stays_until = "", 0.0
    while True:
        await asyncio.sleep(PERIOD)
        began = clock()
        asked, answers = await _ask_in_use(servers, silence)
        unwell = {name for name, answer in asked.items() if answer is not Health.WELL}
        if len(unwell) < len(asked):
            servers.reached(True)
        # A call that fails also makes the client change servers, perhaps back to the one that was
        # left: it need not stay with that one.
        if began < stays_until:
            unwell.discard(chosen)
        if not unwell:
            continue
        servers.reached(any(answer is not Health.SILENT for answer in answers.values()))
        well = [name for name, answer in answers.items() if answer is Health.WELL]
        for name in unwell.difference(well) if well else ():
            await servers.move(name, well[0])
            chosen, stays_until = well[0], clock() + STAY


async def _ask_in_use(
    servers: Servers, silence: float
) -> tuple[Mapping[str, Health], Mapping[str, Health]]:
    """Return the answers of the servers in use, and of all servers unless those answered well."""
    asking = asyncio.create_task(_ask(servers, servers.in_use, silence))
    try:
        await asyncio.wait({asking}, timeout=silence - CONFIRM)
        if asking.done() and all(answer is Health.WELL for answer in asking.result().values()):
            return asking.result(), {}
        answers = await _ask_all(servers)
        return await asking, answers
    finally:
        asking.cancel()


async def _ask_all(servers: Servers) -> Mapping[str, Health]:
    """Return the answers of all servers within ``CONFIRM`` seconds.

    Seconds in which this process was late do not count: it may have sent nothing meanwhile, and
    read no answer.
    """
    clock = asyncio.get_running_loop().time
    asking = {
        name: asyncio.create_task(servers.health(name, _MOST_LATE)) for name in servers.endpoints
    }
    left = CONFIRM
    try:
        while left > 1e-6 and not all(task.done() for task in asking.values()):
            began = clock()
            await asyncio.wait(asking.values(), timeout=_TICK)
            took = clock() - began
            left -= took if took <= _TICK + LATE else 0
        return {
            name: task.result() if task.done() else Health.SILENT for name, task in asking.items()
        }
    finally:
        for task in asking.values():
            task.cancel()


async def _ask(servers: Servers, names: Collection[str], timeout: float) -> dict[str, Health]:
    """Return what some servers answer within seconds, by server; all are asked at once."""
    answers = await asyncio.gather(*(servers.health(name, timeout) for name in names))
    return dict(zip(names, answers, strict=True))
